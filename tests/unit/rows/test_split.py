"""The one splitter: parts that cover all rows, keep every stratum's share, and never take the last row of a stratum."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from fairbound.base.errors import OptionError
from fairbound.rows.groups import Groups
from fairbound.rows.labels import class_labels
from fairbound.rows.split import split_whole, stratified_split


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("shares", [[0.2], [0.25, 0.1], [0.5], [1 / 3, 1 / 3]])
def test_parts_cover_all_rows_and_keep_each_share_within_a_row(seed, shares):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 400))
    strata = np.column_stack([rng.integers(0, 2, n), rng.choice([-1, 0, 1], n, p=[0.2, 0.5, 0.3])])
    parts = stratified_split(strata, shares, seed)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    assert all((np.diff(rows) > 0).all() for rows in parts)
    for rows, share in zip(parts[1:], shares, strict=True):
        assert len(rows) == math.ceil(share * n - 1e-9)
    sizes = {tuple(s): (strata == s).all(axis=1) for s in np.unique(strata, axis=0)}
    for member in sizes.values():
        assert abs(member[parts[1]].sum() - len(parts[1]) / n * member.sum()) < 1
        assert member[parts[0]].any()


@pytest.mark.parametrize("seed", range(10))
def test_a_stratum_of_one_row_is_left_over_and_no_stratum_is_emptied(seed):
    codes = np.concatenate([np.arange(30), [90, 90], np.full(8, 91)])  # 30 strata of one row, one of two, one of eight
    rest, part = stratified_split(codes[:, None], [0.9], seed)
    assert set(codes[rest]) == set(codes)
    assert (codes[part] == 90).sum() == 1 and (codes[part] == 91).sum() == 7


def test_equal_fractions_are_drawn_and_not_given_to_the_first_strata():
    """Ten strata of three rows, a fifth held out: six of the ten give a row, each as often as another."""
    codes, held = np.repeat(np.arange(10), 3), np.zeros(10)
    for seed in range(500):
        held += np.bincount(codes[stratified_split(codes[:, None], [0.2], seed)[1]], minlength=10)
    # each count is binomial(500, 0.6), standard deviation 11
    assert held.sum() == 3000 and np.abs(held - 300).max() < 5 * 11


def test_every_row_is_as_likely_as_another():
    codes, held = np.repeat([0, 1], [15, 25]), np.zeros(40)
    for seed in range(400):
        held[stratified_split(codes[:, None], [0.25], seed)[1]] += 1
    assert np.abs(held - 100).max() < 5 * 8.7  # binomial(400, 1/4)


def test_the_seed_decides_and_no_strata_are_one():
    none = np.zeros((50, 0), dtype=np.int64)
    a, b, c = (stratified_split(none, [0.3], seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(a, b) and not np.array_equal(a, c) and len(a) == 15
    assert stratified_split(none, [], 0)[0].tolist() == list(range(50))
    for wrong in ([-0.1], [0.5, 0.5], [1.0]):
        with pytest.raises(OptionError, match="shares"):
            stratified_split(none, wrong, 0)


def test_units_stay_whole_and_each_is_in_the_stratum_of_its_first_row():
    rng = np.random.default_rng(0)
    units = rng.permutation(np.repeat(np.arange(300) * 7, rng.integers(1, 6, 300)))
    first = np.unique(units, return_index=True)[1]
    strata = np.zeros((len(units), 1), dtype=np.int64)
    strata[first, 0] = np.arange(300) % 3
    train, test = split_whole(units, strata, [0.25], 0)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(units)))
    assert not set(units[train]) & set(units[test])
    held = np.isin(np.unique(units), units[test])
    assert [int(held[np.arange(300) % 3 == s].sum()) for s in range(3)] == [25, 25, 25]
    alone = split_whole(np.arange(300), strata[first], [0.25], 0)
    assert all(map(np.array_equal, alone, stratified_split(strata[first], [0.25], 0)))


def test_labels_groups_and_a_split_take_few_bytes_of_a_row():
    """Numbers as Python objects, and sort orders as int64, are more than 30 bytes of each row."""
    n = 100_000
    y, group = (np.random.default_rng(seed).integers(0, 2, n) for seed in (0, 1))
    codes = np.column_stack([y, group]).astype(np.int8)
    runs = (lambda: class_labels(y)[0]), (lambda: Groups.of(group).codes), (lambda: stratified_split(codes, [0.9], 0))
    for run, most in zip(runs, (25, 25, 27), strict=True):
        run()
        tracemalloc.start()
        kept = run()
        peak = tracemalloc.get_traced_memory()[1] / n
        tracemalloc.stop()
        del kept
        assert peak < most
