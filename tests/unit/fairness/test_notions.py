"""Bounds as text and as objects: the round trip, the options, and the words of every refusal."""

import re
from dataclasses import dataclass
from itertools import product

import pytest

from fairbound.base.errors import OptionError
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.notions import (
    NOTIONS,
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    ErrorRateParity,
    LossGap,
    PredictiveEquality,
    constraint,
    constraints,
    register,
)
from fairbound.fairness.notions.groups import RateBound
from fairbound.fairness.notions.registry import ELSEWHERE

BOUNDS = [0, 0.02, 1, 1e-5, 0.123456789, 1 / 3]
ATTRIBUTES = ["each", "crossed", ("sex",), ("sex", "race"), "age group"]


@pytest.mark.parametrize("notion", [DemographicParity, EqualOpportunity, PredictiveEquality, EqualizedOdds])
@pytest.mark.parametrize("against", ["pairwise", "overall", "best"])
def test_text_gives_the_object_back_for_rates(notion, against):
    more = [{}]
    if notion is EqualizedOdds:
        more = [{"aggregated": "max"}] + ([{"aggregated": "sum"}] if against != "best" else [])
    rest = product(
        BOUNDS, ATTRIBUTES, ["sigmoid", "hinge", "clipped", "loss"], [1.0, 0.25, 1 / 3, 5], ["raise", "drop"]
    )
    for bound, attributes, surrogate, sharpness, empty in rest:
        for own in more:
            c = notion(bound=bound, against=against, attributes=attributes, surrogate=surrogate, sharpness=sharpness,
                       empty=empty, **own)  # fmt: skip
            assert constraint(c.text) == c
            assert constraint(c) is c


@pytest.mark.parametrize("given", [None, 0, 1, "both"])
def test_text_gives_the_object_back_for_losses(given):
    for bound, against, attributes in product([*BOUNDS, 7.5, 1e6], ["pairwise", "overall", "best"], ATTRIBUTES):
        c = LossGap(bound=bound, against=against, attributes=attributes, given=given)
        assert constraint(c.text) == c


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("demographic_parity <= 0.02", DemographicParity(bound=0.02)),
        ("  statistical_parity[ overall ]<=2e-2 ", DemographicParity(bound=0.02, against="overall")),
        ("demographic_parity ≤ 0.02", DemographicParity(bound=0.02)),
        ("equalised_odds[sum, crossed] <= 1.5", EqualizedOdds(bound=1.5, aggregated="sum", attributes="crossed")),
        ("equal_opportunity[sex+race,best] <= 0",
         EqualOpportunity(bound=0, against="best", attributes=("sex", "race"))),
        ("true_positive_rate_parity <= 0.1", EqualOpportunity(bound=0.1)),
        ("false_positive_rate_parity <= 0.1", PredictiveEquality(bound=0.1)),
        ("accuracy_parity <= 0.1", ErrorRateParity(bound=0.1)),
        ("loss_gap[y=1] <= 0.005", LossGap(bound=0.005, given=1)),
        ("loss_gap[] <= 3", LossGap(bound=3)),
        ("predictive_equality[surrogate=hinge,sharpness=2,empty=drop] <= 0.1",
         PredictiveEquality(bound=0.1, surrogate="hinge", sharpness=2.0, empty="drop")),
    ],
)  # fmt: skip
def test_what_people_write(text, expected):
    assert constraint(text) == expected


def test_texts_as_shown():
    assert DemographicParity(bound=0.02).text == "demographic_parity <= 0.02"
    assert EqualizedOdds(bound=0.1, aggregated="sum").text == "equalized_odds[sum] <= 0.1"
    assert (
        EqualOpportunity(bound=1 / 3, attributes=["a", "b"]).text == "equal_opportunity[by=a+b] <= 0.3333333333333333"
    )
    assert LossGap(bound=0.1, largest=5).text == "loss_gap[largest=5] <= 0.1"
    assert LossGap(bound=0.005, given="both", against="best").text == "loss_gap[best,y=both] <= 0.005"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("demographic_parity", "cannot read the constraint"),
        ("demographic_parity < 0.1", "write '<=' for '<'"),
        ("demographic_parity >= 0.1", "cannot read the constraint"),
        ("demographic_parity <= ", "cannot read the constraint"),
        (0.02, "cannot read the constraint 0.02"),
        ("demografic_parity <= 0.1", "unknown constraint 'demografic_parity'; did you mean 'demographic_parity'"),
        ("true_positive_rate >= 0.9", "did you mean 'true_positive_rate_parity'.*'recall of class b >= 0.95'"),
        ("dp <= 0.1", r"unknown constraint 'dp'; did you mean 'demographic_parity'\? All"),
        ("equalized_odds_difference <= 0.1", r"did you mean 'equalized_odds'\? All"),
        ("four_fifths >= 0.8", r"did you mean 'demographic_parity_ratio'\? All"),
        ("false_negative_rate <= 0.1", r"did you mean 'false_negative_rate_parity'\? All"),
        ("TruePositiveRateParity <= 0.1", r"did you mean 'true_positive_rate_parity'\? All"),
        ("selection_rate_ratio >= 0.8", r"did you mean 'demographic_parity_ratio'\? All"),
        (
            "equalized_odds_ratio >= 0.8",
            r"did you mean 'true_positive_rate_ratio' or 'false_positive_rate_ratio'\? All",
        ),
        ("average_odds_difference <= 0.1", r"did you mean 'equalized_odds'\? All"),
        ("accuracy_score_difference <= 0.1", r"did you mean 'error_rate_parity'\? All"),
        ("tpr_parity <= 0.1", "did you mean 'true_positive_rate_parity'"),
        ("fpr_difference <= 0.1", "did you mean 'false_positive_rate_parity'"),
        ("demographic_parity_difference <= 0.1", r"did you mean 'demographic_parity'\? All"),
        ("disparate_impact >= 0.8", "did you mean 'demographic_parity_ratio'"),
        ("zzzz <= 0.1", r"unknown constraint 'zzzz'\. All"),
        ("demografic_parity <= 0.1", r"All \d+ stand in docs/bounds.md\. One of"),
        ("demographic_parity <= two", "the bound 'two'"),
        ("demographic_parity <= -0.1", r"must lie in \[0, 1\], got -0.1"),
        ("demographic_parity <= 1.01", r"must lie in \[0, 1\], got 1.01"),
        ("demographic_parity <= nan", "got nan"),
        ("equalized_odds[sum] <= 2.1", r"must lie in \[0, 2\]"),
        ("equalized_odds <= 1.5", r"must lie in \[0, 1\]"),
        ("loss_gap <= inf", "got inf"),
        ("equalized_odds[sum,best] <= 0.1", "best-off"),
        ("demographic_parity[surrogate=relu] <= 0.1", "surrogate must be one of"),
        ("demographic_parity[sharpness=0] <= 0.1", "sharpness must be positive"),
        ("demographic_parity[sharpness=steep] <= 0.1", "sharpness 'steep'"),
        ("demographic_parity[empty=ignore] <= 0.1", "empty must be one of"),
        ("demographic_parity[y=1] <= 0.1", "unknown option 'y=1'"),
        ("demographic_parity[weight=2] <= 0.1", "unknown option 'weight=2'"),
        ("demographic_parity[sex+sex] <= 0.1", "different names"),
        ("demographic_parity[sex+] <= 0.1", "different names"),
        ("loss_gap[y=2] <= 0.1", r"given \(y=...\) must be 0, 1 or 'both'"),
        ("demographic_parity = 0.1", "write '<=' for '='"),
        ("demographic_parity_ratio > 0.8", "write '>=' for '>'"),
        ("demographic_parity <= 3%", "'3%' in .* is not a number; write 0.03"),
        ("demographic_parity <= 0,05", "'0,05' in .* is not a number; write 0.05"),
        ("demographic_parity <= 1,000,5", r"'1,000,5' in .* is not a number\.$"),
        ("demographic_parity <= x%", "'x%' in .* is not a number\\."),
        ("Demographic Parity <= 0.1", "one word: 'demographic_parity'"),
        ("equalized-odds[sum] <= 0.1", "one word: 'equalized_odds'"),
        ("demographic_parity <= 0.1, equal_opportunity <= 0.1", "give several as a list"),
        ("recal of class b >= 0.9", "its recall or its error is bounded"),
        ("loss_gap[surrogate=hinge] <= 0.1", "unknown option 'surrogate=hinge'"),
        ("demographic_parity[intergroup] <= 0.1", "unknown option 'intergroup'.* write by=intergroup"),
        ("demographic_parity[0.05:0.30] <= 0.1", r"unknown option '0.05:0.30' in .*; demographic_parity has: pairwise"),
        ("partial_demographic_parity[interval] <= 0.1", "unknown option 'interval'.*did you mean '0.05:0.3'"),
        ("demographic_parity[overal] <= 0.1", "did you mean 'overall'"),
        ("demographic_parity[overall,pairwise] <= 0.1", "say the same thing twice"),
        ("demographic_parity[empty=drop,empty=raise] <= 0.1", "say the same thing twice"),
        ("Demographic_Parity <= 0.1", "did you mean 'demographic_parity'"),
        ("demographic_parity_ratio <= 0.8", "bounded from below; write it like 'demographic_parity_ratio >= 0.8'"),
        ("demographic_parity_ratio >= 0", "must be above 0"),
        ("conditional_demographic_parity <= 0.1", "given"),
        ("conditional_demographic_parity[given=a,overall] <= 0.1", "pairwise"),
        ("f1_parity[overall] <= 0.1", "no mean of its groups"),
        ("group_loss[overall] <= 0.4", "unknown option 'overall'"),
        ("loss_gap[largest=0] <= 0.1", "largest must be a positive number"),
    ],
)
def test_what_is_refused_is_named(text, words):
    with pytest.raises(OptionError, match=words):
        constraint(text)


def test_objects_check_the_same():
    for make in (
        lambda: DemographicParity(bound="0.1"),
        lambda: DemographicParity(bound=0.1, against="worst"),
        lambda: DemographicParity(bound=0.1, attributes=()),
        lambda: EqualizedOdds(bound=0.1, aggregated="mean"),
        lambda: LossGap(bound=0.1, given="none"),
    ):
        with pytest.raises(OptionError):
            make()
    with pytest.raises(TypeError):
        DemographicParity()


def test_several_bounds():
    assert constraints(None) == ()
    assert constraints("loss_gap <= 1") == (LossGap(bound=1),)
    assert constraints(["loss_gap <= 1", DemographicParity(bound=0.1)]) == (
        LossGap(bound=1),
        DemographicParity(bound=0.1),
    )


@pytest.mark.parametrize("name", sorted(set(NOTIONS) - {"recall", "error"}))
def test_every_notion_writes_what_it_reads(name):
    notion = NOTIONS[name]
    given = {"given": "dept"} if "given" in notion.OPTIONS else {"kind": "intra"} if "intra" in notion.OPTIONS else {}
    made = notion(bound=0.25, attributes=("sex", "age group"), empty="drop", **given)
    assert constraint(made.text) == made
    assert constraint(made.statement, bound=0.25) == made
    assert ("<=" if made.sense == "at most" else ">=") in made.text
    assert made.over("crossed") == made and notion(bound=0.25, **given).over("crossed").attributes == "crossed"


def test_a_notion_of_one_s_own_is_registered_once():
    @register()
    @dataclass(frozen=True, kw_only=True)
    class HitRateParity(RateBound):
        """Accuracies differ by at most `bound`."""

        name = "hit_rate_parity"
        rates = (RATES["accuracy"],)

    try:
        assert constraint("hit_rate_parity[best] <= 0.1") == HitRateParity(bound=0.1, against="best")
        with pytest.raises(OptionError, match="is taken by"):
            register("hit_rate_parity")(DemographicParity)
    finally:
        del NOTIONS["hit_rate_parity"]


@pytest.mark.parametrize("number", ["0_1", "١", "０.1", "0x1", "1_0e-3", "²", "1e5_0", "--1"])
def test_a_number_is_written_in_plain_digits(number):
    for text in (f"demographic_parity <= {number}", f"demographic_parity[sharpness={number}] <= 0.1"):
        with pytest.raises(OptionError, match="not a number"):
            constraint(text)
    with pytest.raises(OptionError):
        constraint(f"recall of class b >= {number}")


@pytest.mark.parametrize(
    "text, said",
    [
        ("demographic_parity => 0.1", "Write '>=' for '=>'"),
        ("demographic_parity =< 0.1", "Write '<=' for '=<'"),
        ("0.1 >= demographic_parity", "The name of the notion comes first"),
        ("DEMOGRAPHIC_PARITY <= 0.1", "did you mean 'demographic_parity'"),
        ("demographic_parity <= 0.1 and equal_opportunity <= 0.1", "One text states one bound"),
        ("demographic_parity < 0.1", "write '<=' for '<'"),
        ("demographic_parity >= 0.1", "bounded from above"),
        ("demographic_parity[overall,pairwise] <= 0.1", "say the same thing twice"),
        ("demographic_parity[each,each] <= 0.1", "say the same thing twice"),
    ],
)
def test_a_slip_of_the_pen_is_named_with_its_mend(text, said):
    with pytest.raises(OptionError, match=re.escape(said)):
        constraint(text)


def test_names_used_elsewhere_lead_to_notions_that_there_are():
    for named in ELSEWHERE.values():
        assert all(name in NOTIONS for name in named.split(", "))
