"""What a person reads on the terminal: before training, beside the verdict, and where rows are not new to a model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fairbound.base.errors import OptionError
from fairbound.cli.app import main
from fairbound.cli.files.columns import one_column
from fairbound.cli.files.row_warnings import copy_warnings
from fairbound.cli.training.feasibility import gains_of_rows
from fairbound.estimators.classifier import FairClassifier
from fairbound.rows.labels import stray_codes

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("jinja2", reason="the page needs the extra 'report'")


@pytest.fixture
def people(tmp_path):
    """300 rows with a column that numbers them, a missing label, and two attributes, of which `old` tells far more."""
    rng = np.random.default_rng(0)
    old, sex = rng.choice(["old", "young"], 300), rng.choice(["F", "M"], 300)
    pay = rng.normal(size=300) + 2 * (old == "old")
    label = np.where(pay + 0.5 * rng.normal(size=300) > 1, "yes", "no").astype(object)
    label[7] = None
    path = tmp_path / "people.csv"
    pd.DataFrame({"case": np.arange(300), "pay": pay, "old": old, "sex": sex, "paid": label}).to_csv(path, index=False)
    return path


def test_notes_of_a_fit_are_in_the_words_of_the_command(tmp_path):
    call = ["fit", "--data", "loanapp", "--group", "race", "--constraint", "demographic_parity <= 0.03"]
    assert main([*call, "--out", str(tmp_path)]) in (0, 1, 3)
    noted = " ".join(json.loads((tmp_path / "audit.json").read_text())["notes"])
    assert "--certify confirms a bound on rows kept apart" in noted and "certify=" not in noted


def test_what_is_said_and_when(people, tmp_path, capsys):
    given = ["--data", people, "--label", "paid", "--group", "sex,old", "--constraint", "demographic_parity <= 0.1"]
    call = [
        "fit",
        *given,
        "--drop-missing-labels",
        "--out",
        tmp_path / "out",
        "--budget",
        "5 steps",
    ]
    assert main([str(a) for a in call]) in (0, 1, 3)
    said = capsys.readouterr()
    before = said.err[: said.err.index("training on")]
    assert "1 of 300 labels are missing; these rows are left out" in before
    assert "look like identifiers of rows or persons, and are features: case. Leave them out with --drop if" in before
    assert (
        "On the training rows, which the verdict is not about, the value of 'demographic_parity <= 0.1' is" in said.out
    )
    assert "The value is that of old - young (old)." in said.out or "It is that of young - old (old)." in said.out

    model, compared = tmp_path / "out", ["compare", tmp_path / "out", "pay", *given, "--drop-missing-labels"]
    main([str(a) for a in [*compared, "--out", tmp_path / "c"]])
    assert f"is the file that {model.as_posix()} was trained on" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "c" / "compare.json").read_text())["warnings"]) == 1
    page = (tmp_path / "c" / "compare.html").read_text()
    assert "was trained on" in page
    heads = page[page.index("<thead>") : page.index("</thead>")]
    assert heads.index("difference") < heads.index(model.as_posix())  # what a narrow screen shows first
    other = tmp_path / "new.csv"
    other.write_text(people.read_text().replace("\n8,", "\n1008,"))
    compared[compared.index(people)] = other
    main([str(a) for a in compared])
    assert "was trained on" not in capsys.readouterr().out

    watch = ["monitor", "--state", tmp_path / "state", *given[2:], "--model", model / "model", "--data"]
    for file, told in ((other, False), (people, True)):
        main([str(a) for a in [*watch, file]])
        assert ("the file that the model was trained on" in capsys.readouterr().out) == told


@pytest.mark.parametrize(("group", "worth_it"), [("sex", True), ("old", False)])
def test_a_bound_kept_in_training_alone_leads_to_a_certificate(tmp_path, capsys, group, worth_it):
    """Half of 300 rows are of each sex, one in ten is young: 8 of 75 held-out rows."""
    rng = np.random.default_rng(0)
    x, sex, old = (
        rng.normal(size=300),
        np.array(["F", "M"] * 150),
        np.array(["old"] * 9 + ["young"])[np.arange(300) % 10],
    )
    label = np.where(x + rng.normal(size=300) > 0, "yes", "no")
    pd.DataFrame({"x": x, "sex": sex, "old": old, "paid": label}).to_csv(tmp_path / "p.csv", index=False)
    given = [
        "fit",
        "--data",
        tmp_path / "p.csv",
        "--label",
        "paid",
        "--group",
        group,
        "--drop",
        "old" if worth_it else "sex",
    ]
    given += ["--constraint", "demographic_parity <= 0.1", "--no-baseline", "--out", tmp_path / "out"]
    assert main([str(a) for a in given]) == 3
    said, found = capsys.readouterr().out, json.loads((tmp_path / "out" / "audit.json").read_text())
    trained = FairClassifier.load(tmp_path / "out" / "model").fit_report_["constraints"][0]["train_value"]
    value = f"the value of 'demographic_parity <= 0.1' is {trained:.4f}."
    assert value in said and any(value in note for note in found["notes"])
    assert (
        ("train with --certify" in said) == any("train with --certify" in note for note in found["notes"]) == worth_it
    )


@pytest.mark.parametrize(
    ("more", "shown"), [([], True), (["--model", "mlp:2"], False), (["--use-groups-at-prediction"], False)]
)
def test_the_page_shows_what_a_linear_model_looks_at(people, tmp_path, more, shown):
    """Of a number the weight per unit is that per standard deviation over the latter."""
    call = ["fit", "--data", people, "--label", "paid", "--group", "sex", "--drop", "case", "--drop-missing-labels"]
    call += ["--constraint", "demographic_parity <= 0.9", "--no-baseline", "--algorithm", "alm", "--budget", "5 steps"]
    assert main([str(a) for a in [*call, "--out", tmp_path / "out", *more]]) in (0, 3)
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    made = FairClassifier.load(tmp_path / "out" / "model")
    page, card = (tmp_path / "out" / "report.html").read_text(), (tmp_path / "out" / "model_card.md").read_text()
    assert ("What the model looks at" in page) == ("What the model looks at" in card) == shown
    if not shown:
        return
    weights = found["model"]["weights"]
    assert {w["feature"]: w["weight"] for w in weights} == dict(
        zip(made.encoder_.feature_names, made.coef_[0], strict=True)
    )
    assert weights == sorted(weights, key=lambda w: -abs(w["standardised"])) and weights[0]["feature"] == "pay"
    (pay,) = (f for f in made.encoder_.learnt if f.name == "pay")
    assert weights[0]["standardised"] == pytest.approx(weights[0]["weight"] * pay.sd)
    assert f"| pay | {weights[0]['weight']:.3g} | {weights[0]['standardised']:.3f} |" in card


def test_groups_whose_rows_would_change_nothing_share_a_line():
    lines = gains_of_rows({"a": 0.0, "b": 0.0061, "c": 0.00001, "d": 0.02})
    assert lines == ["  0.0200  of d", "  0.0061  of b", "  0.0000  of any other group"]
    assert gains_of_rows({"a": 0.0}) == [] and gains_of_rows({"a": 0.01, "b": 0.0})[1:] == [
        "  0.0000  of the other group"
    ]


def test_a_model_of_another_library_is_said_to_have_an_option(people, tmp_path, capsys):
    given = [
        "fit",
        "--data",
        people,
        "--label",
        "paid",
        "--group",
        "sex",
        "--drop-missing-labels",
        "--out",
        tmp_path / "out",
    ]
    assert main([str(a) for a in [*given, "--model", "xgboost"]]) == 2
    said = capsys.readouterr().err
    assert "give 'linear', 'mlp:64,32' (hidden widths); --estimator of fit keeps a scikit-learn classifier." in said


@pytest.mark.parametrize("bound", ["demographic_parity <= 0.1", "recall of class maybe >= 0.9"])
def test_a_positive_label_of_four_is_refused_in_plain_words(tmp_path, capsys, bound):
    table = pd.DataFrame({"x": np.arange(40.0), "g": ["a", "b"] * 20, "y": ["yes", "no", "maybe", "never"] * 10})
    table.to_csv(tmp_path / "t.csv", index=False)
    given = ["fit", "--data", tmp_path / "t.csv", "--label", "y", "--group", "g", "--constraint", bound]
    assert main([str(a) for a in [*given, "--positive", "yes", "--out", tmp_path / "out"]]) == 2
    said = capsys.readouterr().err
    assert "--positive 'yes' needs two classes" in said and "the labels have 4 values" in said
    assert "Make a label of one class against the rest" in said
    assert not any(word in said for word in ("multiclass", "Only binary", "positive="))


@pytest.mark.parametrize("more", [[], ["--chunk-rows", "50"]])
def test_a_missing_score_is_named_by_its_line(people, tmp_path, capsys, more):
    frame = pd.read_csv(people).dropna()
    frame.loc[[120, 200], "pay"] = np.nan
    frame.to_csv(tmp_path / "s.csv", index=False)
    call = [
        "audit",
        "--data",
        str(tmp_path / "s.csv"),
        "--label",
        "paid",
        "--score",
        "pay",
        "--out",
        str(tmp_path / "o"),
    ]
    assert main([*call, *more]) == 2
    assert "the first in line 121 of the file. Drop these rows or fill them." in capsys.readouterr().err
    if not more:
        assert main(["compare", "pay", "pay", *call[1:5]]) == 2
        assert "the first in line 121 of the file" in capsys.readouterr().err


def test_copied_rows_are_said_where_they_are_no_chance():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"pay": rng.normal(size=400).round(2), "age": rng.integers(20, 60, 400), "sex": rng.choice(["f", "m"], 400)}
    )
    assert copy_warnings(frame) == copy_warnings(pd.concat([frame, frame[:30]])) == ()
    (said,) = copy_warnings(pd.concat([frame, frame[:100]]))
    assert "of 500 rows repeat an earlier one in every column. If they are copies, copies of one stand on both" in said
    assert "both sides" not in copy_warnings(pd.concat([frame, frame[:100]]), held_out=False)[0]
    coarse = frame[["age", "sex"]]  # 80 values on 400 rows: most repeat another by chance
    assert coarse.duplicated().mean() > 0.7 and copy_warnings(coarse) == copy_warnings(frame[["sex"]]) == ()


def test_copied_rows_and_codes_are_said_before_training(people, tmp_path, capsys):
    frame = pd.read_csv(people).dropna().drop(columns="case").assign(age=np.r_[[-9.0] * 20, 20 + np.arange(279) % 50])
    pd.concat([frame, frame]).to_csv(tmp_path / "twice.csv", index=False)
    call = [
        "fit",
        "--data",
        str(tmp_path / "twice.csv"),
        "--label",
        "paid",
        "--group",
        "sex",
        "--algorithm",
        "alm",
        "--budget",
        "5 steps",
    ]
    assert main([*call, "--out", str(tmp_path / "o")]) == 0
    said = capsys.readouterr().err
    assert "299 of 598 rows repeat an earlier one" in said[: said.index("training on")]
    assert "Column age: 40 of 598 rows hold -9, far from all other values. Is that a code for a missing value?" in said
    asked = ["audit", "--data", str(tmp_path / "twice.csv"), "--label", "paid", "--model", str(tmp_path / "o")]
    assert main([*asked, "--out", str(tmp_path / "a")]) == 0
    assert "299 of 598 rows repeat an earlier one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "others", "found"),
    [
        (-9.0, (0, 90), True),
        (-9.0, (-8, 90), False),
        (-99.0, (-20, 40), True),
        (-99.0, (-60, 40), False),
        (999.0, (0, 110), True),
        (999.0, (0, 700), False),
        (-4.0, (0, 90), False),
    ],
)
def test_a_code_lies_far_from_the_other_numbers_and_is_no_rarity(code, others, found):
    values = np.r_[np.linspace(*others, 980), [code] * 20, [np.nan] * 5]
    assert stray_codes(values) == [code] * found
    assert stray_codes(np.r_[values, np.linspace(*others, 2000)]) == []


def test_labels_spelt_otherwise_and_percentages_are_told_what_to_do(people, tmp_path, capsys):
    frame = pd.read_csv(people).dropna()
    frame["said"], frame["percent"] = frame.paid.str.title(), np.linspace(1, 99, len(frame))
    frame.to_csv(tmp_path / "s.csv", index=False)
    call = ["audit", "--data", str(tmp_path / "s.csv"), "--label", "paid", "--out", str(tmp_path / "o"), "--score"]
    assert main([*call, "said"]) == 2
    said = capsys.readouterr().err
    assert "holds 'Yes', and the label 'yes': they differ in capitals or blanks" in said or "'No', and" in said
    assert main([*call, "percent"]) == 2
    said = capsys.readouterr().err
    assert "where positive begins with --threshold: 0 if they are logits, 50 if they are percentages." in said


def test_columns_like_the_name_that_was_typed_are_listed_first():
    columns = [*(f"x{i}" for i in range(24)), "the default, as told next month", "default-payment-next-month"]
    with pytest.raises(OptionError) as told:
        one_column("DEFAULT", columns, "--label")
    listed = str(told.value).partition("There are: ")[2]
    assert listed.startswith("default-payment-next-month, the default, as told next month, x0, x1")
    with pytest.raises(OptionError, match=r"There are: x0, x1, .* and 6 more"):
        one_column("other", columns, "--label")


def test_the_classes_of_a_label_are_not_called_groups(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"party": rng.choice(list("abc"), 300), "p": rng.choice(list("abc"), 300), "sex": rng.choice(["f", "m"], 300)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    call = ["audit", "--data", tmp_path / "t.csv", "--label", "party", "--score", "p", "--group", "sex"]
    main([str(a) for a in [*call, "--constraint", "class_recall_parity <= 0.5", "--out", tmp_path / "o"]])
    out, page = capsys.readouterr().out, (tmp_path / "o" / "report.html").read_text()
    assert "Classes of party" in out and "Groups of sex" in out
    assert "Classes of party" in page and "Groups of sex" in page


def test_the_confidence_of_a_comparison_is_that_of_each_interval(capsys):
    assert main(["compare", "--help"]) == 0
    assert "Confidence of each interval by itself" in " ".join(capsys.readouterr().out.split())
