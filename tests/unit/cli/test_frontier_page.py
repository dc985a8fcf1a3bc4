"""The frontier's page in a browser: the bound moves by real key presses and clicks, without network; its parts by themselves."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from browsing import CHROMIUM, Browser
from fairbound.cli import app as cli
from fairbound.cli.training.frontier import _advice
from fairbound.cli.training.frontier_page import certifiable, roc
from fairbound.estimators.knee import sure_knee

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("frontier")
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 1500)
    pay, skill = rng.normal(size=1500) + 1.2 * (sex == "M"), rng.normal(size=1500)
    y = np.where(pay + skill + 0.5 * rng.normal(size=1500) > 0.6, "yes", "no")
    pd.DataFrame({"pay": pay, "skill": skill, "sex": sex, "y": y}).to_csv(base / "rows.csv", index=False)
    call = [
        "frontier", "--data", base / "rows.csv", "--label", "y", "--group", "sex",
        "--constraint", "demographic_parity"
    ]  # fmt: skip
    assert cli.main([str(a) for a in [*call, "--bounds", "0.02,0.2", "--seeds", "1", "--out", base / "out"]]) == 0
    return base / "out"


def test_the_numbers_are_those_of_the_models(folder):
    result = json.loads((folder / "frontier.json").read_text())
    free, tight, loose = result["points"]
    assert free["train_value"] > loose["train_value"] > tight["train_value"]
    assert free["changed"] == 0 < loose["changed"] < tight["changed"] <= tight["rows"] == 375
    rates = [group["selection_rate"] for group in tight["groups"].values()]
    assert abs(rates[0] - rates[1]) == pytest.approx(tight["value"])
    assert [c["bound"] for c in result["certificates"]] == [0.02, 0.2] and result["certificates"][1]["verdict"] == "met"
    assert "The tightest of these bounds that a certificate would confirm is 0.2" in result["advice"]
    (certified,) = (c for c in result["certificates"] if c["bound"] == 0.2)
    more = {0.2: loose, 0.02: tight}[certified["trained_under"]]["more_rows"]
    assert set(more) == {"sex: F", "sex: M"} and min(more.values()) > 0
    assert f"more held-out rows of {max(more, key=more.get)} would narrow the interval most" in result["advice"]
    page = (folder / "report.html").read_text()
    assert not re.search(r"""(src|href)=["']https?:""", page) and "script-src 'sha256-" in page


def test_what_a_fit_warns_of_is_said_beside_the_accuracies(folder, capsys):
    """A group of three rows can cost most of the accuracy, which is no price of the bound."""
    assert json.loads((folder / "frontier.json").read_text())["warnings"] == []
    rows = pd.read_csv(folder.parent / "rows.csv")
    rows.loc[:2, "sex"] = "X"
    rows.to_csv(folder.parent / "few.csv", index=False)
    call = [
        "frontier",
        "--data",
        folder.parent / "few.csv",
        "--label",
        "y",
        "--group",
        "sex",
        "--constraint",
        "demographic_parity",
    ]
    assert (
        cli.main(
            [
                str(a)
                for a in [
                    *call,
                    "--bounds",
                    "0.02",
                    "--seeds",
                    "2",
                    "--algorithm",
                    "alm",
                    "--budget",
                    "20 steps",
                    "--out",
                    folder.parent / "few",
                ]
            ]
        )
        == 0
    )
    said = [line for line in capsys.readouterr().out.splitlines() if "too few training rows for a difference" in line]
    assert len(said) == 1 and "'X' (2)" in said[0]
    assert any(
        said[0] == f"warning: {line}"
        for line in json.loads((folder.parent / "few/frontier.json").read_text())["warnings"]
    )


def test_certificates_of_a_frontier_stop_at_the_first_failure():
    def point(bound, upper):
        return {"bound": bound, "upper": upper, "lower": upper, "accuracy": bound, "value": upper}

    models = [point(0.1, 0.09), point(0.02, 0.06), point(0.05, 0.11), point(None, 0.3)]
    found = certifiable(models, "at most")
    assert [(c["bound"], c["verdict"], c["trained_under"]) for c in found] == [
        (0.02, "insufficient", None), (0.05, "insufficient", None), (0.1, "met", 0.02),
    ]  # fmt: skip
    ratio = certifiable([point(0.9, 0.85), point(0.8, 0.75)], "at least")
    assert [(c["bound"], c["trained_under"]) for c in ratio] == [(0.9, None), (0.8, 0.9)]


def errors(rows, *accuracies):
    """(k, n) wrong decisions of nested models: who errs less errs on no further row."""
    return np.array([np.arange(rows) >= round(rows * accuracy) for accuracy in accuracies])


def test_the_knee_is_farthest_above_the_line_between_the_ends():
    curve = [(0.0, 0.8, 0.01), (0.02, 0.85, 0.02), (0.1, 0.87, 0.1), (0.2, 0.88, None)]
    points = [{"value": v, "cost": 1 - a, "bound": b} for v, a, b in curve]
    wrong = errors(2000, *(a for _, a, _ in curve))
    assert sure_knee(points, "bound", "at most", wrong) == (1, False)
    assert sure_knee(points[:1] + points[3:], "bound", "at most", wrong[[0, 3]]).at is None


def test_of_a_flat_curve_no_knee_is_said(folder):
    """0.02 and 0.2 on 375 rows, 0.2 of which is beyond what the model without a bound needs."""
    assert "cost more accuracy for each step" not in json.loads((folder / "frontier.json").read_text())["advice"]


@pytest.mark.parametrize(("sense", "says"), [("at most", "The smallest value that the models of seed 0 reach on held-out rows is 0.8000."),
                                             ("at least", "The largest value that the models of seed 0 reach on held-out rows is 0.9000.")])  # fmt: skip
def test_the_advice_names_the_best_value_and_the_rows_that_help_the_model_of_it(sense, says):
    points = [
        {"seed": 0, "bound": b, "value": v, "more_rows": {f"race: {v}": v}} for b, v in [(0.85, 0.8), (0.95, 0.9)]
    ]
    rows = " 1,000 more held-out rows of race: {0} would narrow the interval most, by {0}000."
    assert _advice([], "", points, 0, sense) == says + rows.format(0.9 if sense == "at least" else 0.8)
    nothing = [p | {"more_rows": {"race: black": 0.00004}} for p in points]
    assert _advice([], "", nothing, 0, sense) == says


def test_roc_curves_run_from_corner_to_corner_and_above_the_rates():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    s = rng.normal(size=500) + y
    curve = np.array(roc(s, y))
    assert curve[0].tolist() == [0, 0] and curve[-1].tolist() == [1, 1] and (np.diff(curve, axis=0) >= 0).all()
    middle = np.quantile(s, 0.5)
    wanted = [(s[y == k] > middle).mean() for k in (0, 1)]
    assert np.abs(curve - wanted).max(1).min() < 1e-3
    assert roc(s, np.ones(500, int)) == []


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_keys_and_clicks_move_the_bound(folder):
    browser = Browser(folder / "report.html")
    try:
        points = {p["bound"]: p for p in json.loads((folder / "frontier.json").read_text())["points"]}

        def shown(name):
            return browser.value(f"document.getElementById('{name}').textContent")

        assert shown("stated") == "no bound" and shown("changed").startswith("0 of 375")
        for _ in range(20):  # the keyboard alone reaches the bound
            if browser.value("document.activeElement.id") == "bound":
                break
            browser.press("Tab", 9)
        assert browser.value("document.activeElement.id") == "bound"
        browser.press("ArrowLeft", 37)
        assert shown("stated") == "demographic_parity ≤ 0.2"
        assert shown("certificate").startswith("bound met, by the model trained under")
        browser.press("Home", 36)
        assert (
            shown("stated")
            == "demographic_parity ≤ 0.02"
            == browser.value("document.getElementById('bound').getAttribute('aria-valuetext')")
        )
        assert shown("accuracy") == f"{100 * points[0.02]['accuracy']:.1f} %"
        assert shown("changed") == f"{points[0.02]['changed']} of 375"
        rates = [f"{100 * r['selection_rate']:.1f} %" for r in points[0.02]["groups"].values()]
        assert [
            browser.value(f"document.querySelectorAll('#rates tr')[{i}].children[1].textContent") for i in (0, 1)
        ] == rates
        assert browser.value("document.querySelectorAll('#curves polyline').length") == 2
        browser.value("document.getElementById('bound').scrollIntoView({block: 'center'})")
        box = json.loads(browser.value("JSON.stringify(document.getElementById('bound').getBoundingClientRect())"))
        for kind in ("mousePressed", "mouseReleased"):
            browser.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box["right"] - 3,
                y=(box["top"] + box["bottom"]) / 2,
                button="left",
                clickCount=1,
            )
        assert shown("stated") == "no bound"
        assert all(url.startswith(("file:", "data:")) for url in browser.asked)
    finally:
        browser.close()


def test_more_than_two_classes_and_bounds_on_one_class(tmp_path, capsys):
    """Every point is the model that `fit` with its bound and seed trains."""
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b"], 600)
    X = rng.normal(size=(600, 3)) + (group == "b")[:, None] * [0.9, 0.0, 0.0]
    y = np.array(["low", "middle", "high"])[(X + 0.5 * rng.gumbel(size=(600, 3))).argmax(1)]
    pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "w": X[:, 2], "g": group, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    usual = ["--data", tmp_path / "t.csv", "--label", "y", "--budget", "40 steps", "--json", "--quiet"]

    def run(*more):
        code = cli.main([str(a) for a in [*more, *usual]])
        said = capsys.readouterr()
        return code, json.loads(said.out)

    classes = ["class_demographic_parity", "--bounds", "0.05,0.3", "--group", "g"]
    code, found = run("frontier", "--seeds", "1", "--out", tmp_path / "f", "--constraint", *classes)
    free, tight, _ = found["points"]
    assert (
        code == 0 and found["notion"] == "class_demographic_parity" and all(p["auc"] is None for p in found["points"])
    )
    page = (tmp_path / "f" / "report.html").read_text()
    assert "class_demographic_parity" in page and "<script" not in page
    bound = ["class_demographic_parity <= 0.05", "--group", "g"]
    _, one = run("fit", "--no-baseline", "--out", tmp_path / "m", "--constraint", *bound)
    assert (
        one["metrics"]["accuracy"] == tight["accuracy"]
        and one["constraints"][0]["value"] == tight["value"] < free["value"]
    )

    recall = ["recall of class low", "--bounds", "0.6,0.95", "--group", "g"]
    _, found = run("frontier", "--seeds", "1", "--out", tmp_path / "r", "--constraint", *recall)
    free, tight, loose = found["points"]
    assert [p["bound"] for p in found["points"]] == [None, 0.95, 0.6]
    assert [s["bound"] for s in found["summary"]] == [0.95, 0.6, None]
    passed = [[p["lower"] >= bound for p in (tight, loose)] for bound in (0.95, 0.6)]
    certified = [None if not best else 0.6 if all((best, then)) else 0.95 for best, then in passed]
    assert [(c["bound"], c["trained_under"]) for c in found["certificates"]] == [
        (0.95, certified[0]),
        (0.6, certified[1]),
    ]
    assert certified != [0.6, 0.6]
    page = (tmp_path / "r" / "report.html").read_text()
    assert "recall of class low" in page and "≥ 0.95" in page
    assert (found["notion"], found["sense"]) == ("recall of class low", "at least") and free["value"] < tight["value"]
