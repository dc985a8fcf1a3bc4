"""`fairbound compare` and `fairbound gate`: one check for Python, the command line and pytest; and the page docs/evidence.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.cli.gate import _below, check
from fairbound.pytest_plugin import _passed

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
TEXT = (Path(__file__).resolve().parents[3] / "docs" / "evidence.md").read_text(encoding="utf-8")
GATE = re.search(r"^```toml\n(.*?)^```$", TEXT, flags=re.M | re.S)[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """held_out.csv, and two saved models: out/model under a bound, last/model without."""
    made = tmp_path_factory.mktemp("gate")
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 6000)
    x, z = rng.normal(size=6000) + 0.8 * (sex == "M"), rng.normal(size=6000)
    frame = pd.DataFrame(
        {"x": x, "z": z, "sex": sex, "paid": np.where(x + z + rng.normal(size=6000) > 0.4, "yes", "no")}
    )
    train, held = (
        frame[:3000],
        frame[3000:].assign(score=(z[3000:] > 0).astype(int), weight=rng.choice([1.0, 2.0], 3000)),
    )
    held.to_csv(made / "held_out.csv", index=False)
    for name, bound in (("out", "demographic_parity <= 0.02"), ("last", None)):
        model = fb.FairClassifier(bound).fit(train[["x", "z"]], train["paid"], sensitive_features=train["sex"])
        model.save(made / name / "model")
    return made


def gate(folder, name, **changes):
    """A gate's file that is the page's with these lines changed; None takes one out."""
    lines = [line for line in GATE.splitlines() if line.split(" =")[0] not in changes]
    lines += [f"{k} = {json.dumps(v)}" for k, v in changes.items() if v is not None and not isinstance(v, dict)]
    lines += [
        f"[{k}]\n" + "\n".join(f"{a} = {b}" for a, b in v.items()) for k, v in changes.items() if isinstance(v, dict)
    ]
    path = folder / name
    path.write_text("\n".join(lines))
    return path


def test_the_gate_of_the_page_is_passed_and_a_tighter_one_is_closed(run, folder):
    found = check(gate(folder, "page.toml", constraint=["demographic_parity <= 0.12"]))
    assert found.passed and found.exit_code == 0 and found.reasons == ()
    path = gate(
        folder, "last.toml", constraint=["demographic_parity <= 0.05"], model="last/model", least={"accuracy": 0.99}
    )
    closed = check(path)
    assert not closed.passed and closed.exit_code == 1 and len(closed.reasons) == 2
    assert "bound violated" in closed.reasons[0] and "accuracy is" in closed.reasons[1]
    code, out, _ = run("gate", "--config", path)
    assert code == 1 and "the gate is closed" in out and closed.reasons[0] in out
    code, out, _ = run("gate", "--config", path, "--json")
    assert code == 1 == json.loads(out)["exit_code"] and json.loads(out)["passed"] is False
    assert json.loads(out)["audit"]["out"] is None  # no folder is named, and the one that was used is gone
    code, out, _ = run("gate", "--config", gate(folder, "page.toml", constraint=["demographic_parity <= 0.12"]))
    assert code == 0 and "warning" not in out
    assert re.search(r"- demographic_parity <= 0.12: bound met \(measured 0\.\d+, at least \S+, at most 0\.\d+\)", out)
    assert re.search(r"- accuracy 0\.\d+, at least 0\.6 is asked", out)
    assert re.search(r"accuracy is 0\.\d{1,4}, less than 0\.99$", closed.reasons[1])
    low = gate(folder, "low.toml", constraint=["demographic_parity <= 0.12"], least={"accuracy": 0.99})
    _, out, _ = run("gate", "--config", low)  # the bounds that are met are said too, after what closed the gate
    assert re.search(r"closed\n- accuracy is 0\.\d+, less than 0\.99\n- demographic_parity <= 0.12: bound met \(", out)
    _, out, _ = run("gate", "--config", path)
    assert out.count("demographic_parity <= 0.05: bound violated") == 1


def test_a_gate_on_the_file_that_the_model_was_trained_on_is_closed(run, folder, tmp_path):
    args = ("--label", "paid", "--group", "sex", "--constraint", "demographic_parity <= 0.9", "--budget", "20 steps")
    assert run("fit", "--data", folder / "held_out.csv", *args, "--out", tmp_path / "fit")[0] in (0, 1, 3)
    path = gate(
        folder, "own.toml", model=str(tmp_path / "fit" / "model"), constraint=["demographic_parity <= 0.9"], least=None
    )
    code, out, _ = run("gate", "--config", path)
    assert code == 1 and "is closed\n- This is the file that the model was trained on" in out
    assert not any("was trained on" in said for said in check(gate(folder, "page.toml")).summary["warnings"])
    with pytest.raises(pytest.fail.Exception, match="file that the model was trained on"):
        _passed(path)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model": None}, "give either score, a column of scores, or model, the folder of a saved model."),
        ({"threshold": 0.5}, "threshold belongs to score; a saved model decides by itself."),
        ({"group": "nobody"}, "group: there is no column 'nobody'"),
        ({"baseline": "nothing"}, "nothing"),
    ],
)
def test_what_is_wrong_is_said_in_keys_of_the_file(run, folder, keys, said):
    code, _, err = run("gate", "--config", gate(folder, "wrong.toml", **keys))
    assert code == 2 and said in err and "--" not in err, err


def test_a_file_with_a_byte_order_mark_is_read(folder):
    path = gate(folder, "mark.toml", constraint="demographic_parity <= 0.9", least=None)
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert check(path).passed


def test_a_number_below_another_is_shown_as_below():
    assert [_below(v, 0.9) for v in (0.8966630785791173, 0.89996)] == ["0.8967", "0.89996"]
    assert float(_below(0.9 - 1e-12, 0.9)) < 0.9


def test_what_is_not_decided_closes_the_gate_unless_it_is_accepted(folder):
    undecided = {"constraint": ["demographic_parity <= 0.02"], "least": None}
    found = check(gate(folder, "a.toml", **undecided))
    assert found.exit_code == 3 and "not enough evidence (measured" in found.reasons[0] and not found.passed
    assert check(gate(folder, "b.toml", accept=["met", "insufficient"], **undecided)).exit_code == 0


def test_a_model_worse_than_the_last_one_is_held_back(folder):
    bounds = {"constraint": ["demographic_parity <= 0.9"], "least": None}
    passed = check(gate(folder, "c.toml", baseline="last/model", **bounds))
    assert passed.passed and re.search(
        r"0.9: 0\.\d+, not worse for certain than the baseline's 0\.\d+$", passed.measured[-1]
    )
    found = check(gate(folder, "d.toml", model="last/model", baseline="out/model", **bounds))
    assert found.exit_code == 1 and "worse than the baseline's" in found.reasons[0]
    weighted = gate(folder, "w.toml", baseline="last/model", weights="weight", **bounds)
    assert check(weighted).passed


@pytest.mark.parametrize("undefined", ["second", "first"])
def test_a_value_that_is_not_defined_is_not_taken_for_one_that_is_not_worse(folder, undefined):
    frame = pd.read_csv(folder / "held_out.csv")
    nobody = frame["score"].where(frame["sex"] == "M", 0)  # precision divides by the selected, of whom F has none
    frame.assign(nobody=nobody).to_csv(folder / "nobody.csv", index=False)
    names = ("nobody", "score") if undefined == "second" else ("score", "nobody")
    stated = {"data": "nobody.csv", "model": None, "score": names[0], "baseline": names[1], "least": None,
              "constraint": ["predictive_parity <= 0.9"]}  # fmt: skip
    found = check(gate(folder, "nobody.toml", **stated))
    assert found.exit_code == 3 and "is not known" in found.reasons[-1] and "not defined" in found.reasons[-1]
    accepted = check(gate(folder, "nobody.toml", accept=["met", "insufficient"], **stated))
    assert accepted.passed and "is not known" in accepted.measured[-1]


def test_a_gate_without_a_label_judges_decisions_alone(folder):
    alone = {"label": None, "model": None, "score": "score", "constraint": ["demographic_parity <= 0.2"]}
    found = check(gate(folder, "alone.toml", **alone, least={"selection_rate": 0.1}))
    assert found.passed and found.summary["metrics"].keys() == {"selection_rate"}
    moved = check(
        gate(folder, "two.toml", **alone | {"model": "last/model", "score": None}, least=None, baseline="out/model")
    )
    assert not moved.passed and "worse than the baseline's" in moved.reasons[0]
    with pytest.raises(OptionError, match="needs the outcomes of the rows"):
        check(gate(folder, "lacks.toml", **alone | {"constraint": ["equal_opportunity <= 0.2"]}, least=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dat": "x"}, "unknown keys"),
        ({"data": None}, "lacks data"),
        ({"data": 3}, "data must be a text, got 3"),
        ({"group": ["sex"]}, "group must be a text, with commas between several names"),
        ({"confidence": "high"}, "confidence must be a number, got 'high'"),
        ({"accept": ["violated"]}, "accept may hold"),
        ({"accept": []}, "accept must be a list of 'met' and 'insufficient'; leave it out"),
        ({"accept": True}, "accept must be"),
        ({"constraint": []}, "constraint must be a bound as text or a list of them; leave it out for the bounds of"),
        ({"constraint": ""}, "constraint must be a bound"),
        ({"constraint": 5}, "constraint must be a bound as text or a list of them.*got 5"),
        ({"cross": "no"}, "cross must be true or false, without quotes, got 'no'"),
        ({"drop_missing_labels": "no"}, "drop_missing_labels must be true or false"),
        ({"threshold": "0.5"}, "threshold must be a number, got '0.5'"),
        ({"model": 5}, "model must be a text, got 5"),
        ({"baseline": 5}, "baseline must be a text, got 5"),
        (
            {"least": {"accuracy": '"0.6"'}},
            "least must be a table of metrics and finite numbers.*got {'accuracy': '0.6'}",
        ),
        ({"least": {"accuracy": "nan"}}, "least must be a table of metrics and finite numbers"),
        ({"least": {"accuracy": "true"}}, "least must be a table of metrics and finite numbers"),
        ({"least": 0.6}, "least must be a table of metrics"),
        ({"least": {"f1": 0.5}}, "no metrics"),
        ({"least": {"log_loss": 0.9}}, "log_loss, of which less is better"),
        ({"model": None, "score": "score", "constraint": None}, "states no bound"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(folder, changes, message):
    with pytest.raises(OptionError, match=message):
        check(gate(folder, "wrong.toml", **changes))
    for path, why in ((folder / "none.toml", "No such file or directory"), (folder, "Is a directory")):
        with pytest.raises(OptionError, match=rf"cannot be read: {why}\.$"):
            check(path)


def test_pytest_runs_gates_as_tests(folder, monkeypatch, capsys):
    gate(folder, "open.toml", constraint=["demographic_parity <= 0.5"], least=None)
    gate(folder, "shut.toml", constraint=["demographic_parity <= 0.0"], model="last/model", least=None)
    test = "def test_it(fairbound_gate):\n    assert fairbound_gate('open.toml').passed\n"
    (folder / "test_it.py").write_text(test)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    words = [
        "-q",
        "-p",
        "fairbound.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "--import-mode",
        "importlib",
        "test_it.py",
    ]
    code = pytest.main([*words, "--fairbound-gate", "shut.toml"])
    said = capsys.readouterr().out
    assert code == 1 and "1 failed, 1 passed" in said and "the gate shut.toml is closed" in said, said


def test_the_commands_and_the_example_of_the_page_run(run, folder, tmp_path, monkeypatch, capsys):
    args = ("--data", folder / "held_out.csv", "--label", "paid", "--group", "sex")
    code, out, err = run("compare", folder / "last/model", folder / "out/model", *args, "--out", tmp_path, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert json.loads((tmp_path / "compare.json").read_text()) | {"exit_code": 0} == found
    assert "decisions differ" in (tmp_path / "compare.html").read_text()
    by = {d["name"]: d for d in found["differences"]}
    assert by["demographic_parity <= 0.02"]["upper"] < 0 and by["accuracy"]["difference"] < 0
    code, out, err = run(
        "compare", folder / "last/model", folder / "out/model", *args, "--constraint", "recall of class yes >= 0.9"
    )
    assert code == 0 and "recall of class yes >= 0.9" in out, err
    code, out, _ = run("compare", "score", folder / "out/model", *args, "--constraint", "demographic_parity <= 0.1")
    assert code == 0 and "decisions differ" in out
    assert run("compare", "scor", "score", *args)[0] == 2
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.M | re.S):
        exec(block, names)
    said = capsys.readouterr().out
    assert "less than 2 %" in said and "library_name: fairbound" in said and "95 % interval" in said
    assert (tmp_path / "out" / "impact.csv").is_file()


def test_more_than_two_classes_are_not_compared(run, tmp_path):
    frame = pd.DataFrame({"party": list("abc") * 20, "p": list("abb") * 20, "q": list("abc") * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, _, error = run("compare", "p", "q", "--data", tmp_path / "t.csv", "--label", "party")
    assert code == 2 and "compare takes labels of two values, and these have 3, 'a', 'b', 'c'." in error
    assert "class_" not in error


def test_a_threshold_is_that_of_both_columns_and_of_a_baseline_and_not_of_decisions(run, tmp_path):
    parity = "demographic_parity <= 0.02"
    rng = np.random.default_rng(0)
    n = 4000
    sex, before = rng.choice(["f", "m"], n), rng.uniform(300, 850, n)
    frame = pd.DataFrame(
        {"sex": sex, "before": before, "now": before - 60 * (sex == "f"), "paid": rng.choice(["no", "yes"], n)}
    )
    frame["granted"] = np.where(before > 600, "yes", "no")
    frame.to_csv(tmp_path / "held_out.csv", index=False)
    args = ("--data", tmp_path / "held_out.csv", "--label", "paid", "--group", "sex", "--constraint", parity)
    code, out, err = run("compare", "before", "now", *args, "--threshold", 600, "--json")
    assert code == 0, err
    by = {d["name"]: d for d in json.loads(out)["differences"]}
    rates = [frame.assign(d=frame[c] > 600).groupby("sex").d.mean() for c in ("before", "now")]
    gaps = [abs(r["f"] - r["m"]) for r in rates]
    assert [by[parity]["first"], by[parity]["second"]] == pytest.approx(gaps, abs=1e-12)
    losses = ["--constraint", "loss_gap <= 0.1", "--threshold", 600]
    assert run("compare", "before", "now", *args, *losses)[::2] == (
        2,
        "fairbound: 'loss_gap <= 0.1' is on losses, and scores moved to --threshold 600 have others; leave it out, or take "
        "fairbound.compare of Python.\n",
    )
    code, out, err = run("compare", "granted", "before", *args, "--threshold", 600, "--json")
    assert code == 0 and json.loads(out)["changed"] == 0, err
    assert "threshold" in run("compare", "before", "now", *args)[2]
    (tmp_path / "gate.toml").write_text(
        f'data = "held_out.csv"\nlabel = "paid"\ngroup = "sex"\nscore = "now"\nbaseline = "before"\nthreshold = 600\n'
        f'constraint = ["{parity}"]\naccept = ["met", "insufficient"]\n'
    )
    found = check(tmp_path / "gate.toml")
    assert any("worse than the baseline's" in said and f"{gaps[0]:.4g}" in said for said in found.reasons)


@pytest.mark.parametrize("empty", ["raise", "drop"])
def test_a_gate_says_what_keeps_the_rows_from_deciding_and_what_was_left_out(run, folder, empty):
    frame = pd.read_csv(folder / "held_out.csv")
    frame.loc[:99, ["sex", "paid"]] = "D", "no"
    frame.to_csv(folder / "some.csv", index=False)
    path = gate(folder, "some.toml", data="some.csv", model=None, score="score", baseline=None,
                constraint=[f"equalized_odds[empty={empty}] <= 0.3"], least=None)  # fmt: skip
    code, text, _ = run("gate", "--config", path)
    if empty == "raise":
        assert code == 3 and "; No held-out row measures D | y=1" in text
    else:
        assert code == 0 and ". Left out (empty=drop), for want of rows that it needs: D" in text


def test_a_gate_is_advised_by_the_keys_of_its_file(folder):
    held = pd.read_csv(folder / "held_out.csv")
    held.assign(person_id=np.arange(len(held)) // 2).to_csv(folder / "visits.csv", index=False)
    found = check(gate(folder, "visits.toml", data="visits.csv"))
    said = [text for text in found.summary["warnings"] if "person_id" in text]
    assert len(said) == 1 and "clusters person_id takes the rows" in said[0] and "--" not in said[0]
