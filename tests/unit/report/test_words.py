"""Claims about what a report says: advice, units and remarks agree with what was measured."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
import report_examples as examples
from fairbound import report
from fairbound.cli.files.outcome import verdict_summary, verdict_text
from fairbound.report import schema, words
from fairbound.report.card import model_card
from fairbound.report.frontier import frontier_page

pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")


def undecided(**facts: object) -> dict:
    """A bound of 0.1 that rows could not decide."""
    found = {"bound": 0.1, "value": 0.05, "lower": 0.0, "upper": 0.2, "confidence": 0.95, "why": None}
    return found | {"verdict": "insufficient", "rows_needed": 3000, "groups": {"a": 400, "b": 90}} | facts


def test_no_bound_is_moved_once_the_data_are_seen():
    said = words.explain(undecided(rows_needed=10**7), 500)
    assert "Train under a tighter bound, or gather more rows." in said and "looser" not in said


def test_a_label_that_is_a_number_has_no_classes():
    rng = np.random.default_rng(0)
    y, sex = rng.normal(size=500), np.repeat(["f", "m"], 250)
    page = report.audit_page(fb.audit(y + 0.1, y, sex, "residual_gap[largest=8] <= 1"))
    assert "classes" not in page


def certificate(*candidates: tuple[list[str], str]) -> dict:
    """A certificate of models (trained under, verdict), in the order of the tests."""
    tested = [
        {
            "trained_under": list(under),
            "smoothed": False,
            "cost": 0.1,
            "accuracy": 0.9,
            "values": [0.01],
            "uppers": [0.04],
        }
        | {"verdict": verdict}
        for under, verdict in candidates
    ]
    verdict = "met" if any(one["verdict"] == "met" for one in tested) else tested[0]["verdict"]
    free = {"values": [0.01], "accuracy": 0.9, "verdict": verdict}
    return {
        "verdict": verdict, "text": "demographic_parity <= 0.03", "bound": 0.03, "upper": 0.02, "confidence": 0.95,
        "rows": {"train": 500, "choose": 100, "certify": 400}, "rows_needed": None, "candidates": tested,
        "measure": "accuracy", "price": 0.0, "accuracy": 0.9, "unconstrained": free, "said": "It is met.",
    }  # fmt: skip


UNDER = ["demographic_parity <= 0.02"]


@pytest.mark.parametrize(
    ("tested", "said"),
    [
        ([(UNDER, "met"), ([], "met")], words.TAKEN_MET),
        ([([], "insufficient"), (UNDER, "insufficient")], words.TAKEN),
        ([(UNDER, "met"), ([], "violated")], "The bound costs no accuracy."),
    ],
)
def test_a_certified_model_without_bounds_is_said_to_be_one(tested, said):
    audit = examples.mortgage() | {"certificate": certificate(*tested)}
    page = report.audit_page(audit)
    assert said in page and said in report.table(audit)
    assert page.count(said) == (1 if "costs" in said else 2)  # beside the certificate, and under the table of models


def test_the_page_and_the_card_say_who_is_selected():
    rng = np.random.default_rng(0)
    sex, y = np.repeat(["f", "m"], 250), rng.integers(0, 2, 500)
    audit = fb.audit(y, y, sex, classes=(0, 1), data={"label": "default_payment"})
    page, card = report.audit_page(audit), model_card(audit)
    top, table = page[: page.index('class="banner')], page[page.index('<section id="impact"') :]
    assert "selected: <bdi>predicted default_payment = 1</bdi>" in top
    assert "Selected: predicted default_payment = 1. The rule speaks of a favourable decision" in table
    assert "Selected: <bdi>predicted default_payment = 1</bdi>." in table
    assert r"Selected: predicted default\_payment = 1." in card
    alone = fb.audit(np.where(y == 1, "yes", "no"), None, sex, positive="yes")
    assert words.selected(alone) == "decision = yes"


def test_page_and_card_say_what_a_certificate_promises():
    audit = examples.mortgage() | {"certificate": certificate((UNDER, "met"))}
    page, card = report.audit_page(audit), model_card(audit)
    assert "## Certificate: bound met" in card and "It is met." in card
    for text in (page, card):
        for promise in ("not of another year or place", "It is of one fit", "says no more than the stated bound"):
            assert promise in text


def test_the_card_says_that_limits_are_one_sided_and_by_which_method():
    audit = examples.mortgage()
    card = model_card(audit)
    assert "“At least” and “at most” are one-sided confidence bounds at 95 %, by these methods:" in card
    for c in audit["constraints"]:
        assert f"- {c['text']}: {c['method']}".replace("_", r"\_").replace("<", "&lt;") in card


def test_the_card_says_for_registries_what_the_model_does():
    rng = np.random.default_rng(0)
    y, sex, query = rng.integers(0, 3, 300), np.repeat(["f", "m"], 150), np.repeat(np.arange(30), 10)
    tags = {
        "tabular-classification": fb.audit(y == 1, y == 1, sex, "demographic_parity <= 0.1"),
        "tabular-regression": fb.audit(y + 0.1, y * 1.0, sex, "residual_gap[largest=8] <= 1"),
        "ranking": fb.audit(rng.random(300), y, sex, qid=query),
    }
    for task, audit in tags.items():
        card = model_card(audit)
        assert re.findall(r"task: {type: (.*)}", card) == [f'"{task}"']
        assert re.findall("pipeline_tag: (.*)", card) == ([] if task == "ranking" else [f'"{task}"'])


def test_the_card_shows_numbers_apart_from_a_bound_that_they_are_near_to():
    """As the page and the terminal do: 0.1000 is within a bound of 0.1, and 0.10003 is not."""
    audit = examples.large_violated()
    audit["constraints"][0] |= {"bound": 0.1, "value": 0.10003, "lower": 0.100004, "upper": 0.11}
    for text in (model_card(audit), report.audit_page(audit), report.table(audit)):
        assert "0.10003" in text and "0.100004" in text and "0.1000 " not in text


def test_the_page_of_a_frontier_calls_its_limits_one_sided():
    point = {"bound": 0.1, "seed": 0, "accuracy": 0.8, "auc": 0.8, "value": 0.05, "lower": 0.01, "upper": 0.09}
    point |= {"train_value": 0.05, "verdict": "met"}
    row = {"bound": 0.1, "accuracy": 0.8, "auc": 0.8, "value": 0.05, "smallest": 0.05, "largest": 0.05, "n": 1}
    row |= {"train_value": 0.05, "verdicts": {"met": 1}}
    stated = {
        "notion": "demographic_parity",
        "sense": "at most",
        "data": "loans",
        "label": "paid",
        "sensitive": ["sex"],
    }
    rows = {"model": "linear", "split": "a quarter", "confidence": 0.95, "seed": 0, "library": {"fairbound": "0"}}
    page = frontier_page({**stated, **rows, "points": [point], "summary": [row], "certificates": [], "advice": ""})
    assert "one-sided confidence bounds at 95 %" in page and "at least, at most" in page
    assert "interval" not in page[page.index("<main") :]


def test_effective_numbers_of_rows_are_called_that_and_clusters_are_named():
    rng = np.random.default_rng(0)
    person = pd.Series(np.repeat(np.arange(200), 3), name="patient_id")
    sex, y = np.repeat(["f", "m"], 300), np.repeat(rng.integers(0, 2, 200), 3)
    audit = fb.audit(y, y, sex, "demographic_parity <= 0.3", clusters=person)
    assert audit["data"]["clusters"] == {"column": "patient_id", "count": 200, "largest": 3}
    page = report.audit_page(audit)
    assert audit["groups"][0]["rates"]["selection_rate"]["count"] < 300
    assert re.search(r'class="of">of \d+ effective rows<', page) and "“of 41 effective rows”" in page
    assert "200 by the column <code><bdi>patient_id</bdi></code>, of up to 3 rows" in page
    alone = fb.audit(y, y, sex, clusters=np.arange(600), data={"clusters": {"column": "row"}})
    assert "clusters" not in alone["data"] and "effective" not in report.audit_page(alone)
    unnamed = fb.audit(y, y, sex, clusters=person.to_numpy())
    assert unnamed["data"]["clusters"]["column"] is None
    report.audit_page(unnamed)


def test_rows_that_come_in_clusters_are_never_said_without_them():
    """Wherever a number of rows is said that limits do not count as independent."""
    rng = np.random.default_rng(0)
    country = np.repeat(np.arange(50), 10)
    region, y = np.where(country < 4, "Oceania", "else"), np.repeat(rng.integers(0, 2, 50), 10)
    where, decision = pd.Series(country, name="country"), np.where(rng.random(500) < 0.1, 1 - y, y)
    audit = fb.audit(decision, y, region, "demographic_parity <= 0.3", clusters=where)
    (found,) = audit["constraints"]
    schema.validate(audit)
    assert found["group_clusters"] == {"Oceania": 4, "else": 46} and found["groups"]["Oceania"] == 40
    said = report.table(audit)
    assert said.count("500 held-out rows in 50 clusters") == 2  # the verdict, and the head of the table
    assert "Oceania has 40 held-out rows in 4 clusters, too few to say how many would decide it" in said
    assert any("only 40 held-out rows in 4 clusters measure Oceania" in one for one in audit["warnings"])
    assert "its smallest group is Oceania, with 40 held-out rows in 4 clusters." in verdict_text(audit)
    many = fb.audit(decision, y, np.where(country < 20, "a", "b"), "demographic_parity <= 0.3", clusters=where)
    text = words.said_of(many["constraints"][0], many)
    assert "held-out rows of this kind, in clusters as large, would decide it" in text
    assert "this audit had 500 in 50 clusters." in text
    assert verdict_summary(many, seconds=None, seed=None, out=Path("o"))["clusters"] == 50
    alone = fb.audit(decision, y, region, "demographic_parity <= 0.3")
    assert "group_clusters" not in alone["constraints"][0] and "clusters" not in report.table(alone)


@pytest.mark.parametrize("needed", [3000, 10**7])
def test_rows_that_would_decide_are_said_with_their_odds(needed):
    even = words.explain(undecided(rows_needed=needed), 500)
    assert "decide at about even odds; this audit" in even or "decide it at about even odds; this audit" in even
    stated = words.explain(undecided(rows_needed=needed, power=0.8), 500)
    assert "in 80 % of audits; this audit had 500" in stated and "even odds" not in stated


def test_nothing_is_planned_from_a_group_of_a_handful_of_rows():
    for rows, says in ((1, "b has 1 held-out row, too few"), (9, "b has 9 held-out rows, too few"), (10, "")):
        found = undecided(groups={"a": 400, "b": rows})
        said = words.explain(found, 500)
        assert says in said and ("would decide it" in said.replace("how many would decide it", "")) == (rows == 10)
    rng = np.random.default_rng(0)
    sex, y = np.repeat(["f", "m"], [497, 3]), rng.integers(0, 2, 500)
    audit = fb.audit(np.where(np.arange(500) % 7 < 3, 1, 0), y, sex, "demographic_parity <= 0.4", power=0.8)
    (found,) = audit["constraints"]
    assert found["rows_needed"] is not None and found["power"] == 0.8
    page = report.audit_page(audit)
    assert words.about(found["rows_needed"]) not in page and "m has 3 held-out rows, too few" in page


def test_a_monitor_s_decisions_are_not_held_out():
    rng = np.random.default_rng(0)
    monitor = fb.Monitor("demographic_parity <= 0.2")
    monitor.update(rng.integers(0, 2, 3000), rng.integers(0, 2, 3000), np.repeat(["f", "m"], 1500))
    page = report.audit_page(monitor.look())
    assert "3,000 in use, counted by the monitor" in page and "3,000 held out" not in page
    few = fb.Monitor("demographic_parity <= 0.1").update(np.ones(200, int), np.arange(200) // 2 % 2, ["f", "m"] * 100)
    page = report.audit_page(few.look())
    assert "at about even odds; this monitor has seen 200." in page and "this audit had" not in page


@pytest.mark.parametrize(("pair", "positive"), [((0, 1), 0), (("no", "yes"), "yes"), ((0, 1), 1), ((0, 1), None)])
def test_reports_say_which_label_y_1_is_where_it_is_not_the_number_1(pair, positive):
    rng = np.random.default_rng(0)
    y, decided, group = np.array(pair)[rng.integers(0, 2, (2, 600))].tolist() + [np.repeat(["a", "b"], 300)]
    found = fb.audit(decided, y, group, "equal_opportunity <= 0.1", positive=positive, data={"label": "paid"})
    said = f"y=1 stands for the positive label, paid = {positive}, and y=0 for every other"
    of_a = sum(one == (1 if positive is None else positive) for one in y[:300])
    assert found["constraints"][0]["groups"]["a | y=1"] == of_a
    named = positive not in (1, None)
    assert (said in fb.report.table(found).replace("\n", " ")) == (said in report.audit_page(found)) == named
    by_share = fb.audit(decided, y, group, "demographic_parity <= 0.1", positive=positive)
    assert "y=1" not in report.audit_page(by_share)
