"""`fairbound monitor`: files added one by one, exit codes of the audit, a page that shows all looks, and safe state."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.report import schema

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")


def new_rows(path, n, seed, rates=(0.5, 0.4)):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    hit = rng.random(n) < np.where(sex == "F", *rates)
    paid = rng.choice(["no", "yes"], n).astype(object)
    frame = pd.DataFrame({"sex": sex, "paid": paid, "p": np.where(hit, 0.8, 0.3), "said": np.where(hit, "yes", "no")})
    frame.to_csv(path, index=False)
    return frame


def test_files_are_added_and_the_exit_code_is_that_of_all_rows(run, tmp_path):
    state, args = tmp_path / "state", ("--label", "paid", "--group", "sex", "--score", "p")
    frames = [new_rows(tmp_path / f"{k}.csv", 2000, k) for k in range(4)]
    codes = []
    for k in range(4):
        bound = ("--constraint", "demographic_parity <= 0.06") if k == 0 else ()
        code, out, err = run("monitor", "--state", state, "--data", tmp_path / f"{k}.csv", *args, *bound)
        codes.append(code)
        assert code in (1, 3), err
    assert codes[0] == 3 and codes[-1] == 1 and "alarm: demographic_parity <= 0.06 was found violated at" in out
    found = json.loads((state / "audit.json").read_text())
    schema.validate(found)
    assert found["monitoring"]["looks"] == [2000, 4000, 6000, 8000]
    page = (state / "report.html").read_text()
    assert "Over time" in page and "over 8,000 decisions" in page
    own = fb.Monitor("demographic_parity <= 0.06", classes=("no", "yes"), threshold=0.5)
    for f in frames:
        own.update(f["paid"], f["p"], f[["sex"]])
        own.verdicts()
    saved = fb.Monitor.load(state / "monitor.json")
    assert saved.columns == {"label": "paid", "score": "p"}
    assert saved.to_dict() | {"files": [], "columns": {}} == own.to_dict()
    code, out, _ = run("monitor", "--state", state, "--json")
    assert code == 1 and json.loads(out)["alarms"] == own.alarms


def test_groups_that_a_later_file_writes_otherwise_are_warned_of(run, tmp_path):
    args = ("monitor", "--state", tmp_path / "state", "--label", "paid", "--group", "sex", "--score", "p")
    for k in range(3):
        frame = new_rows(tmp_path / f"{k}.csv", 100, k)
        if k == 2:
            frame.replace({"sex": {"F": "female"}}).to_csv(tmp_path / "2.csv", index=False)
        bound = ("--constraint", "demographic_parity <= 0.05") if k == 0 else ()
        _, out, _ = run(*args, "--data", tmp_path / f"{k}.csv", *bound)
        assert ("2.csv brings groups of sex that no earlier file had: 'female'." in out) == (k == 2)
        assert "decisions of this kind" in out and "held-out" not in out
    assert fb.Monitor.load(tmp_path / "state" / "monitor.json").groups["sex"].keys() == {"F", "M", "female"}


def test_a_group_that_a_later_file_lacks_is_warned_of_unless_it_may_be_chance(run, tmp_path):
    args = ("monitor", "--state", tmp_path / "state", "--label", "paid", "--group", "sex", "--score", "p")
    frame = new_rows(tmp_path / "0.csv", 900, 0)
    sex = frame["sex"].where(np.arange(900) >= 10, "X")  # 10 of 900
    frame.assign(sex=sex).to_csv(tmp_path / "0.csv", index=False)
    assert run(*args, "--data", tmp_path / "0.csv", "--constraint", "demographic_parity <= 0.05")[0] != 2
    for k, n, gone in ((1, 900, ()), (2, 900, ("F",)), (3, 9000, ("X",))):  # (1 / 2)^10 is 1 in 1,000
        frame = new_rows(tmp_path / f"{k}.csv", n, k)
        frame[~frame["sex"].isin(gone)].to_csv(tmp_path / f"{k}.csv", index=False)
        code, out, _ = run(*args, "--data", tmp_path / f"{k}.csv", "--json")
        said = [w for w in json.loads(out)["warnings"] if "which earlier files had" in w]
        assert code != 2 and len(said) == len(gone), (k, said)
        assert all(
            f"is of these groups of sex, which earlier files had: {group!r} (about" in w
            for group, w in zip(gone, said, strict=True)
        )


def test_wrong_use_is_said_and_changes_nothing(run, tmp_path):
    state, file = tmp_path / "state", tmp_path / "a.csv"
    frame = new_rows(file, 500, 0)
    args = ("monitor", "--state", state, "--label", "paid", "--group", "sex")
    assert "begin it with --data" in run(*args)[2]
    assert "give either --score" in run(*args, "--data", file)[2]
    bound = ("--constraint", "demographic_parity <= 0.05")
    assert run(*args, "--data", file, "--score", "said", *bound)[0] == 3
    assert "would count twice" in run(*args, "--data", file, "--score", "said")[2]
    other = tmp_path / "b.csv"
    frame.iloc[1:].assign(paid=[None, *frame["paid"].iloc[2:]]).to_csv(other, index=False)
    before = (state / "monitor.json").read_text()
    scores = tmp_path / "c.csv"
    frame.assign(said=frame["p"]).to_csv(scores, index=False)
    assert "holds scores" in run(*args, "--data", scores, "--score", "said")[2]
    assert (
        "--constraint differs from the state: this monitor watches"
        in run(*args, "--data", other, "--score", "said", "--constraint", "demographic_parity <= 0.1")[2]
    )
    assert (state / "monitor.json").read_text() == before
    _, out, _ = run(*args, "--data", other, "--score", "said", "--json")
    said = json.loads(out)
    assert said["rows"] == 998 and "1 rows without a label" in said["warnings"][0]


def test_an_option_that_differs_from_the_state_is_refused(run, tmp_path):
    state, files = tmp_path / "state", [tmp_path / "a.csv", tmp_path / "b.csv"]
    for k, file in enumerate(files):
        new_rows(file, 400, k).assign(other=lambda f: f["sex"], p2=lambda f: f["p"]).to_csv(file, index=False)
    same = {"--data": files[1], "--label": "paid", "--group": "sex", "--score": "p", "--threshold": "0.6", "--confidence": "0.9",
            "--positive": "no", "--constraint": "demographic_parity <= 0.05"}  # fmt: skip
    call = lambda options: run("monitor", "--state", state, *[w for pair in options.items() for w in pair])  # noqa: E731
    _, out, err = call(same | {"--data": files[0]})
    assert "Positive is paid = no" in out, err
    before = (state / "monitor.json").read_text()
    changes = {"--label": "said", "--group": "other", "--score": "p2", "--threshold": "0.3", "--confidence": "0.95",
               "--positive": "yes", "--constraint": "demographic_parity <= 0.1"}  # fmt: skip
    for option, value in changes.items():
        code, _, err = call(same | {option: value})
        assert code == 2 and f"{option} differs from the state" in err, (option, err)
    for option in ("--threshold", "--confidence", "--positive", "--constraint"):
        code, _, err = call({option: changes[option]})  # a look without new rows
        assert code == 2 and f"{option} differs from the state" in err, (option, err)
    code, _, err = run("monitor", "--state", state, "--cross")
    assert code == 2 and "--cross differs from the state" in err
    two = same | {"--group": "sex,other"}
    assert "--group differs from the state" in call(two)[2]
    assert (state / "monitor.json").read_text() == before
    assert call(same)[0] in (1, 3) and fb.Monitor.load(state / "monitor.json").rows == 800


def test_decisions_of_another_model_or_of_a_column_are_not_mixed(run, tmp_path):
    rng = np.random.default_rng(0)
    sex, x = rng.choice(["F", "M"], 600), rng.normal(size=600)
    frame = pd.DataFrame({"x": x, "sex": sex, "y": (x + rng.normal(size=600) > 0).astype(int)})
    for seed in range(2):
        model = fb.FairClassifier(budget=f"{5 + seed} steps").fit(frame[["x"]], frame["y"])
        model.save(tmp_path / f"model{seed}")
        frame.sample(frac=1, random_state=seed).to_csv(tmp_path / f"{seed}.csv", index=False)
    common = ("monitor", "--state", tmp_path / "state", "--label", "y", "--group", "sex")
    first = ("--model", tmp_path / "model0", "--constraint", "demographic_parity <= 0.2")
    assert run(*common, "--data", tmp_path / "0.csv", *first)[0] in (0, 1, 3)
    again = (*common, "--data", tmp_path / "1.csv")
    assert "decisions of another model" in run(*again, "--model", tmp_path / "model1")[2]
    assert (
        "--score differs from the state: this monitor takes its decisions from a saved"
        in run(*again, "--score", "x")[2]
    )
    assert run(*again, "--model", tmp_path / "model0")[0] in (0, 1, 3)
    code, _, err = run(
        "audit", "--data", tmp_path / "1.csv", "--label", "y", "--group", "sex", *first, "--out", tmp_path
    )
    assert code in (0, 1, 3), err
    named, judged = (json.loads((f / "audit.json").read_text())["model"] for f in (tmp_path / "state", tmp_path))
    assert named["checksum"] == judged["checksum"]


def test_a_saved_model_decides_and_brings_its_bounds(run, tmp_path):
    rng = np.random.default_rng(0)
    sex, x = rng.choice(["F", "M"], 900), rng.normal(size=900)
    frame = pd.DataFrame({"x": x, "sex": sex, "y": (x + rng.normal(size=900) > 0).astype(int)})
    model = fb.FairClassifier("demographic_parity <= 0.2", budget="50 steps", algorithm="alm")
    model.fit(frame[["x"]], frame["y"], sensitive_features=frame["sex"]).save(tmp_path / "model")
    frame.to_csv(tmp_path / "new.csv", index=False)
    args = ("--data", tmp_path / "new.csv", "--label", "y", "--group", "sex", "--model", tmp_path / "model")
    code, out, err = run("monitor", "--state", tmp_path / "state", *args, "--json")
    assert code in (0, 1, 3), err
    share = (model.predict(frame[["x"]]) == 1).mean()
    assert json.loads(out)["metrics"]["selection_rate"] == pytest.approx(share)
    assert json.loads(out)["constraints"][0]["text"] == "demographic_parity <= 0.2"
    frame.assign(sex=None)[:20].to_csv(tmp_path / "new.csv", index=False)  # a day on which no group is known
    code, _, err = run("monitor", "--state", tmp_path / "state", *args)
    assert code in (0, 1, 3) and fb.Monitor.load(tmp_path / "state" / "monitor.json").rows == 920, err


def test_three_labels_are_watched_under_bounds_on_classes(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 900), "kind": rng.choice(["a", "b", "c"], 900)})
    frame.assign(said=frame["kind"]).to_csv(tmp_path / "k.csv", index=False)
    call = ("monitor", "--data", tmp_path / "k.csv", "--label", "kind", "--group", "sex", "--score", "said")
    code, out, err = run(*call, "--state", tmp_path / "state", "--constraint", "class_recall_parity <= 0.2")
    assert code == 0, err
    assert "class_recall_parity <= 0.2" in out and (tmp_path / "state" / "report.html").exists()
    assert "Classes of kind" in out and "Groups of sex" in out
    code, _, err = run(*call, "--state", tmp_path / "other", "--constraint", "demographic_parity <= 0.2")
    assert code == 2


def test_a_saved_model_of_three_classes_decides_by_its_highest_score(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=900), "sex": rng.choice(["F", "M"], 900)})
    frame["kind"] = np.array(["a", "b", "c"])[np.digitize(frame.x + 0.5 * rng.normal(size=900), [-0.5, 0.5])]
    model = fb.FairClassifier("recall of class b >= 0.3", budget="50 steps", algorithm="alm")
    model.fit(frame[["x"]], frame.kind).save(tmp_path / "model")
    frame.to_csv(tmp_path / "new.csv", index=False)
    args = ("--data", tmp_path / "new.csv", "--label", "kind", "--group", "sex", "--model", tmp_path / "model")
    code, out, err = run("monitor", "--state", tmp_path / "state", *args, "--json")
    assert code in (0, 1, 3), err
    right = model.predict(frame[["x"]]) == frame.kind
    assert json.loads(out)["metrics"]["accuracy"] == pytest.approx(right.mean()) and right.mean() > 0.5


def test_a_label_that_is_written_in_another_way_is_named_with_its_file_and_column(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 100), "deny": rng.choice(["no", "yes"], 100)})
    frame.assign(said=frame["deny"]).to_csv(tmp_path / "a.csv", index=False)
    frame.assign(said=frame["deny"], deny=frame["deny"].str.upper()).to_csv(tmp_path / "b.csv", index=False)
    call = ("monitor", "--state", tmp_path / "state", "--label", "deny", "--group", "sex", "--score", "said")
    assert run(*call, "--data", tmp_path / "a.csv", "--constraint", "demographic_parity <= 0.5")[0] in (0, 3)
    code, _, err = run(*call, "--data", tmp_path / "b.csv")
    assert code == 2 and "b.csv: the column 'deny' holds" in err and "the labels that the monitor began with" in err
    assert "y_true" not in err and "classes=" not in err


BOUND = ("--constraint", "demographic_parity <= 0.05")


def export(path, known, n=1000):
    """n decisions of which as many have an outcome by now as are known, in an order of their own."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"loan": np.arange(n), "sex": rng.choice(["f", "m"], n), "granted": rng.integers(0, 2, n)})
    frame["paid"] = rng.choice(["no", "yes"], n).astype(object)
    frame.loc[rng.permutation(n)[known:], "paid"] = None
    frame.to_csv(path, index=False)
    return frame


def test_decisions_that_come_again_count_once_by_their_id(run, tmp_path):
    """An export of the same decisions each day, with the outcomes known so far."""
    state, file = tmp_path / "state", tmp_path / "daily.csv"
    args = ("--label", "paid", "--group", "sex", "--score", "granted", "--data", file, "--json")
    for day in range(1, 4):
        export(file, 900 + 4 * day)
        _, out, err = run("monitor", "--state", state, *args, "--id", "loan", *BOUND)
        said = json.loads(out)
        assert said["rows"] == 900 + 4 * day and said["counted"] == (904 if day == 1 else 4), err
        assert said["repeated"] == said["rows"] - said["counted"]
    assert (
        "908 of 912 decisions of daily.csv were left out: their loan was counted before. What was counted then stays"
        in out
    )
    assert "come again" not in out and "persons" not in out
    schema.validate(json.loads((state / "audit.json").read_text()))
    assert fb.Monitor.load(state / "monitor.json").columns["id"] == "loan"
    before = (state / "monitor.json").read_bytes()
    code, out, _ = run("monitor", "--state", state, *args, "--id", "loan")
    assert code == 0 and "was counted before, by its loan. Nothing new was counted" in json.loads(out)["warnings"][0]
    for other in ((), ("--id", "sex")):
        code, _, err = run("monitor", "--state", state, *args, *other)
        assert code == 2 and ("--id differs from the state" in err or "would count twice" in err)
    export(file, 950)
    code, _, err = run("monitor", "--state", state, *args)
    assert code == 2 and "--id differs from the state: this monitor has 'loan'" in err
    export(file, 950).assign(loan=lambda f: f["loan"].where(f["loan"] != 7)).to_csv(file, index=False)
    code, _, err = run("monitor", "--state", state, *args, "--id", "loan")
    assert (code == 2 and "daily.csv: the id" in err) or "line 9 of the file has no id" in err
    assert (state / "monitor.json").read_bytes() == before


@pytest.mark.parametrize("rearranged", [lambda f: f.sample(frac=1, random_state=0), lambda f: f[f.columns[::-1]]])
def test_a_file_that_holds_rows_of_the_file_before_is_warned_of(run, tmp_path, rearranged):
    args = ("monitor", "--state", tmp_path / "state", "--label", "paid", "--group", "sex", "--score", "granted")
    frame = export(tmp_path / "1.csv", 600)
    assert "equal in every column" not in run(*args, *BOUND, "--data", tmp_path / "1.csv")[1]
    new = frame.assign(loan=frame["loan"] + 5000)
    rearranged(new).to_csv(tmp_path / "2.csv", index=False, sep=";")
    assert "equal in every column" not in run(*args, "--data", tmp_path / "2.csv")[1]
    rearranged(new).iloc[:900].to_csv(tmp_path / "3.csv", index=False, sep="\t")
    _, out, _ = run(*args, "--data", tmp_path / "3.csv")
    assert "About 100% of the rows of 3.csv are equal in every column to rows of the file counted last (2.csv)." in out
    more = [new, new.assign(loan=new["loan"] + 1000), new.assign(loan=new["loan"] + 2000)]
    pd.concat([*more, *(f.assign(loan=f["loan"] + 9000) for f in more)]).to_csv(tmp_path / "4.csv", index=False)
    _, out, _ = run(*args, "--data", tmp_path / "4.csv")
    assert "of the file counted last (3.csv)" in out and "--id" in out


def test_rows_that_are_alike_by_chance_are_not_taken_for_rows_that_come_again(run, tmp_path):
    """A file of three columns of few values, and one of amounts of which every tenth comes again by chance."""
    for many in (1, 8000):
        args = ("monitor", "--state", tmp_path / str(many), "--label", "paid", "--group", "sex", "--score", "said")
        for day in range(3):
            frame = new_rows(tmp_path / f"{day}.csv", 800, day)
            frame["amount"] = np.random.default_rng(day).integers(0, many, 800)
            frame.drop(columns="p").to_csv(tmp_path / f"{day}.csv", index=False)
            _, out, err = run(*args, "--data", tmp_path / f"{day}.csv", *BOUND)
            assert "rows 0" not in out and "equal in every column" not in out, err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_quiet_day_counts_nothing_and_is_no_error(run, tmp_path, ending):
    """A file with a header only, and one whose outcomes are all unknown, before the first decision and after."""
    state = tmp_path / "state"
    frame = export(tmp_path / "one.csv", 1000)
    header, unknown = tmp_path / f"header.{ending}", tmp_path / "unknown.csv"
    none = frame.iloc[:0]
    none.to_csv(header, index=False) if ending == "csv" else none.to_parquet(header)
    frame.assign(paid=None).to_csv(unknown, index=False)
    args = ("monitor", "--state", state, "--label", "paid", "--group", "sex", "--score", "granted")
    for file, why in (
        (header, "has a header and no rows"),
        (unknown, "No row of unknown.csv has a value in the column"),
    ):
        code, out, err = run(*args, *BOUND, "--data", file, "--json")
        said = json.loads(out)
        assert code == 0 and said["verdict"] is None and said["counted"] == 0 and why in said["warnings"][0], err
        assert not (state / "monitor.json").exists()
    assert run(*args, *BOUND, "--data", tmp_path / "one.csv")[0] == 3
    before = (state / "monitor.json").read_bytes()
    for file in (header, unknown):
        code, out, err = run(*args, "--data", file)
        assert code == 0 and "Nothing new was counted; the state is as it was." in out and "1,000" in out, err
    assert (state / "monitor.json").read_bytes() == before
    code, _, err = run(*args[:-1], "grant", "--data", header)
    assert code == 2 and "--score: there is no column 'grant'" in err
    (tmp_path / "empty.csv").write_text("")
    assert run(*args, "--data", tmp_path / "empty.csv")[0] == 2


def test_a_quiet_day_does_not_hide_an_alarm(run, tmp_path):
    new_rows(tmp_path / "0.csv", 3000, 0, rates=(0.8, 0.2))
    new_rows(tmp_path / "1.csv", 0, 0)
    args = ("monitor", "--state", tmp_path / "state", "--label", "paid", "--group", "sex", "--score", "p")
    assert run(*args, "--data", tmp_path / "0.csv", *BOUND)[0] == 1
    code, out, _ = run(*args, "--data", tmp_path / "1.csv")
    assert code == 1 and "alarm" in out and "Nothing new" in out


def test_a_cron_job_can_fail_where_a_gap_has_grown(run, tmp_path):
    args = ("monitor", "--state", tmp_path / "state", "--label", "paid", "--group", "sex", "--score", "p")
    new_rows(tmp_path / "0.csv", 16000, 0, rates=(0.41, 0.40))
    new_rows(tmp_path / "1.csv", 4000, 1, rates=(0.65, 0.40))
    bound = ("--constraint", "demographic_parity <= 0.15")
    code, out, _ = run(*args, "--data", tmp_path / "0.csv", *bound, "--fail-on", "growth", "--json")
    assert code == 0 and json.loads(out)["growth"] == []
    code, out, _ = run(*args, "--data", tmp_path / "1.csv", "--json")
    (grew,) = json.loads(out)["growth"]
    assert code == 0 and json.loads(out)["verdict"] == "met" and grew["violated_since"]
    assert run("monitor", "--state", tmp_path / "state", "--fail-on", "growth")[0] == 1
    assert "takes growth" in run("monitor", "--state", tmp_path / "state", "--fail-on", "alarm")[2]


def test_a_file_that_is_not_there_is_named_as_by_other_commands(run, tmp_path):
    given = ["--label", "y", "--group", "sex", "--score", "s", "--constraint", "demographic_parity <= 0.1"]
    code, _, err = run("monitor", "--state", tmp_path / "state", "--data", tmp_path / "none.csv", *given)
    assert code == 2 and "none.csv does not exist; check the path." in err
    code, _, err = run("monitor", "--state", tmp_path / "state", "--data", tmp_path, *given)
    assert code == 2 and f"{tmp_path} is a folder; give the path of a CSV file in it." in err
