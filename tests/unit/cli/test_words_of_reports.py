"""Claims about what the reports of the commands say: advice beside verdicts, and what was judged."""

from __future__ import annotations

import pytest

import fairbound as fb
from fairbound.cli.judging.audit_facts import beside_verdicts
from fairbound.cli.training.areas import _worse_warnings
from fairbound.estimators.certificates.certificate import report_of

IDLE = {"fault": "inactive", "said": "'equalized_odds <= 0.1' never binds on the training rows", "next": "State less."}


@pytest.mark.parametrize(("verdict", "says"), [("violated", "bound violated"), ("insufficient", "not enough evidence")])
def test_advice_on_a_bound_kept_in_training_agrees_with_its_verdict(verdict, says):
    other = {"text": "equalized_odds[by=sex] <= 0.1", "verdict": "met"}
    audit = {"verdict": verdict, "constraints": [other, {"text": "equalized_odds <= 0.1", "verdict": verdict}]}
    (found,) = beside_verdicts([IDLE], audit)
    assert says in found["next"] and "State less" not in found["next"] and found["said"] == IDLE["said"]
    audit = {"verdict": "met", "constraints": [other, {"text": "equalized_odds <= 0.1", "verdict": "met"}]}
    falls = {"fault": "undertrained", "said": "The loss still falls", "next": "Train longer."}
    assert beside_verdicts([IDLE, falls], audit) == [IDLE, falls]


def test_advice_on_tighter_bounds_that_nobody_stated_is_left_out_of_a_certified_fit():
    stated = [fb.constraint("equalized_odds <= 0.1")]
    certificate = {"rows": {"train": 50, "choose": 10, "certify": 40}, "verdict": "violated"}

    def advice_under(text):
        said = {"fault": "inactive", "said": f"{text!r} never binds on the training rows", "next": ""}
        facts = {"constraints": [{"text": text, "train_value": 0.0}], "notes": [], "advice": [said]}
        return report_of(facts, stated, certificate)["advice"]

    assert advice_under("equalized_odds <= 0.03489") == []
    assert len(advice_under("equalized_odds <= 0.1")) == 1


def test_a_move_of_scores_that_makes_it_worse_is_said():
    def found(moved, before):
        bound = {"text": "auc_parity <= 0.1", "value": moved}
        return {"constraints": [bound], "comparison": [{"constraints": [{**bound, "value": before}]}]}

    (said,) = _worse_warnings(found(0.12, 0.08))
    assert "measures 0.1200 with the moved scores and 0.0800 with those before" in said and "worse" in said
    assert (
        _worse_warnings(found(0.08, 0.12))
        == _worse_warnings(found(0.08, 0.08))
        == _worse_warnings(found(None, 0.1))
        == []
    )
