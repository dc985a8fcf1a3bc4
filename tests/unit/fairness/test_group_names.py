"""A name stands for one group: of attributes that share labels, and in every part of one audit."""

from __future__ import annotations

import numpy as np
import pytest

import fairbound as fb
from fairbound.fairness.verdicts.findings import unmeasured
from fairbound.rows.groups import Groups

N = 1200
RNG = np.random.default_rng(0)
AFAM, SINGLE = RNG.choice(["no", "yes"], N, p=[0.85, 0.15]), RNG.choice(["no", "yes"], N, p=[0.6, 0.4])
S = RNG.normal(size=N) + (AFAM == "no") + 0.3 * (SINGLE == "yes")
Y = (S + RNG.normal(size=N) > 0).astype(int)


def rows_of(name: str, **columns: np.ndarray) -> int:
    """The rows that a name such as "afam: no & single: yes" tells."""
    parts = dict(part.split(": ") for part in name.split(" & "))
    return int(np.logical_and.reduce([columns[a] == label for a, label in parts.items()]).sum())


def test_labels_that_two_attributes_share_are_said_with_their_attribute():
    people = {"afam": AFAM, "single": SINGLE}
    (judged,) = fb.audit(S, Y, people, "demographic_parity <= 0.05")["constraints"]
    assert list(judged["groups"]) == ["afam: no", "afam: yes", "single: no", "single: yes"]
    assert all(n == rows_of(name, **people) for name, n in judged["groups"].items())
    assert judged["worst"] == "afam: no - afam: yes"
    assert len({c["name"] for c in judged["contrasts"]}) == 4
    absent = Groups.of({a: ["maybe", *of[1:]] for a, of in people.items()}).take(np.arange(1, N))
    (judged,) = fb.audit(S[1:], Y[1:], absent, "demographic_parity <= 0.05")["constraints"]
    assert judged["why"] == "No held-out row measures afam: maybe, single: maybe."
    assert unmeasured(list("abcdefgh"), "held-out query") == "No held-out query measures a, b, c, d, e, f and 2 more."


@pytest.mark.parametrize("bound", ["conditional_demographic_parity[given=single]", "demographic_parity[crossed]"])
def test_a_crossed_group_has_one_name_in_bounds_and_in_impact_tables(bound):
    people = {"afam": AFAM, "single": SINGLE}
    found = fb.audit(S, Y, people, f"{bound} <= 0.05")
    impact = {c["category"]: c["n"] for c in found["impact"][2]["categories"]}
    assert found["constraints"][0]["groups"] == impact
    assert all(n == rows_of(name, **people) for name, n in impact.items())
    clear = fb.audit(S, Y, {"afam": AFAM, "single": np.where(SINGLE == "yes", "alone", "married")}, f"{bound} <= 0.05")
    assert set(clear["constraints"][0]["groups"]) == {
        f"afam: {a} & {b}" for a in ("no", "yes") for b in ("alone", "married")
    }


def test_only_the_labels_that_are_shared_are_said_with_their_attribute():
    people = {"race": np.where(AFAM == "no", "white", "unknown"), "sex": RNG.choice(["F", "M", "unknown"], N)}
    groups = fb.audit(S, Y, people, "demographic_parity <= 0.05")["constraints"][0]["groups"]
    assert list(groups) == ["race: unknown", "white", "F", "M", "sex: unknown"]


@pytest.mark.parametrize("pair", [(0, 1), ("no", "yes"), (False, True), ("Y", "n"), (1.5, 2.5)])
def test_numbers_and_words_that_say_nothing_alone_are_said_with_their_attribute(pair):
    site, kind = np.where(AFAM == "no", *pair), np.where(SINGLE == "no", "new", "old")
    names = [f"site: {label}" for label in pair]
    found = fb.audit(S, Y, {"site": site}, "equalized_odds <= 0.05")
    (judged,) = found["constraints"]
    assert {name.split(" | ")[0] for name in judged["groups"]} == set(names)
    assert all(name.count("site: ") == 2 for name in (judged["worst"], *(c["name"] for c in judged["contrasts"])))
    assert f"The value is that of {judged['worst']}." in fb.report.table(found)
    people = {"site": site, "kind": kind}
    crossed = fb.audit(S, Y, people, "demographic_parity[crossed] <= 0.05")["constraints"][0]["groups"]
    assert set(crossed) == {f"{name} & {b}" for name in names for b in ("new", "old")}
    each = fb.audit(S, Y, people, "demographic_parity <= 0.05")["constraints"][0]["groups"]
    assert set(each) == {*names, "new", "old"}


def test_labels_that_hold_an_ampersand_are_not_merged():
    people = {"one": np.where(AFAM == "no", "x & y", "x"), "two": np.where(SINGLE == "no", "z", "y & z")}
    found = fb.audit(S, Y, people, "demographic_parity[crossed] <= 0.05")
    groups = found["constraints"][0]["groups"]
    assert len(groups) == 4 and sum(groups.values()) == N
    assert groups == {c["category"]: c["n"] for c in found["impact"][2]["categories"]}
    assert groups["one: x & y & two: z"] == ((AFAM == "no") & (SINGLE == "no")).sum()


@pytest.mark.parametrize(
    "stated",
    ["demographic_parity <= 0.01", "demographic_parity_ratio >= 0.9", "true_positive_rate_ratio >= 0.9", "group_loss <= 0.1",
     "demographic_parity[overall] <= 0.01", "auc_parity[group] <= 0.01", "class_recall_parity[overall] <= 0.01"],
)  # fmt: skip
def test_the_attribute_of_what_gives_the_value_is_said(stated):
    people = {
        "ethnicity": np.where(AFAM == "no", "cauc", "afam"),
        "status": np.where(SINGLE == "yes", "alone", "married"),
    }
    found = fb.audit(S if "class" not in stated else (S > 0).astype(int), Y, people, stated)
    worst = found["constraints"][0]["worst"]
    attribute = "ethnicity" if "cauc" in worst or "afam" in worst else "status"
    assert f"The value is that of {worst} ({attribute})." in fb.report.table(found)
