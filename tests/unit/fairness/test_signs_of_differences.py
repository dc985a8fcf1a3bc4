"""What a comparison is called is what it measures: the value of the first name less that of the second, or over it."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.fairness.notions import NOTIONS
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP

N = 900
RNG = np.random.default_rng(0)
G, SEX = RNG.choice(["a", "b", "c"], N), RNG.choice(["F", "M"], N)
Y = (RNG.random(N) < np.where(G == "a", 0.6, 0.4)).astype(int)
S = RNG.normal(size=N) + 0.5 * (G == "a") - 0.4 * (G == "c") + 0.4 * Y * (G != "b")
D = (S > 0).astype(int)
NUMBERS = Y + RNG.normal(size=N)
CLASS = RNG.choice(["low", "middle", "high"], N)
SAID = np.where(RNG.random(N) < np.where(G == "a", 0.9, 0.4), CLASS, RNG.choice(["low", "middle", "high"], N))
QUERY = np.arange(N) // 30


def area(above, below):
    """How often a row of the mask `above` has the higher score of two, the other of the mask `below`."""
    return np.mean(S[above][:, None] > S[below])


def pairs_won(better, worse):
    """Of the pairs of documents of one query, the better one of `better`: how often its score is the higher."""
    won = [
        S[i] > S[j]
        for q in np.unique(QUERY)
        for i in np.flatnonzero(better & (q == QUERY) & (Y == 1))
        for j in np.flatnonzero(worse & (q == QUERY) & (Y == 0))
    ]
    return np.mean(won)


RATES = {
    "demographic_parity": lambda at, tail: D[at].mean(),
    "conditional_demographic_parity": lambda at, tail: D[at].mean(),
    "partial_demographic_parity": lambda at, tail: D[at].mean(),
    "equal_opportunity": lambda at, tail: D[at].mean(),
    "predictive_equality": lambda at, tail: D[at].mean(),
    "equalized_odds": lambda at, tail: D[at].mean(),
    "partial_equal_opportunity": lambda at, tail: D[at].mean(),
    "partial_equalized_odds": lambda at, tail: D[at].mean(),
    "error_rate_parity": lambda at, tail: (D != Y)[at].mean(),
    "false_negative_rate_parity": lambda at, tail: 1 - D[at].mean(),
    "predictive_parity": lambda at, tail: Y[at & (D == 1)].mean(),
    "false_omission_rate_parity": lambda at, tail: Y[at & (D == 0)].mean(),
    "f1_parity": lambda at, tail: 2 * (Y * D)[at].sum() / (Y + D)[at].sum(),
    "treatment_equality": lambda at, tail: (Y * (1 - D))[at].sum() / ((1 - Y) * D)[at].sum(),
    "demographic_parity_ratio": lambda at, tail: D[at].mean(),
    "true_positive_rate_ratio": lambda at, tail: D[at].mean(),
    "false_positive_rate_ratio": lambda at, tail: D[at].mean(),
    "loss_gap": lambda at, tail: (np.logaddexp(0, S) - Y * S)[at].mean(),
    "excess_loss": lambda at, tail: (np.logaddexp(0, S) - Y * S)[at].mean(),
    "auc_parity[intra]": lambda at, tail: area(at & (Y == 1), at & (Y == 0)),
    "auc_parity[bpsn]": lambda at, tail: area(Y == 1, at & (Y == 0)),
    "auc_parity[bnsp]": lambda at, tail: area(at & (Y == 1), Y == 0),
    "pairwise_parity[intra]": lambda at, tail: pairs_won(at, at),
    "pairwise_parity[marginal]": lambda at, tail: pairs_won(at, np.full(N, True)),
    "prediction_parity[at=0:1]": lambda at, tail: (float(tail.removeprefix(", above ")) < S)[at].mean(),
    "residual_gap": lambda at, tail: (S - NUMBERS)[at].mean(),
    "class_demographic_parity": lambda at, tail: (tail.removeprefix(", predicted ") == SAID)[at].mean(),
    "class_equalized_odds": lambda at, tail: (tail.removeprefix(", predicted ") == SAID)[at].mean(),
    "class_recall_parity": lambda at, tail: (SAID == CLASS)[at].mean(),
    "class_recall_parity[macro]": lambda at, tail: np.mean([(c == SAID)[at & (c == CLASS)].mean() for c in set(CLASS)]),
    "class_error_parity": lambda at, tail: (SAID != CLASS)[at].mean(),
}  # fmt: skip
"""What a group's value is, counted on its rows `at`, a mask; tail: what is said after the names, without the label."""

NOT_OF_TWO = {"partial_statistical_parity", "partial_group_auc", "query_pairwise_parity", "exposure_parity"}
"""Notions whose comparisons say "above", "over" or "short" of one group, in place of a difference of two."""

OVERALL = ("demographic_parity", "equalized_odds", "error_rate_parity", "loss_gap", "auc_parity[bnsp]", "residual_gap",
           "class_demographic_parity", "class_recall_parity", "class_recall_parity[macro]", "class_error_parity")  # fmt: skip


def labels_and_said(name):
    if name.startswith("class"):
        return CLASS, SAID
    return (NUMBERS if name.startswith(("prediction_parity", "residual_gap")) else Y), S


def rows_named(name, tail, labels):
    """The rows of a group, and of the label that is said after its name."""
    at = np.full(N, True)
    for part in [] if name == "overall" else name.split(" & "):
        at &= part == SEX if part in "FM" else part == G
    label = re.search(r" \| y=(\w+)", tail)
    return at if label is None else at & (labels.astype(str) == label[1])


def read(said):
    """The two groups of a comparison, what lies between them, and what is said after."""
    pairs = re.fullmatch(r"(\w+) above \w+ - (\w+) above \w+", said)
    if pairs:
        return pairs[1], "-", pairs[2], ""
    return re.fullmatch(r"(\w+(?: & \w+)?) ([-/]) (\w+(?: & \w+)?)(.*)", said).groups()


STATED = [*RATES, *(f"{n.removesuffix(']')}{',' if n.endswith(']') else '['}overall]" for n in OVERALL)]


@pytest.mark.parametrize("stated", STATED)
def test_a_comparison_is_the_first_group_less_the_second_or_over_it(stated):
    rate = RATES[stated.replace("[overall]", "").replace(",overall", "")]
    name = stated.partition("[")[0]
    labels, said = labels_and_said(name)
    given = name == "conditional_demographic_parity"
    text = (name + "[given=sex]" if given else stated) + (" >= 0.8" if name.endswith("ratio") else " <= 0.05")
    more = {"qid": QUERY} if name == "pairwise_parity" else {} if labels is not Y else {"threshold": 0}
    (found,) = fb.audit(said, labels, {"g": G, "sex": SEX} if given else {"g": G}, text, **more)["constraints"]
    assert len(found["contrasts"]) >= 2 and found["worst"] == found["contrasts"][0]["name"]
    for one in found["contrasts"]:
        first, sign, second, tail = read(one["name"])
        a, b = (rate(rows_named(g, tail, labels), tail.partition(" | ")[0]) for g in (first, second))
        assert one["value"] == pytest.approx(a / b if sign == "/" else a - b, abs=1e-9), one["name"]
    assert found["value"] == found["contrasts"][0]["value"]


def test_every_notion_of_two_groups_is_among_them():
    known = {n.name for n in NOTIONS.values() if getattr(n, "compares", "values") != "values"}
    own = {n for n in known if isinstance(n, str) and NOTIONS[n].__module__.startswith("fairbound.")}
    assert own == NOT_OF_TWO | {stated.partition("[")[0] for stated in RATES}


@pytest.mark.parametrize("against", ["pairwise", "overall", "best"])
def test_training_names_differences_of_recalls_as_audits_do(against):
    X, y = RNG.normal(size=(N, 3)), RNG.integers(0, 3, N)
    stated = f"class_recall_parity[{against}] <= 0.05"
    problem = FairProblem(MLP(3, (), 3), X, y, G, stated, loss="cross_entropy", dtype=torch.float64)
    x = problem.start([1]) + 0.3 * torch.arange(problem.n)
    d = problem.model.scores(x, torch.as_tensor(X)).argmax(-1).numpy()
    recall = {(g, c): (d == c)[(g == G) & (y == c)].mean() for g in "abc" for c in range(3)}
    recall |= {("overall", c): (d == c)[y == c].mean() for c in range(3)}
    recall |= {("best", c): max(recall[g, c] for g in "abc") for c in range(3)}
    for name, g in zip(problem.names, problem.evaluate(x).g.tolist(), strict=True):
        first, second, c = re.search(r": (\w+) - (\w+) \| y=(\d)$", name).groups()
        assert g + 0.05 == pytest.approx(recall[first, int(c)] - recall[second, int(c)], abs=1e-12), name
