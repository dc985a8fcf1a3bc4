"""The exact search against every conjunction by enumeration, its certificate, and bounds on subgroups of real data."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fairbound as fb
from fairbound.models.model import model_of
from fairbound.subgroups import Subgroups, bound_subgroups, most_violated, occurring


def every_gap(sizes, codes, statistic, reference, min_count, max_fixed, rows):
    """{rows of the subgroup as bytes: gap} over all conjunctions that fix something, one by one."""
    middle = statistic[rows].mean() if reference == "overall" else reference
    gaps = {}
    for pattern in itertools.product(*(range(-1, size) for size in sizes)):
        fixed = [a for a, code in enumerate(pattern) if code >= 0]
        if not 1 <= len(fixed) <= max_fixed:
            continue
        inside = rows.copy()
        for a in fixed:
            inside &= codes[:, a] == pattern[a]
        if inside.sum() >= min_count:
            gaps[inside.tobytes()] = abs(statistic[inside].mean() - middle)
    return gaps


def space(sizes):
    return Subgroups(tuple(f"a{j}" for j in range(len(sizes))), tuple(tuple(f"v{i}" for i in range(s)) for s in sizes))


def make(sizes, n, kind, missing, seed):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, s, n) for s in sizes], axis=1)
    codes = np.where(rng.random(codes.shape) < missing, -1, codes)
    signal = codes[:, 0] * 0.3 + rng.normal(size=n)
    return codes, {"decision": (signal > 0.5).astype(float), "loss": np.logaddexp(0, signal), "equal": np.ones(n)}[kind]


CASE = {
    "sizes": st.lists(st.integers(1, 5), min_size=1, max_size=4),
    "n": st.integers(1, 120),
    "kind": st.sampled_from(["decision", "loss", "equal"]),
    "missing": st.sampled_from([0.0, 0.2]),
    "min_count": st.integers(1, 15),
    "max_fixed": st.none() | st.integers(1, 4),
    "reference": st.sampled_from(["overall", 0.0, 0.7]),
    "seed": st.integers(0, 2**32),
}


@settings(max_examples=120, deadline=None)
@given(**CASE, top=st.integers(1, 6), part=st.booleans())
def test_search_equals_enumeration(sizes, n, kind, missing, min_count, max_fixed, reference, seed, top, part):
    codes, statistic = make(sizes, n, kind, missing, seed)
    rows = np.random.default_rng(seed + 1).random(n) < 0.6 if part else np.ones(n, dtype=bool)
    if not rows.any():
        return
    gaps = every_gap(sizes, codes, statistic, reference, min_count, max_fixed or len(sizes), rows)
    subgroups = space(sizes)
    cells = occurring(subgroups, codes)
    options = {"min_count": min_count, "max_fixed": max_fixed, "top": top, "rows": rows if part else None}
    if not gaps:
        with pytest.raises(fb.FairboundError, match="no subgroup"):
            most_violated(cells, statistic, reference, **options)
        return
    search = most_violated(cells, statistic, reference, **options)
    wanted = sorted(gaps.values(), reverse=True)[:top]
    np.testing.assert_allclose([f.gap for f in search.found], wanted, rtol=0, atol=1e-12 + search.rounding)
    assert search.exact and search.bound == search.found[-1].gap
    seen = set()
    for found in search.found:
        inside = rows & subgroups.members(found.index, codes)
        assert found.count == inside.sum() and found.name == subgroups.name(found.index)
        assert found.mean == pytest.approx(statistic[inside].mean(), abs=1e-12)
        seen.add(inside.tobytes())
        fixed = subgroups.assignment(found.index)
        for left_out in fixed if len(fixed) > 1 else ():
            fewer = {a: v for a, v in fixed.items() if a != left_out}
            assert (rows & subgroups.members(fewer, codes)).sum() > found.count
    assert len(seen) == len(search.found)


@settings(max_examples=60, deadline=None)
@given(**CASE, limit=st.integers(1, 40))
def test_a_search_stopped_early_still_proves_its_bound(
    sizes, n, kind, missing, min_count, max_fixed, reference, seed, limit
):
    codes, statistic = make(sizes, n, kind, missing, seed)
    gaps = every_gap(sizes, codes, statistic, reference, min_count, max_fixed or len(sizes), np.ones(n, dtype=bool))
    cells = occurring(space(sizes), codes)
    options = {"min_count": min_count, "max_fixed": max_fixed}
    if not gaps:
        return
    largest = max(gaps.values())
    search = most_violated(cells, statistic, reference, **options, max_visited=limit)
    slack = 1e-12 + search.rounding
    assert search.worst.gap <= largest + slack and largest <= search.bound + slack
    assert search.exact == (search.bound == search.worst.gap)
    whole = most_violated(cells, statistic, reference, **options)
    assert whole.visited <= sum(len(index) for index, _ in cells.frequent(min_count, max_fixed)) - 1


def test_depth_first_order_finds_the_same(monkeypatch):
    """Holding no more than one family at a time changes the order of the search, not what it proves."""
    codes, statistic = make((5, 4, 3, 3), 600, "loss", 0.1, 0)
    cells = occurring(space((5, 4, 3, 3)), codes)
    before = most_violated(cells, statistic, min_count=8, top=5)
    monkeypatch.setattr("fairbound.subgroups.search.OPEN_BYTES", 0)
    after = most_violated(cells, statistic, min_count=8, top=5)
    assert [f.index for f in after.found] == [f.index for f in before.found] and after.exact


def test_a_planted_subgroup_is_found_with_few_visits():
    """One conjunction of 300 rows is all selected, half of the others: nothing can beat it, and the bound says so."""
    rng = np.random.default_rng(0)
    sizes = (40, 30, 20, 6, 2)
    codes = np.stack([rng.integers(0, s, 50_000) for s in sizes], axis=1)
    codes[:300, :3] = (7, 7, 7)
    statistic = rng.random(50_000) < 0.5
    inside = (codes[:, :3] == 7).all(axis=1)
    statistic[inside] = True
    cells = occurring(space(sizes), codes)
    search = most_violated(cells, statistic, min_count=200)
    frequent = sum(len(index) for index, _ in cells.frequent(200)) - 1
    assert search.worst.mean == 1.0 and set(search.worst.name.split(" & ")) >= {"a0=v7", "a1=v7"}
    assert inside[cells.subgroups.members(search.worst.index, codes)].all()
    assert search.visited < frequent


@pytest.fixture(scope="module")
def colorado(data_dir):
    """Features (n, 35), labels, groups of sex, race, age and marital status on the 25,044 training rows of Colorado."""
    data = fb.data.load("acs-income-co", data_dir, encoding="numeric")
    rows = data.split(0, 0.2)["train"]
    frame = data.frame.iloc[rows]
    groups = fb.Groups.of(
        {
            "sex": frame["SEX"],
            "race": frame["RAC1P"],
            "age": np.digitize(frame["AGEP"], [25, 35, 45, 55, 65]),
            "marital": frame["MAR"],
        }
    )
    x = data.X[rows]
    x = (x - x.mean(0)) / x.std(0)
    ones = [np.eye(size)[code] for code, size in zip(groups.codes.T, (2, 9, 6, 5), strict=True)]
    return torch.as_tensor(np.hstack([x, *ones]), dtype=torch.float32), data.y[rows], groups


def test_search_equals_grouping_by_every_set_of_attributes(colorado):
    """pandas groups the 25,044 rows by each of the 15 sets of attributes."""
    pandas = pytest.importorskip("pandas")
    _, y, groups = colorado
    frame = pandas.DataFrame(groups.codes, columns=groups.attributes).assign(y=y)
    gaps = []
    for size in range(1, 5):
        for names in itertools.combinations(groups.attributes, size):
            table = frame.groupby(list(names))["y"].agg(["mean", "size"])
            gaps += (table["mean"] - y.mean()).abs()[table["size"] >= 200].tolist()
    search = most_violated(occurring(Subgroups.of(groups), groups.codes), y, min_count=200)
    assert search.worst.gap == pytest.approx(max(gaps), abs=1e-12)
    assert search.visited <= len(gaps)


def test_every_subgroup_of_colorado_comes_under_the_bound(colorado):
    """Without bounds some subgroup of 200 rows or more is over 0.3 from everyone; rounds bring all of them to 0.15."""
    features, y, groups = colorado
    subgroups = Subgroups.of(groups)

    def train(problem, x0):
        if not problem.m:
            return fb.solve(problem, fb.SGD(step_size=0.05, optimizer="adam"), budget="300 steps", sampling="full").x
        method = fb.ALM(step_size=0.01, optimizer="adam", dual_rows=0, dual_every=5, dual_step_size=0.3, penalty=10.0)
        solution = fb.solve(problem, method, budget="400 steps", sampling="full", x0=x0, record_every=20)
        return solution.x if solution.feasible else solution.last

    fit = bound_subgroups(
        train,
        "linear",
        features,
        y,
        subgroups,
        groups.codes,
        "demographic_parity[overall] <= 0.15",
        margin=0.02,
        add=10,
    )
    assert fit.rounds[0].worst.gap > 0.3
    assert fit.met and fit.worst.gap <= 0.15
    scores = fb.FairProblem(model_of("linear", features.shape[1]), features, y).all_scores(fit.x, features)
    again = most_violated(occurring(subgroups, groups.codes), scores > 0, min_count=200)
    assert again.exact and again.worst.gap == pytest.approx(fit.worst.gap, abs=1e-12)
    assert 0.1 < float((scores > 0).double().mean()) < 0.9  # not by a constant decision


@pytest.mark.long
def test_a_billion_subgroups_of_the_nation_within_two_gibibytes(data_dir):
    command = [
        sys.executable,
        str(Path(__file__).parents[2] / "benchmarks" / "subgroups.py"),
        "search",
        "--seconds",
        "5",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "FAIRBOUND_DATA": str(data_dir)}
    )
    result = json.loads(done.stdout)
    assert result["rows"] == 765_670 and result["nominal"] >= 10**9
    assert result["certificate"]["exact"] and result["worst"]["rows"] >= 200
    assert result["peak_gib"] <= 2
