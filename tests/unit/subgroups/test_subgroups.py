"""Subgroups by number: round trips, the limit of 2^62, names, members, counts, draws, group columns, bad input."""

import itertools
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.notions import NOTIONS, constraint
from fairbound.fairness.pointwise import loss_named
from fairbound.models.model import MLP
from fairbound.rows.groups import Groups
from fairbound.subgroups import (
    Subgroups,
    bound_subgroups,
    most_violated,
    occurring,
    subgroup_problem,
    violations,
)
from fairbound.subgroups.rounds import TAKEN, check_notion


def space(*sizes: int) -> Subgroups:
    return Subgroups(tuple(f"a{j}" for j in range(len(sizes))), tuple(tuple(f"v{i}" for i in range(s)) for s in sizes))


def random_codes(sizes, n, rng, missing=0.1):
    codes = np.stack([rng.integers(0, s, n) for s in sizes], axis=1)
    return np.where(rng.random(codes.shape) < missing, -1, codes)


PEOPLE = Subgroups(("sex", "race", "age"), (("F", "M"), ("Black", "White", "Other"), ("young", "old")))


# -- numbers ------------------------------------------------------------------------------------------------------


def test_numbers_are_the_positions_in_the_product_with_the_open_value_first():
    patterns = np.array(list(itertools.product([-1, 0, 1], [-1, 0, 1, 2], [-1, 0, 1])))
    assert PEOPLE.nominal == 36 and PEOPLE.cells == 12
    np.testing.assert_array_equal(PEOPLE.encode(patterns), np.arange(36))
    np.testing.assert_array_equal(PEOPLE.decode(np.arange(36)), patterns)


@given(sizes=st.lists(st.integers(1, 2000), min_size=1, max_size=6), data=st.data())
def test_decode_inverts_encode_at_any_size(sizes, data):
    if math.prod(s + 1 for s in sizes) > 2**62:
        with pytest.raises(OptionError, match=r"2\^62"):
            space(*sizes)
        return
    subgroups = space(*sizes)
    index = data.draw(st.integers(0, subgroups.nominal - 1))
    pattern = subgroups.decode([index])
    assert int(subgroups.encode(pattern)[0]) == index
    assert subgroups.index_of(subgroups.assignment(index)) == index
    assert len(subgroups.assignment(index)) == (pattern >= 0).sum()


def test_up_to_two_to_the_62_exactly():
    largest = space(*[1] * 62)
    assert largest.nominal == 2**62
    top = np.zeros((1, 62), dtype=np.int64)
    assert int(largest.encode(top)[0]) == 2**62 - 1
    np.testing.assert_array_equal(largest.decode([2**62 - 1]), top)
    with pytest.raises(OptionError, match="Leave an attribute out"):
        space(*[1] * 63)


@pytest.mark.parametrize("index", [-1, 36, 2**70])
def test_numbers_outside_are_refused(index):
    with pytest.raises(OptionError, match="must lie in"):
        PEOPLE.decode([index])


def test_names_and_assignments():
    index = PEOPLE.index_of({"age": "old", "race": "*", "sex": "F"})
    assert PEOPLE.name(index) == "sex=F & age=old"
    assert PEOPLE.assignment(index) == {"sex": "F", "age": "old"}
    assert PEOPLE.index_of({}) == 0 and PEOPLE.name(0) == "everyone"


@pytest.mark.parametrize(
    ("assignment", "words"),
    [({"height": "tall"}, "no attribute"), ({"sex": "X"}, "no label"), ({"race": ["Black", "White"]}, "fixes one")],
)
def test_unknown_assignments_are_refused(assignment, words):
    with pytest.raises(OptionError, match=words):
        PEOPLE.index_of(assignment)


@pytest.mark.parametrize(
    ("attributes", "labels"),
    [
        ((), ()),
        (("a",), ()),
        (("a", "a"), (("x",), ("y",))),
        (("a",), (("x", "x"),)),
        (("a",), (("*",),)),
        (("a",), ((),)),
    ],
)
def test_bad_spaces_are_refused(attributes, labels):
    with pytest.raises(OptionError):
        Subgroups(attributes, labels)


# -- members ------------------------------------------------------------------------------------------------------


def test_a_missing_value_leaves_only_the_subgroups_that_fix_it():
    codes = np.array([[0, 0, 0], [0, -1, 0], [-1, 0, 0], [0, 1, 1]])
    assert PEOPLE.members({"sex": "F"}, codes).tolist() == [True, True, False, True]
    assert PEOPLE.members({"sex": "F", "race": "Black"}, codes).tolist() == [True, False, False, False]
    assert PEOPLE.members({}, codes).all() and PEOPLE.members(0, codes).all()


def test_a_predicate_may_name_several_labels():
    codes = np.array([[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, -1, 0]])
    assert PEOPLE.members({"race": {"Black", "Other"}}, codes).tolist() == [True, False, True, False]


@pytest.mark.parametrize("codes", [[[0, 3, 0]], [[0, 0, -2]], [[0, 0]], [[0.0, 0.0, 0.0]]])
def test_codes_that_are_not_of_these_attributes_are_refused(codes):
    with pytest.raises(DataError):
        PEOPLE.members(0, np.array(codes))
    with pytest.raises(DataError):
        occurring(PEOPLE, np.array(codes))


# -- counts -------------------------------------------------------------------------------------------------------


def test_cells_are_the_distinct_rows_whole_or_streamed():
    rng = np.random.default_rng(0)
    sizes = (3, 4, 2)
    codes = random_codes(sizes, 5000, rng)
    whole = occurring(space(*sizes), codes)
    streamed = occurring(space(*sizes), (codes[i : i + 37] for i in range(0, 5000, 37)))
    rows, count = np.unique(codes, axis=0, return_counts=True)
    assert whole.rows == 5000 and len(whole) == len(rows)
    np.testing.assert_array_equal(whole.codes, rows)
    np.testing.assert_array_equal(whole.count, count)
    np.testing.assert_array_equal(whole.codes[whole.row_cell], codes)
    np.testing.assert_array_equal(whole.key, streamed.key)
    np.testing.assert_array_equal(whole.count, streamed.count)
    with pytest.raises(DataError, match="stream"):
        most_violated(streamed, np.zeros(5000))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    n=st.integers(1, 60),
    min_count=st.integers(1, 12),
    max_fixed=st.none() | st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_frequent_lists_exactly_the_subgroups_with_enough_rows(sizes, n, min_count, max_fixed, seed):
    codes = random_codes(sizes, n, np.random.default_rng(seed))
    subgroups = space(*sizes)
    cells = occurring(subgroups, codes)
    listed = {
        int(i): int(c)
        for index, count in cells.frequent(min_count, max_fixed)
        for i, c in zip(index, count, strict=True)
    }
    wanted = {}
    for index in range(subgroups.nominal):
        count = int(subgroups.members(index, codes).sum())
        assert int(cells.count[cells.inside(index)].sum()) == count
        if count >= min_count and len(subgroups.assignment(index)) <= (max_fixed or 9):
            wanted[index] = count
    assert listed == wanted
    full = {i for i in wanted if len(subgroups.assignment(i)) == len(sizes)}
    if max_fixed is None:
        assert set(cells.at_least(min_count)[0].tolist()) == full


def test_no_rows_is_an_error():
    with pytest.raises(DataError, match="no rows"):
        occurring(PEOPLE, np.zeros((0, 3), dtype=int))


# -- draws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cells", "conjunctions"])
def test_draws_are_distinct_large_enough_and_repeat(kind):
    codes = random_codes((3, 4, 5), 3000, np.random.default_rng(1))
    cells = occurring(space(3, 4, 5), codes)
    drawn = cells.draw(12, 7, min_count=30, kind=kind)
    np.testing.assert_array_equal(drawn, cells.draw(12, 7, min_count=30, kind=kind))
    assert len(set(drawn.tolist())) == 12 and set(drawn.tolist()) != set(
        cells.draw(12, 8, min_count=30, kind=kind).tolist()
    )
    assert all(cells.count[cells.inside(int(i))].sum() >= 30 and i > 0 for i in drawn)
    if kind == "cells":
        assert all(len(cells.subgroups.assignment(int(i))) == 3 for i in drawn)
    else:
        shallow = cells.draw(6, 7, min_count=30, max_fixed=1)
        assert all(len(cells.subgroups.assignment(int(i))) == 1 for i in shallow)


def test_random_conjunctions_are_uniform():
    """Chi-square over every eligible subgroup, 2000 single draws; the 0.999 quantile by Wilson and Hilferty."""
    codes = random_codes((2, 3, 2), 400, np.random.default_rng(2))
    codes[:250] = 0  # one cell has most rows
    cells = occurring(space(2, 3, 2), codes)
    eligible = [int(i) for index, _ in cells.frequent(15) for i in index if i]
    hits = dict.fromkeys(eligible, 0)
    draws = 2000
    for seed in range(draws):
        hits[int(cells.draw(1, seed, min_count=15)[0])] += 1
    expected, k = draws / len(eligible), len(eligible) - 1
    chi = sum((h - expected) ** 2 / expected for h in hits.values())
    assert chi < k * (1 - 2 / (9 * k) + 3.09 * math.sqrt(2 / (9 * k))) ** 3


def test_draws_where_there_are_few_or_none():
    codes = np.zeros((10, 2), dtype=int)
    cells = occurring(space(2, 2), codes)
    assert cells.draw(5, 0, min_count=3, kind="cells").tolist() == [4]
    assert sorted(cells.draw(5, 0, min_count=3).tolist()) == [1, 3, 4]
    for kind in ("cells", "conjunctions"):
        with pytest.raises(DataError, match="Lower min_count"):
            cells.draw(1, 0, min_count=11, kind=kind)
    for options in ({"kind": "rows"}, {"min_count": 0}, {"max_fixed": 0}):
        with pytest.raises(OptionError):
            cells.draw(1, 0, **options)


# -- bad input of the search --------------------------------------------------------------------------------------


def test_search_refuses_what_it_cannot_use():
    codes = np.zeros((10, 2), dtype=int)
    cells = occurring(space(2, 2), codes)
    y = np.zeros(10)
    for options in ({"min_count": 0}, {"max_fixed": 0}, {"top": 0}, {"max_visited": 0}, {"reference": "rest"}):
        with pytest.raises(OptionError):
            most_violated(cells, y, **{"min_count": 1, **options})
    with pytest.raises(OptionError, match="finite"):
        most_violated(cells, y, math.nan, min_count=1)
    for statistic in (y[:9], np.full(10, np.nan), np.zeros((10, 1))):
        with pytest.raises(DataError, match="10 finite"):
            most_violated(cells, statistic, min_count=1)
    for rows in (np.ones(9, dtype=bool), np.ones(10)):
        with pytest.raises(DataError, match="mask"):
            most_violated(cells, y, min_count=1, rows=rows)
    with pytest.raises(DataError, match="no row"):
        most_violated(cells, y, min_count=1, rows=np.zeros(10, dtype=bool))
    with pytest.raises(DataError, match="lower min_count"):
        most_violated(cells, y, min_count=11)


# -- chosen subgroups as bounds -----------------------------------------------------------------------------------


def case(seed=0, n=300, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    codes = random_codes((2, 3, 3), n, rng)
    subgroups = space(2, 3, 3)
    x = torch.as_tensor(rng.normal(size=(n, 4)), dtype=dtype)
    y = (rng.random(n) < 0.4).astype(int)
    indices = [int(i) for i in occurring(subgroups, codes).draw(9, seed, min_count=20)]
    return subgroups, codes, x, y, indices


def test_as_groups_marks_exactly_the_members_and_packs_disjoint_subgroups():
    subgroups, codes, _, _, indices = case()
    groups = subgroups.as_groups([*indices, indices[0]], codes)
    assert sum(len(labels) for labels in groups.labels) == len(indices)
    for index in indices:
        name = subgroups.name(index)
        ((column, code),) = [(j, labels.index(name)) for j, labels in enumerate(groups.labels) if name in labels]
        np.testing.assert_array_equal(groups.codes[:, column] == code, subgroups.members(index, codes))
    assert len(subgroups.as_groups([subgroups.index_of({"a1": f"v{v}"}) for v in range(3)], codes).attributes) == 1


@pytest.mark.parametrize(
    "stated",
    [
        "demographic_parity[overall] <= 0.1",
        "equalized_odds[overall] <= 0.1",
        "loss_gap[overall,y=1] <= 0.1",
        "predictive_equality[overall] <= 0.05",
    ],
)
def test_problem_values_are_the_gaps_of_the_chosen_subgroups(stated):
    subgroups, codes, x, y, indices = case()
    notion = constraint(stated)
    problem = subgroup_problem(MLP(4), x, y, subgroups, indices, codes, notion, dtype=torch.float64)
    w = torch.as_tensor(np.random.default_rng(3).normal(size=5))
    scores = problem.model.scores(w, x)
    if notion.name == "loss_gap":
        statistic = loss_named("logistic").value(scores, torch.as_tensor(y, dtype=torch.float64)).numpy()
    else:
        statistic = (scores > 0).numpy().astype(float)
    g = dict(zip(problem.names, problem.evaluate(w).g.tolist(), strict=True))
    assert len(g) == 2 * len(indices) * len(notion.conditions())
    for index in indices:
        for c in notion.conditions():
            rows = np.ones(len(y), dtype=bool) if c is None else y == c
            gap = statistic[rows & subgroups.members(index, codes)].mean() - statistic[rows].mean()
            tail = "" if c is None else f" | y={c}"
            name = subgroups.name(index)
            assert g[f"{notion.name}: {name} - overall{tail}"] == pytest.approx(gap - notion.bound, abs=1e-12)
            assert g[f"{notion.name}: overall - {name}{tail}"] == pytest.approx(-gap - notion.bound, abs=1e-12)


@pytest.mark.parametrize("sampling", ["balanced", "uniform", "shuffled", "full"])
def test_gradients_of_subgroup_bounds_are_those_of_their_values(sampling):
    """Central differences, float64: error of order h^2 times the third derivative of a sigmoid (at most 1/8 |x|^3)."""
    subgroups, codes, x, y, indices = case()
    problem = subgroup_problem(
        MLP(4), x, y, subgroups, indices, codes, "demographic_parity[overall] <= 0.1", dtype=torch.float64
    )
    batch = problem.sample((0,), "test", 0, 64, sampling)
    rng = np.random.default_rng(4)
    w, weights = torch.as_tensor(rng.normal(size=5)), torch.as_tensor(rng.random(problem.m))

    def value(point):
        evaluation = problem.values(point, batch)
        return float(evaluation.f + weights @ evaluation.g)

    _, gradient = problem.gradient(w, batch, (1.0, weights))
    h = 1e-5
    numeric = [(value(w + h * e) - value(w - h * e)) / (2 * h) for e in torch.eye(5, dtype=torch.float64)]
    np.testing.assert_allclose(gradient.numpy(), numeric, atol=1e-7)


def test_plans_refuse_what_they_cannot_state():
    subgroups, codes, x, y, indices = case()
    for stated in ("demographic_parity <= 0.1", "equalized_odds[overall,sum] <= 0.1"):
        with pytest.raises(OptionError, match="overall"):
            subgroup_problem(MLP(4), x, y, subgroups, indices, codes, stated)
    empty = Groups(np.zeros((len(y), 1), dtype=np.int64), ("g",), (("all", "none"),))
    plan = compile_plan((constraint("demographic_parity[overall] <= 0.1"),), empty, y, everyone=True)
    assert plan.m == 2  # a group that does not occur is none
    assert subgroup_problem(MLP(4), x, y, subgroups, (), codes, "demographic_parity[overall] <= 0.1").m == 0


def test_violations_searches_each_condition():
    subgroups, codes, x, y, _ = case()
    cells = occurring(subgroups, codes)
    scores = x[:, 0]
    both = violations(cells, constraint("equalized_odds[overall] <= 0.1"), scores, y, min_count=10)
    assert len(both) == 2
    for search, label in zip(both, (1, 0), strict=True):
        same = most_violated(cells, (scores > 0).numpy(), min_count=10, rows=y == label)
        assert search.found == same.found


def test_rounds_refuse_bad_options_and_stop_when_met():
    subgroups, codes, x, y, _ = case()
    calls = []

    def train(problem, x0):
        calls.append(problem.m)
        return torch.zeros(5)

    arguments = (train, "linear", x, y, subgroups, codes, "demographic_parity[overall] <= 0.1")
    fit = bound_subgroups(*arguments, min_count=20)
    assert fit.met and calls == [0] and fit.worst.gap == 0 and fit.active == ()
    for options in ({"rounds": 0}, {"add": 0}, {"overlap": 0}, {"margin": 0.2}):
        with pytest.raises(OptionError):
            bound_subgroups(*arguments, **options)
    with pytest.raises(DataError, match="differ in length"):
        bound_subgroups(train, "linear", x, y[:-1], subgroups, codes, "demographic_parity[overall] <= 0.1")
    with pytest.raises(OptionError, match="overall"):
        bound_subgroups(train, "linear", x, y, subgroups, codes, "demographic_parity <= 0.1")


@pytest.mark.parametrize("relabel", [lambda y: y + 1, lambda y: 2 * y - 1, lambda y: np.where(y == 1, "yes", "no")])
def test_other_labels_than_0_and_1_are_refused(relabel):
    subgroups, codes, x, y, indices = case()
    notion, other = "equal_opportunity[overall] <= 0.1", relabel(y)
    refused = pytest.raises(DataError, match=r"targets must be 0 or 1, got .*targets == POSITIVE")
    with refused:
        bound_subgroups(None, "linear", x, other, subgroups, codes, notion)
    for chosen in (indices, ()):
        with refused:
            subgroup_problem("linear", x, other, subgroups, chosen, codes, notion)
    with refused:
        violations(occurring(subgroups, codes), constraint(notion), x[:, 0], other, min_count=10)


def test_numbers_are_free_under_a_loss_of_numbers_and_bounds_by_label_are_not():
    subgroups, codes, x, y, indices = case()
    numbers = subgroup_problem(
        "linear", x, y + 0.5, subgroups, indices, codes, "loss_gap[overall] <= 0.1", loss="squared"
    )
    assert numbers.m == 2 * len(indices)
    for chosen in (indices, ()):
        with pytest.raises(DataError, match="needs labels 0 and 1"):
            subgroup_problem(
                "linear", x, y + 1, subgroups, chosen, codes, "equal_opportunity[overall] <= 0.1", loss="squared"
            )


def test_tables_and_series_are_taken_without_a_warning():
    subgroups, codes, x, y, _ = case()
    points = []

    def train(problem, x0):
        points.append(problem.evaluate(torch.ones(5)))
        return torch.ones(5)

    stated = (subgroups, codes, "equal_opportunity[overall] <= 0.9")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound_subgroups(train, "linear", pd.DataFrame(x.numpy()), pd.Series(y), *stated, min_count=20)
        bound_subgroups(train, "linear", pd.DataFrame(x.numpy()), pd.Series(y * 1.0), *stated, min_count=20)
        bound_subgroups(train, "linear", x, y, *stated, min_count=20)
    assert len({float(point.f) for point in points}) == 1
    with pytest.raises(DataError, match="features must be numbers"):
        bound_subgroups(train, "linear", pd.DataFrame({"a": ["x"] * len(y)}), y, *stated)


def usual(name):
    which = "[intra]" if name == "auc_parity" else ""
    return constraint(f"{name}{which} {'>=' if name.endswith('ratio') else '<='} {NOTIONS[name].example}")


SIMPLE = [
    name
    for name, notion in NOTIONS.items()
    if notion.name == name and notion.about == "group" and not name.startswith(("partial_", "pairwise", "conditional"))
]


@pytest.mark.parametrize("name", SIMPLE)
def test_what_is_said_of_a_notion_can_be_done(name):
    """Where another text of the same notion is advised it is taken; else the notions that are taken are named."""
    with pytest.raises(OptionError) as refused:
        check_notion(usual(name))
    said = str(refused.value)
    if name in TAKEN:
        assert f"write '{name}[overall] <= {NOTIONS[name].example}'" in said
        assert check_notion(constraint(f"{name}[overall] <= {NOTIONS[name].example}"))
    else:
        assert "is no bound on subgroups" in said and f"write {name}" not in said and all(t in said for t in TAKEN)


def test_of_a_sum_its_parts_are_advised():
    with pytest.raises(OptionError, match=r"write 'equalized_odds\[overall\] <= 0.1'; got"):
        check_notion(constraint("equalized_odds[overall,sum] <= 0.1"))
    for stated in ("residual_gap[overall] <= 0.1", "auc_parity[intra,overall] <= 0.1", "recall of class 1 >= 0.9"):
        with pytest.raises(OptionError, match=f"{re.escape(stated)}' is no bound on subgroups"):
            check_notion(constraint(stated))


def test_the_page_names_the_notions_that_are_taken():
    page = (Path(__file__).parents[3] / "docs" / "subgroups.md").read_text(encoding="utf-8")
    sentence = page.partition("The notions are those")[2].partition(". ")[0]
    assert re.findall(r"`(\w+)`", sentence) == ["overall", *TAKEN]
