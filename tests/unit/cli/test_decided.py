"""`fairbound audit` without --label judges whom the decisions select; and files whose outcomes are known by the decision
alone are warned of."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.cli.files import columns
from fairbound.cli.judging import decided
from fairbound.report import schema

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")


@pytest.fixture
def lent(tmp_path):
    """A file of a lender: who was turned down has no outcome."""
    rng = np.random.default_rng(2)
    n = 2000
    sex = rng.choice(["F", "M"], n)
    p = rng.random(n).round(4)
    said = np.where(p > np.where(sex == "F", 0.6, 0.4), "approved", "denied")
    paid = rng.choice(["no", "yes"], n).astype(object)
    paid[said == "denied"] = None
    table = pd.DataFrame({"sex": sex, "p": p, "said": said, "paid": paid, "w": rng.uniform(1, 2, n)})
    table.to_csv(tmp_path / "lent.csv", index=False)
    return tmp_path / "lent.csv", table


def in_words(data, out):
    """An audit of the decisions that are words."""
    return ("audit", "--data", data, "--score", "said", "--positive", "approved", "--group", "sex", "--out", out)


def test_decisions_in_words_are_judged_without_outcomes(run, lent, tmp_path):
    path, table = lent
    args = in_words(path, tmp_path / "o")
    code, out, err = run(*args, "--constraint", "demographic_parity <= 0.05", "--weights", "w")
    assert code == 1, err
    found = json.loads((tmp_path / "o" / "audit.json").read_text())
    schema.validate(found)
    rates = table.assign(one=table.said == "approved").groupby("sex").apply(lambda g: np.average(g.one, weights=g.w))
    assert found["constraints"][0]["value"] == pytest.approx(abs(rates["F"] - rates["M"]), abs=1e-9)
    assert (
        found["data"]["label"] == "said" and found["data"]["positive"] == "approved" and found["data"]["rows"] == 2000
    )
    assert "Accuracy" not in out and "Positive is said = approved" in out
    assert (tmp_path / "o" / "impact.csv").exists() and (tmp_path / "o" / "model_card.md").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--constraint", "equal_opportunity <= 0.05"), "needs the outcomes of the rows (y; --label)"),
        (
            ("--constraint", "equal_opportunity <= 0.05", "--chunk-rows", 50),
            "needs the outcomes of the rows (y; --label)",
        ),
        (("--constraint", "demographic_parity <= 0.05", "--qid", "w"), "with --label, which --qid needs"),
    ],
)
def test_what_needs_outcomes_asks_for_the_label(run, lent, tmp_path, more, said):
    code, _, err = run("audit", "--data", lent[0], "--score", "said", "--group", "sex", "--out", tmp_path / "o", *more)
    assert code == 2 and said in err and not (tmp_path / "o" / "audit.json").exists()


SELECTIVE = "Who has an outcome depends on the decision: 0 % of the"


def test_outcomes_that_only_the_accepted_have_are_warned_of(run, lent, tmp_path):
    path, table = lent
    args = ("--data", path, "--label", "paid", "--group", "sex", "--constraint", "equal_opportunity <= 0.2")
    table["half"] = np.where(table.said == "approved", 0.9, 0.1)
    table.to_csv(path, index=False)
    _, out, _ = run("audit", *args, "--score", "half", "--drop-missing-labels", "--out", tmp_path / "o")
    assert SELECTIVE in out and "can be had by leaving --label out" in out
    _, out, _ = run("monitor", *args, "--score", "half", "--state", tmp_path / "m")
    assert SELECTIVE in out and "by a state begun without --label" in out


def test_outcomes_that_are_missing_by_chance_are_not(run, lent, tmp_path):
    path, table = lent
    rng = np.random.default_rng(0)
    table["paid"] = np.where(rng.random(2000) < 0.3, None, rng.choice(["no", "yes"], 2000))
    table.to_csv(path, index=False)
    args = ("--data", path, "--label", "paid", "--group", "sex", "--constraint", "equal_opportunity <= 0.2")
    _, out, _ = run("audit", *args, "--score", "p", "--drop-missing-labels", "--out", tmp_path / "o")
    assert "Who has an outcome" not in out
    _, out, _ = run("monitor", *args, "--score", "p", "--state", tmp_path / "m")
    assert "Who has an outcome" not in out


@pytest.mark.parametrize(
    ("stated", "holds"),
    [
        ("said=approved", lambda t: t.said == "approved"),
        ("p>0.5", lambda t: t.p > 0.5),
        ("p<=0.25", lambda t: t.p <= 0.25),
    ],
)
def test_what_counts_as_positive_is_said_of_a_column(run, lent, tmp_path, stated, holds):
    path, table = lent
    args = ("--data", path, "--group", "sex", "--constraint", "demographic_parity <= 0.05", "--out", tmp_path / "o")
    run("audit", *args, "--score", stated)
    found = json.loads((tmp_path / "o" / "audit.json").read_text())
    by_sex = holds(table).groupby(table.sex).mean()
    assert found["constraints"][0]["value"] == pytest.approx(abs(by_sex["F"] - by_sex["M"]))
    table["paid"] = np.random.default_rng(3).choice(["no", "yes"], len(table))
    table.to_csv(path, index=False)
    _, out, err = run("audit", *args, "--score", stated, "--label", "paid", "--json")
    assert json.loads(out)["metrics"]["selection_rate"] == pytest.approx(holds(table).mean()), err
    _, out, err = run("monitor", *args[:-2], "--score", stated, "--label", "paid", "--state", tmp_path / "m", "--json")
    assert out, err
    assert json.loads(out)["metrics"]["selection_rate"] == pytest.approx(holds(table).mean())


def test_two_vendors_are_compared_each_by_its_own_threshold(run, lent):
    path, table = lent
    table["paid"], table["points"] = "no", 600 + 100 * (table.p - 0.5)
    table.loc[::2, "paid"] = "yes"
    table.to_csv(path, index=False)
    args = ("--data", path, "--label", "paid", "--group", "sex", "--json")
    _, out, err = run("compare", "points>600", "p>0.6", *args)
    found = json.loads(out)
    assert found["names"] == ["points>600", "p>0.6"], err
    assert found["changed"] == int(((table.p > 0.5) != (table.p > 0.6)).sum())
    _, out, err = run("compare", "points>600", "p>0.6", "--data", path, "--group", "sex", "--json")
    assert all(d["name"].startswith("selection_rate") for d in json.loads(out)["differences"]), err


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("said=approve", "no cell of the column 'said' is 'approve'; there are 'approved', 'denied'."),
        ("p>high", "a number must follow '>', as in p>0.5."),
        ("q=1", "there is no column 'q=1'"),
    ],
)
def test_what_is_stated_wrongly_is_told(run, lent, tmp_path, stated, said):
    code, _, err = run("audit", "--data", lent[0], "--group", "sex", "--score", stated, "--out", tmp_path / "o")
    assert code == 2 and said in err


@pytest.mark.parametrize("spelled", ["Approved", "approved "])
def test_other_spellings_of_the_word_that_is_positive_are_no_negative_decisions(run, lent, tmp_path, spelled):
    path, table = lent
    table.loc[table.index[table.said == "approved"][::3], "said"] = spelled
    table.to_csv(path, index=False)
    code, _, err = run("audit", "--data", path, "--group", "sex", "--score", "said=approved", "--out", tmp_path / "o")
    assert code == 2 and "differ from 'approved' only in capitals or blanks" in err


def test_words_that_are_no_labels_are_told_how_to_be_decisions(run, lent, tmp_path):
    args = ("--data", lent[0], "--label", "paid", "--drop-missing-labels", "--group", "sex", "--out", tmp_path / "o")
    lent[1].assign(paid=["no", "yes"] * 1000).to_csv(lent[0], index=False)
    code, _, err = run("audit", *args, "--score", "said")
    assert code == 2 and "name the one that is positive, as in 'said=" in err


def test_compared_bounds_that_have_nothing_to_cross_are_said(run, lent):
    lent[1].assign(paid=["no", "yes"] * 1000).to_csv(lent[0], index=False)
    bound = ("--constraint", "demographic_parity[crossed] <= 0.1")
    _, out, _ = run("compare", "p>0.4", "p>0.6", "--data", lent[0], "--label", "paid", "--group", "sex", *bound)
    assert "has nothing to cross: sex is the only sensitive attribute" in out


def test_decisions_are_watched_without_outcomes(run, lent, tmp_path):
    path, table = lent
    args = ("--state", tmp_path / "m", "--group", "sex", "--score", "said", "--positive", "approved")
    code, out, err = run("monitor", "--data", path, *args, "--constraint", "demographic_parity <= 0.05")
    assert code == 1 and "Accuracy" not in out and "Positive is" in out, err
    found = json.loads((tmp_path / "m" / "audit.json").read_text())
    schema.validate(found)
    assert found["metrics"] == {"selection_rate": pytest.approx((table.said == "approved").mean())}
    table.head(700).to_csv(tmp_path / "next.csv", index=False)
    _, out, err = run("monitor", "--data", tmp_path / "next.csv", *args, "--json")
    assert json.loads(out)["rows"] == 2700, err
    _, out, _ = run("monitor", "--state", tmp_path / "m")
    assert "Accuracy" not in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--score", "said", "--constraint", "equal_opportunity <= 0.1"), "needs the outcomes of the rows"),
        (("--score", "p", "--constraint", "demographic_parity <= 0.1"), "as in --score 'p>0.5'"),
        (("--score", "p", "--threshold", 0.4, "--constraint", "demographic_parity <= 0.1"), "--score 'p>0.4'"),
    ],
)
def test_a_monitor_without_outcomes_says_what_it_needs(run, lent, tmp_path, more, said):
    code, _, err = run("monitor", "--data", lent[0], "--state", tmp_path / "m", "--group", "sex", *more)
    assert code == 2 and said in err and not (tmp_path / "m" / "monitor.json").exists()


def test_a_later_file_without_the_groups_is_told_to_name_them(run, lent, tmp_path):
    path, table = lent
    args = ("--label", "said", "--score", "said", "--positive", "approved", "--state", tmp_path / "m")
    run("monitor", "--data", path, *args, "--group", "sex", "--constraint", "demographic_parity <= 0.2")
    table.head(900).to_csv(tmp_path / "next.csv", index=False)
    code, _, err = run("monitor", "--data", tmp_path / "next.csv", *args)
    assert code == 2 and "name the columns of sex with --group, which this monitor compares." in err


PARITY = ("--group", "sex", "--constraint", "demographic_parity <= 0.05")


def audit_of(run, folder, *args):
    """The report of an audit, and the exit code."""
    code, _, err = run("audit", *args, "--out", folder)
    assert (folder / "audit.json").exists(), err
    found = json.loads((folder / "audit.json").read_text())
    schema.validate(found)
    return found, code


@pytest.mark.parametrize(
    "given",
    [
        ("--score", "said", "--positive", "approved"),
        ("--score", "said=approved"),
        ("--score", "p"),
        ("--score", "p", "--threshold", 0.4),
        ("--score", "points>600"),
    ],
)
def test_a_file_in_parts_is_judged_without_outcomes_as_the_whole(run, lent, tmp_path, given):
    path, table = lent
    table.assign(points=600 + 100 * (table.p - 0.5)).to_csv(path, index=False)
    whole, code = audit_of(run, tmp_path / "w", "--data", path, *PARITY, *given)
    parts, again = audit_of(run, tmp_path / "p", "--data", path, *PARITY, *given, "--chunk-rows", 150)
    assert code == again
    for part in ("constraints", "metrics", "groups", "distributions", "data", "title", "verdict"):
        assert parts[part] == whole[part], part


@pytest.fixture
def learnt(lent, tmp_path):
    """A model trained under shares selected, in its folder, and its decisions on the file."""
    path, table = lent
    y = np.random.default_rng(1).random(len(table)) < table.p
    table["noise"] = np.random.default_rng(0).normal(size=len(table))
    stated = "demographic_parity[fewest=30] <= 0.3"
    fair = fb.FairClassifier(stated, random_state=0, budget="30 steps").fit(
        table[["p", "noise"]], np.where(y, "yes", "no"), sensitive_features=table[["sex"]]
    )
    fair.save(tmp_path / "model")
    table.to_csv(path, index=False)
    return tmp_path / "model", fair.predict(table[["p", "noise"]]) == "yes"


@pytest.mark.parametrize("more", [(), ("--chunk-rows", 300)])
def test_a_saved_model_is_judged_without_outcomes_by_its_own_bounds(run, lent, learnt, tmp_path, more):
    path, table = lent
    folder, decisions = learnt
    found, _ = audit_of(run, tmp_path / "o", "--data", path, "--model", folder, "--group", "sex", *more)
    (bound,) = found["constraints"]
    by_sex = pd.Series(decisions).groupby(table.sex).mean()
    assert bound["text"] == "demographic_parity[fewest=30] <= 0.3"
    assert bound["value"] == pytest.approx(abs(by_sex["F"] - by_sex["M"]))
    assert set(found["metrics"]) == {"selection_rate"} and found["data"]["positive"] == "yes"
    assert any("No outcomes were given" in note for note in found["notes"])
    args = ("audit", "--data", path, "--model", folder, "--group", "sex", "--out", tmp_path / "x", *more)
    code, _, err = run(*args, "--constraint", "equalized_odds <= 0.1")
    assert code == 2 and "needs the outcomes of the rows (y; --label), and none are given" in err
    code, _, err = run(*args, "--positive", "no")
    assert code == 2 and "the model's positive label is 'yes', not 'no'" in err


def test_what_a_model_of_more_classes_decides_needs_outcomes(run, lent, tmp_path):
    path, table = lent
    kind = np.resize(["a", "b", "c"], len(table))
    fair = fb.FairClassifier(random_state=0, budget="5 steps").fit(table[["p"]], kind)
    fair.save(tmp_path / "three")
    code, _, err = run("audit", "--data", path, "--model", tmp_path / "three", *PARITY, "--out", tmp_path / "o")
    assert code == 2 and "the model has 3 classes, none of them positive" in err and "--label" in err
    fb.FairRegressor(random_state=0).fit(table[["p"]], table.w).save(tmp_path / "number")
    code, _, err = run("audit", "--data", path, "--model", tmp_path / "number", *PARITY, "--out", tmp_path / "o")
    assert code == 2 and "with --label, which a saved FairRegressor needs" in err


def test_a_saved_model_and_a_column_are_compared_without_outcomes(run, lent, learnt, tmp_path):
    path, table = lent
    folder, decisions = learnt
    _, out, err = run("compare", folder, "p>0.6", "--data", path, "--group", "sex", "--json")
    found = json.loads(out)
    assert found["changed"] == int((decisions != (table.p > 0.6)).sum()), err
    assert {d["name"].split(",")[0].split("[")[0] for d in found["differences"]} == {
        "selection_rate",
        "demographic_parity",
    }
    code, _, err = run(
        "compare", folder, "p>0.6", "--data", path, "--group", "sex", "--constraint", "equalized_odds <= 1"
    )
    assert code == 2 and "needs the outcomes of the rows" in err


def test_the_decisions_of_a_saved_model_are_watched_without_outcomes(run, lent, learnt, tmp_path):
    _, table = lent
    folder, decisions = learnt
    state = ("--state", tmp_path / "state")
    table[:1200].to_csv(tmp_path / "a.csv", index=False)
    table[1200:].to_csv(tmp_path / "b.csv", index=False)
    table.assign(paid=np.resize(["no", "yes"], 2000)).to_csv(tmp_path / "c.csv", index=False)

    def watched(name, *more):
        return run("monitor", "--group", "sex", "--model", folder, "--data", tmp_path / name, "--json", *more)

    for name in ("a.csv", "b.csv"):
        _, out, err = watched(name, *state)
        assert out, err
    found = json.loads(out)
    assert found["metrics"] == {"selection_rate": pytest.approx(decisions.mean())} and found["rows"] == 2000
    code, _, err = watched("c.csv", *state, "--label", "paid")
    assert code == 2 and "--label differs from the state: this monitor watches decisions without outcomes" in err
    code, _, err = watched("a.csv", "--state", tmp_path / "new", "--constraint", "equalized_odds <= 1")
    assert code == 2 and "needs the outcomes of the rows" in err
    _, out, err = watched("c.csv", "--state", tmp_path / "labelled", "--label", "paid")
    assert "accuracy" in json.loads(out)["metrics"], err
    code, _, err = watched("a.csv", "--state", tmp_path / "labelled")
    assert code == 2 and "name the column with --label" in err


def test_the_file_is_read_once_to_say_who_has_no_outcome(run, lent, tmp_path, monkeypatch):
    path, _ = lent
    read, times = columns.read_table, []
    for module in (columns, decided):
        monkeypatch.setattr(module, "read_table", lambda *args, **more: times.append(args) or read(*args, **more))
    args = ("--data", path, "--label", "paid", "--group", "sex", "--drop-missing-labels")
    _, out, _ = run(
        "audit", *args, "--score", "said=approved", "--constraint", "equal_opportunity <= 0.2", "--out", tmp_path / "o"
    )
    assert SELECTIVE in out and len(times) == 1
    times.clear()
    _, out, err = run("compare", "said=approved", "p>0.5", *args)
    assert "said=approved: Who has an outcome depends on the decision" in out and len(times) == 1, err


def test_a_report_on_decisions_alone_speaks_of_decisions(run, lent, tmp_path):
    words = in_words(lent[0], tmp_path / "o")
    code, out, err = run(*words, "--constraint", "demographic_parity <= 0.05")
    page = (tmp_path / "o" / "report.html").read_text()
    assert code == 1, err
    assert "2,000 decisions" in out and "held-out" not in out
    assert "<dt>Decision</dt>" in page and "<dt>Decisions</dt>" in page and "<dt>Label</dt>" not in page
    assert not any(
        words in page for words in ("Held-out rows", "held-out rows", "held out", "surrogate used in training")
    )


@pytest.mark.parametrize("score", ["p>0.5", "d"])
def test_decisions_have_no_area_under_a_curve(run, lent, tmp_path, score):
    path, table = lent
    table = table.dropna().assign(d=lambda t: (t.p > 0.5).astype(int))
    table.loc[table.index[:50], "paid"] = "no"
    table.to_csv(path, index=False)
    args = ("--data", path, "--label", "paid", "--group", "sex", "--out", tmp_path / "o", "--json")
    for column, known in ((score, False), ("p", True)):
        code, out, err = run("audit", "--score", column, *args)
        assert code == 0 and (json.loads(out)["metrics"]["auc"] is not None) == known, (out, err)


def test_missing_decisions_are_not_called_labels(run, lent, tmp_path):
    path, table = lent
    table.loc[3:4, "said"] = None
    table.to_csv(path, index=False)
    code, _, err = run(*in_words(path, tmp_path / "o"))
    assert code == 2 and "decision column 'said': 2 of 2,000 decisions are missing, the first in line 5" in err, err
    code, _, err = run("compare", "said", "p>0.5", "--data", path, "--positive", "approved", "--group", "sex")
    assert code == 2 and "the decision is missing in 2 of 2,000 rows, the first in line 5" in err, err


def test_a_positive_label_of_scores_is_refused_by_the_option_s_name_alone(run, lent):
    code, _, err = run("compare", "p", "w", "--data", lent[0], "--group", "sex", "--positive", "approved")
    assert code == 2 and "fairbound: --positive names one of two words" in err.replace(f"{lent[0].name}: ", ""), err


@pytest.mark.parametrize("label", [("--label", "y"), ()])
def test_parts_may_lack_what_all_rows_have(run, tmp_path, label):
    rng = np.random.default_rng(1)
    n = 1800
    table = pd.DataFrame({"y": rng.integers(0, 2, n), "p": rng.random(n).round(4), "sex": rng.choice(["F", "M"], n)})
    table["region"], table["person"] = np.arange(n) % 150, np.arange(n)
    table.loc[600:899, "sex"] = None  # all of the third part
    table.to_csv(tmp_path / "t.csv", index=False)
    args = ("--data", tmp_path / "t.csv", "--score", "p", "--threshold", "0.5", *label)
    stated = ("--group", "sex,region", "--constraint", "demographic_parity <= 0.9")
    whole, _ = audit_of(run, tmp_path / "w", *args, *stated)
    parts, _ = audit_of(run, tmp_path / "p", *args, *stated, "--chunk-rows", 300)
    assert parts["constraints"] == whole["constraints"] and parts["data"] == whole["data"]
    code, _, err = run("audit", *args, "--group", "person", "--out", tmp_path / "o", "--chunk-rows", 300)
    assert code == 2 and "'person' has 300 values in 1800 rows" in err
