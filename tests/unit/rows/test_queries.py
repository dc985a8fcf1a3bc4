"""Rows with queries: whole blocks, whole queries in every part of a split, and batches that are functions of their names."""

from __future__ import annotations

import numpy as np
import pytest

from fairbound.base.errors import DataError
from fairbound.rows.queries import Queries, ragged, split_by_query


def some_queries(seed, n=200, most=30):
    return np.random.default_rng(seed).integers(0, most, n)


@pytest.mark.parametrize("seed", range(5))
def test_documents_of_a_query_lie_together_in_the_order_asked_for(seed):
    qid = some_queries(seed)
    key = np.random.default_rng(seed + 100).normal(size=len(qid))
    q = Queries.of(qid, key)
    assert np.array_equal(np.sort(q.order), np.arange(len(qid)))
    for i, label in enumerate(q.labels):
        rows = q.order[q.starts[i] : q.starts[i + 1]]
        assert (qid[rows] == label).all() and len(rows) == (qid == label).sum() == q.sizes[i]
        assert (np.diff(key[rows]) >= 0).all()
    assert np.array_equal(q.labels[q.codes()], qid)
    first = [np.flatnonzero(qid == label)[0] for label in q.labels]
    assert (np.diff(first) > 0).all(), "queries are numbered as they come"


def test_numbers_and_texts_name_the_same_queries():
    qid = some_queries(1)
    a, b = Queries.of(qid), Queries.of([f"q{v}" for v in qid])
    assert np.array_equal(a.order, b.order) and np.array_equal(a.starts, b.starts)


@pytest.mark.parametrize("cut", [0, 1, 77, 199])
def test_parts_merge_to_the_queries_of_the_whole(cut):
    qid = some_queries(2)
    whole = Queries.of(qid)
    if cut == 0:
        with pytest.raises(DataError, match="no rows"):
            Queries.of(qid[:0])
        return
    merged = Queries.of(qid[:cut]).merge(Queries.of(qid[cut:]))
    assert np.array_equal(merged.order, whole.order) and np.array_equal(merged.starts, whole.starts)
    assert merged.labels.tolist() == whole.labels.tolist()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shares", [[0.25], [0.2, 0.3]])
def test_no_query_is_in_two_parts_and_every_row_in_one(seed, shares):
    qid = some_queries(seed)
    parts = split_by_query(qid, shares, seed)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(qid)))
    sets = [set(qid[rows]) for rows in parts]
    total = len(set(qid))
    assert sum(map(len, sets)) == total
    for part, share in zip(sets[1:], shares, strict=True):
        assert len(part) == int(np.ceil(round(share * total, 9)))
    again = split_by_query(qid, shares, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("kind", ["balanced", "uniform", "shuffled", "full"])
def test_a_batch_depends_on_seed_name_and_number_alone(kind):
    q = Queries.of(some_queries(3))
    for k in (0, 1, 70, 200):
        alone = q.draw([5], "primal", k, 7, kind)[0]
        assert np.array_equal(alone, q.draw([4, 5, 6], "primal", k, 7, kind)[1])
        assert len(alone) == (len(q) if kind == "full" else 7) and (np.diff(alone) >= 0).all()
        if kind != "full":
            assert not np.array_equal(alone, q.draw([5], "primal", k + 1, 7, kind)[0])
            assert not np.array_equal(alone, q.draw([5], "dual", k, 7, kind)[0])


def test_shuffled_batches_of_an_epoch_hold_every_query_once():
    q = Queries.of(np.repeat(np.arange(28), 3))
    seen = np.concatenate([q.draw([0], "s", k, 7, "shuffled")[0] for k in range(4)])
    assert np.array_equal(np.sort(seen), np.arange(28))


def test_documents_of_queries_are_their_blocks_one_after_another():
    q = Queries.of(some_queries(4))
    chosen = np.array([3, 0, 3])
    blocks = [np.arange(q.starts[i], q.starts[i + 1]) for i in chosen]
    assert np.array_equal(q.documents(chosen), np.concatenate(blocks))
    assert len(ragged(np.zeros(0, int), np.zeros(0, int))) == 0


@pytest.mark.parametrize("qid", [[1.0, float("nan")], ["a", None]])
def test_a_missing_query_is_an_error(qid):
    with pytest.raises(DataError, match="query is missing in 1 of 2"):
        Queries.of(qid)
