"""Claims about what a report says: advice, units and remarks agree with what was measured."""

from __future__ import annotations

import numpy as np
import pytest

import fairbound as fb
import report_examples as examples
from fairbound import report
from fairbound.report import words
from fairbound.report.card import model_card

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
