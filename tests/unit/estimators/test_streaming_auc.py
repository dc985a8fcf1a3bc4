"""Learning from a stream: order, chunks, shards, memory, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import fairbound as fb
from fairbound.base.errors import DataError, EmptyGroupError, FairboundError, OptionError
from fairbound.fairness.area_problems.kappa_path import GRID, SMALLEST, _best, along_kappa
from fairbound.fairness.area_problems.linear_auc import LinearAUC
from fairbound.ranking.wins import auc
from fairbound.tables import Chunks


def rows(n=1500, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    group = np.where(rng.random(n) < 1 / (1 + np.exp(-1.5 * X[:, 0] - X[:, 1])), "a", "b")
    y = (X[:, 0] + 0.8 * (group == "a") + 0.5 * rng.normal(size=n) > 0.4).astype(int)
    return X, y, group


def streamed(data, order, chunk, **options):
    X, y, group = data
    made = fb.StreamingAUC("auc_parity[group] <= 0.05", **options)
    for at in range(0, len(order), chunk):
        i = order[at : at + chunk]
        made.partial_fit(X[i], y[i], group[i])
    return made


@pytest.mark.parametrize("kind", ["drawn", "by label and group", "one by one"])
def test_the_order_and_the_chunks_do_not_matter_to_the_exact_solver(kind):
    X, y, group = data = rows(400)
    order = np.random.default_rng(1).permutation(400) if kind == "drawn" else np.lexsort((group, y))
    made = streamed(data, order, 1 if kind == "one by one" else 37, kappa=0.2)
    batch = LinearAUC.of("auc_parity[group,surrogate=quadratic]", X, y, group).solve(0.2).weights
    assert made.coef_ == pytest.approx(batch, rel=1e-8)
    assert made.decision_function(X) == pytest.approx(X @ batch, rel=1e-7, abs=1e-9)


def test_the_stated_bound_is_met_on_the_sample():
    X, y, group = data = rows()
    made = streamed(data, np.arange(len(y)), 100)
    value = fb.measure("auc_parity[group]", made.decision_function(X), y, group, threshold=0)
    assert made.met_ and value <= 0.05
    free = fb.StreamingAUC("auc_parity[group] <= 1").partial_fit(*data)
    assert fb.measure("auc_parity[group]", free.decision_function(X), y, group, threshold=0) > 0.1
    assert auc(free.decision_function(X), y == 1, y == 0) >= auc(made.decision_function(X), y == 1, y == 0)
    assert {"kappa", "auc", "value"} <= made.path_[0].keys() and made.kappa_ < 1


def test_shards_merge():
    data = rows()
    halves = [streamed(data, part, 200, kappa=0.2) for part in (np.arange(700), np.arange(700, 1500))]
    whole = streamed(data, np.arange(1500), 1500, kappa=0.2)
    merged = halves[0].merge(halves[1])
    assert merged.rows_ == 1500 and merged.coef_ == pytest.approx(whole.coef_, rel=1e-8)


def test_the_sample_is_uniform_over_the_stream():
    """Of 3,000 rows 300 are kept: every tenth of the stream has about 30 of them, within five standard deviations."""
    n, kept = 3000, np.zeros(10)
    for seed in range(20):
        X = np.arange(n)[:, None] * np.ones((1, 1))
        y, group = np.arange(n) % 2, np.where(np.arange(n) % 3, "a", "b")
        made = fb.StreamingAUC("auc_parity[group] <= 0.05", sample=300, random_state=seed)
        for at in range(0, n, 250):
            part = slice(at, at + 250)
            made.partial_fit(X[part], y[part], group[part])
        assert len(made._kept) == 300
        kept += np.bincount([int(row[0]) // 300 for row, *_ in made._kept], minlength=10)
    assert np.abs(kept - 600).max() < 5 * np.sqrt(600 * 0.9)


def test_memory_does_not_grow_with_the_rows():
    import pickle

    data = rows(4000)
    sizes = []
    for n in (2000, 4000):
        made = streamed(tuple(part[:n] for part in data), np.arange(n), 500, sample=200)
        sizes.append(len(pickle.dumps(made)))
    assert sizes[1] < 1.02 * sizes[0]


def test_single_rows_learn_a_fair_ranking():
    X, y, group = data = rows(6000)
    made = fb.StreamingAUC("auc_parity[group] <= 0.05", solver="rows", kappa=0.1, warm_up=500)
    rng = np.random.default_rng(0)
    for _ in range(3):
        for part in np.array_split(rng.permutation(6000), 60):
            made.partial_fit(X[part], y[part], group[part])
    exact = LinearAUC.of("auc_parity[group,surrogate=quadratic]", *data).solve(0.1).weights
    areas = [auc(X @ w, y == 1, y == 0) for w in (made.coef_, exact)]
    assert abs(areas[0] - areas[1]) < 0.02
    gaps = [fb.measure("auc_parity[group]", X @ w, y, group, threshold=0) for w in (made.coef_, exact)]
    assert abs(gaps[0] - gaps[1]) < 0.04


def test_sparse_rows_and_weights_and_unknown_groups():
    X, y, group = rows(300)
    weight = np.random.default_rng(0).integers(1, 4, 300)
    group = group.astype(object)
    group[:20] = None
    one = fb.StreamingAUC("auc_parity[group] <= 0.05", kappa=0.2).partial_fit(sparse.csr_matrix(X), y, group, weight)
    many = np.repeat(np.arange(300), weight)
    two = fb.StreamingAUC("auc_parity[group] <= 0.05", kappa=0.2).partial_fit(X[many], y[many], group[many])
    assert one.coef_ == pytest.approx(two.coef_, rel=1e-7)


def test_the_sample_counts_rows_by_their_weights():
    """kappa is chosen by areas in which a row of weight 3 counts as three."""
    X, y, group = rows(200)
    weight = np.random.default_rng(0).integers(0, 4, 200)
    many = np.repeat(np.arange(200), weight)
    one = fb.StreamingAUC("auc_parity[group] <= 0.05").partial_fit(X, y, group, weight)
    two = fb.StreamingAUC("auc_parity[group] <= 0.05").partial_fit(X[many], y[many], group[many])
    assert one.coef_ == pytest.approx(two.coef_, rel=1e-6) and one.kappa_ == pytest.approx(two.kappa_, rel=1e-6)
    for a, b in zip(one.path_, two.path_, strict=True):
        assert a["auc"] == pytest.approx(b["auc"], abs=1e-9) and a["value"] == pytest.approx(b["value"], abs=1e-9)
    for wrong in (weight[:5], -weight, weight * np.nan):
        with pytest.raises(DataError, match="sample_weight"):
            fb.StreamingAUC("auc_parity[group] <= 0.05").partial_fit(X, y, group, wrong)


def test_kappa_is_found_between_the_points_of_the_grid():
    """The kappa taken is within an eighth of a step of the grid of one under which the bound is broken."""
    X, y, group = data = rows()
    program = LinearAUC.of("auc_parity[group,surrogate=quadratic]", *data)

    def measured(weights):
        s = X @ weights
        return auc(s, y == 1, y == 0), fb.measure("auc_parity[group]", s, y, group, threshold=0)

    for bound in (0.02, 0.05, 0.1):
        path = along_kappa(program, measured, bound)
        step = (path.tried[0].scores.differences.max() / SMALLEST) ** (1 / (GRID - 1))
        assert path.met and path.chosen.value <= bound
        assert measured(program.solve(path.chosen.scores.kappa * step ** (1 / 8)).weights)[1] > bound


def test_single_rows_whose_group_is_not_known():
    X, y, group = rows(300)
    group = group.astype(object)
    group[::7] = None
    made = fb.StreamingAUC("auc_parity[group] <= 0.05", kappa=0.2)
    for i in range(300):
        made.partial_fit(X[i : i + 1], y[i : i + 1], group[i : i + 1])
    whole = LinearAUC.of("auc_parity[group,surrogate=quadratic]", X, y, group).solve(0.2).weights
    assert made.coef_ == pytest.approx(whole, rel=1e-8)


def test_merging_with_an_estimator_that_has_seen_nothing():
    data = rows(300)
    full, empty = (
        streamed(data, np.arange(300), 100, kappa=0.2),
        fb.StreamingAUC("auc_parity[group] <= 0.05", kappa=0.2),
    )
    assert empty.merge(full).coef_ == pytest.approx(full.coef_)
    assert full.merge(fb.StreamingAUC("auc_parity[group] <= 0.05", kappa=0.2)).rows_ == 300
    narrow = fb.StreamingAUC("auc_parity[group] <= 0.05", kappa=0.2).partial_fit(data[0][:, :2], *data[1:])
    with pytest.raises(DataError, match="as many columns"):
        full.merge(narrow)


def test_what_is_refused():
    X, y, group = rows(50)
    with pytest.raises(NotFittedError):
        _ = fb.StreamingAUC("auc_parity[group] <= 0.05").coef_
    for wrong in ({"solver": "magic"}, {"solver": "rows"}, {"kappa": -1.0}, {"kappa": "small"}, {"sample": 0}):
        with pytest.raises(OptionError):
            fb.StreamingAUC("auc_parity[group] <= 0.05", **wrong).partial_fit(X, y, group)
    with pytest.raises(OptionError, match="takes one auc_parity"):
        fb.StreamingAUC("demographic_parity <= 0.05").partial_fit(X, y, group)
    with pytest.raises(DataError, match="NaN"):
        fb.StreamingAUC("auc_parity[group] <= 0.05").partial_fit(X * np.nan, y, group)
    made = fb.StreamingAUC("auc_parity[group] <= 0.05").partial_fit(X, y, group)
    with pytest.raises(DataError, match="columns"):
        made.partial_fit(X[:, :2], y, group)
    one_class = fb.StreamingAUC("auc_parity[group] <= 0.05").partial_fit(X[y == 1], y[y == 1], group[y == 1])
    with pytest.raises(FairboundError):
        _ = one_class.coef_
    one_group = fb.StreamingAUC("auc_parity[group] <= 0.05").partial_fit(X[:1], y[:1], group[:1])
    with pytest.raises((EmptyGroupError, DataError)):
        _ = one_group.coef_
    with pytest.raises(DataError, match="no rows"):
        made.partial_fit(X[:0], y[:0], group[:0])
    steps = fb.StreamingAUC("auc_parity[group] <= 0.05", solver="rows", kappa=0.2, warm_up=10)
    with pytest.raises(DataError, match="has arrived yet"):
        _ = steps.partial_fit(X, np.ones(50, dtype=int), group).coef_
    late = fb.StreamingAUC("auc_parity[group] <= 0.05", solver="rows", kappa=0.2, warm_up=10)
    late.partial_fit(X, y, group)
    with pytest.raises(DataError, match="give groups="):
        late.partial_fit(X, y, np.full(50, "c"))


def test_of_the_points_that_meet_the_bound_the_one_of_largest_area_is_taken():
    tried = [SimpleNamespace(value=v, auc=a) for v, a in ((0.3, 0.9), (0.1, 0.7), (0.05, 0.8), (0.0, 0.5))]
    assert _best(tried, 0.1) is tried[2] and _best(tried, 0.04) is tried[3] and _best(tried, -1) is None


def test_every_attribute_is_of_the_rows_so_far():
    data = rows(600)
    made, whole = streamed(data, np.arange(300), 300), streamed(data, np.arange(600), 300)
    first = (made.met_, made.kappa_, made.path_)  # none of them needs coef_ to be read before
    assert first[0] is not None and first[2]
    made.partial_fit(*(part[300:] for part in data))
    assert (made.met_, made.kappa_, made.path_) == (whole.met_, whole.kappa_, whole.path_) and made.path_ != first[2]
    given = streamed(data, np.arange(300), 300, kappa=0.2)
    assert (given.met_, given.kappa_, given.path_) == (None, 0.2, [])
    for name in ("kappa_", "met_", "path_"):
        with pytest.raises(NotFittedError):
            getattr(fb.StreamingAUC("auc_parity[group] <= 0.05"), name)


def test_rows_that_were_refused_settle_nothing():
    X, y, group = rows(100)
    made = fb.StreamingAUC("auc_parity[group] <= 0.05", kappa=0.2)
    with pytest.raises(DataError, match="y must hold 0 and 1"):
        made.partial_fit(X[:, :2], np.where(y == 1, np.nan, y), {"sex": group})
    assert not hasattr(made, "rows_")
    made.partial_fit(X, y, {"race": group})
    assert made.rows_ == 100 and made.n_features_in_ == 4


def test_groups_are_looked_at_when_all_parts_were_seen():
    X, y, _ = rows(1200)
    regions = np.array([f"r{i}" for i in np.arange(1200) % 110])
    stated = "auc_parity[group] <= 0.9"
    made = fb.StreamingAUC(stated, kappa=2)
    for at in range(0, 1200, 400):
        made.partial_fit(X[at : at + 400], y[at : at + 400], {"region": regions[at : at + 400]})
        if at == 0:
            with pytest.raises(DataError, match="'region' has 110 values in 400 rows"):
                _ = made.coef_
    assert made.coef_.shape == (4,)
    persons = np.array([f"p{i:04}" for i in range(1200)])
    steps = fb.StreamingAUC(stated, solver="rows", kappa=2)
    with pytest.raises(DataError, match="'person' has 1200 values in 1200 rows"):
        steps.set_params(warm_up=1000).partial_fit(X, y, {"person": persons})
    assert steps.partial_fit(X, y, {"person": np.where(persons < "p0600", "a", "b")}).rows_ == 1200
    named = fb.StreamingAUC(stated, kappa=2, groups={"region": sorted(set(regions))})
    assert named.partial_fit(X[:440], y[:440], {"region": regions[:440]}).coef_.shape == (4,)


def test_a_table_in_parts_is_to_be_passed_part_by_part():
    X, y, group = rows(100)
    with pytest.raises(DataError, match="call it for each part in turn"):
        fb.StreamingAUC("auc_parity[group] <= 0.05").partial_fit(Chunks([X[:50], X[50:]]), y, group)
