"""Batches of rows: strata, shares, epochs, and that batch k depends on nothing but its name."""

import numpy as np
import pytest
import torch
from scipy import stats

from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.rows.sampling import KINDS, balanced_layout, block_length, chunk_length, draw_rows
from fairbound.rows.strata import Strata

CELLS = np.repeat([[0], [1], [2]], [50, 7, 2], axis=0)[np.random.default_rng(0).permutation(59)]


def rows(kind, size, count, seeds=(0,), strata=None, name="s"):
    """The first `count` batches: (count, R, B) row numbers and their scales."""
    blocks = [
        draw_rows(strata or Strata.of(CELLS), seeds, name, b, size, kind)
        for b in range(-(-count // block_length(size)))
    ]
    return torch.cat([b.index for b in blocks])[:count], blocks[0].scale


def test_strata_are_the_distinct_rows_of_cells():
    cells = np.array([[1, 0], [0, 0], [1, 0], [0, 2]])
    strata = Strata.of(cells)
    assert strata.sizes.tolist() == [1, 1, 2] and strata.starts.tolist() == [0, 1, 2]
    assert strata.order.tolist() == [1, 3, 0, 2]
    assert Strata.of(np.zeros((5, 0), dtype=int)).sizes.tolist() == [5]


@pytest.mark.parametrize(
    ("size", "places"),
    [(3, [1, 1, 1]), (12, [5, 5, 2]), (6, [2, 2, 2]), (20, [11, 7, 2]), (59, [50, 7, 2]), (99, [50, 7, 2])],
)
def test_places_are_equal_but_never_more_than_the_rows(size, places):
    layout = balanced_layout(Strata.of(CELLS), size)
    assert np.bincount(layout.positions.numpy()).tolist() == places
    stands_for = torch.zeros(3, dtype=torch.float64).index_add_(0, layout.positions, layout.scale)
    assert torch.allclose(stands_for, torch.tensor([50.0, 7.0, 2.0], dtype=torch.float64))
    assert balanced_layout(Strata.of(CELLS), 2) is None


@pytest.mark.parametrize("size", [3, 12, 20, 59])
def test_balanced_batches_hold_every_group(size):
    index, _ = rows("balanced", size, 200)
    cell = torch.as_tensor(np.sort(CELLS.ravel()))[index]
    for group in range(3):
        assert bool((cell == group).any(-1).all())
    small = index[cell == 2].view(200, -1)
    if size >= 12:  # both rows of the smallest group, once each
        assert torch.equal(small.sort(-1).values, torch.tensor([57, 58]).expand(200, 2))


@pytest.mark.parametrize(("kind", "size"), [("uniform", 16), ("balanced", 3)])
def test_rows_are_drawn_with_equal_probability(kind, size):
    """Chi-square over all rows (of a stratum); 1e-6 quantile of its law."""
    index, _ = rows(kind, size, 4000)
    groups = [np.arange(59)] if kind == "uniform" else [np.arange(50), np.arange(50, 57), np.arange(57, 59)]
    for group in groups:
        seen = np.bincount(index.flatten().numpy(), minlength=59)[group]
        expected = seen.sum() / len(group)
        assert ((seen - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-6, len(group) - 1)


def test_batches_of_a_stream_are_uncorrelated():
    """Lag-1 correlation of 4,000 batch means, at most five standard errors, 1 / sqrt(4000)."""
    mean = rows("uniform", 8, 4000)[0].double().mean(-1).flatten()
    other = rows("uniform", 8, 4000, name="t")[0].double().mean(-1).flatten()
    for a, b in ((mean[1:], mean[:-1]), (mean, other)):
        correlation = float(torch.corrcoef(torch.stack([a, b]))[0, 1])
        assert abs(correlation) < 5 / 4000**0.5


def test_shuffled_epochs_use_every_row_once():
    index, _ = rows("shuffled", 7, 16)  # 8 batches of 7 per epoch of 59 rows, 3 left out
    for epoch in index.view(2, 8 * 7):
        assert len(set(epoch.tolist())) == 56
    assert index[:8].flatten().tolist() != index[8:].flatten().tolist()
    assert rows("shuffled", 100, 3)[0].shape == (3, 1, 59)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "full"])
@pytest.mark.parametrize("size", [2, 12, 600])
def test_a_run_of_a_stack_draws_what_it_draws_alone(kind, size):
    stacked, scale = rows(kind, size, 70, seeds=(4, 5, 6))
    alone, own = rows(kind, size, 70, seeds=(5,))
    assert torch.equal(stacked[:, 1], alone[:, 0])
    if scale is not None and scale.dim() == 3:
        assert torch.equal(scale[:, 1], own[:, 0])
    different, _ = rows(kind, size, 70, seeds=(6,))
    assert torch.equal(alone, different) == (kind == "balanced" and size == 600)  # all rows, each once


def test_fewer_places_than_strata_take_some_strata_and_weight_them_up():
    index, scale = rows("balanced", 2, 64)
    assert scale.shape == (64, 1, 2)
    cell = torch.as_tensor(np.sort(CELLS.ravel()))[index]
    assert bool((cell[..., 0] != cell[..., 1]).all())
    sizes = torch.tensor([50.0, 7.0, 2.0], dtype=torch.float64)
    assert torch.equal(scale, sizes[cell] * 1.5)


def test_a_part_of_a_block_is_its_batches():
    drawn = draw_rows(Strata.of(CELLS), (0,), "s", 0, 2, "balanced")
    part = drawn.part(8, 4)
    assert torch.equal(part.index, drawn.index[8:12]) and torch.equal(part.scale, drawn.scale[8:12])


def test_lengths_are_powers_of_two_and_chunks_divide_blocks():
    for size in (1, 8, 64, 512, 4096, 10**6):
        block = block_length(size)
        assert block & (block - 1) == 0 and 1 <= block <= 64
        for runs, width in ((1, 1), (20, 105), (7, 3000)):
            chunk = chunk_length(size, runs, width, 4)
            assert chunk & (chunk - 1) == 0 and 1 <= chunk <= block


def test_unknown_kinds_are_named():
    with pytest.raises(OptionError, match="unknown sampling 'balance'; known: balanced, uniform, shuffled, full"):
        draw_rows(Strata.of(CELLS), (0,), "s", 0, 4, "balance")


def test_seeds_are_named_and_spread():
    assert seed_for("split", "adult", 3) == seed_for("split", "adult", "3") != seed_for("split", "adult", 4)
    assert seed_for("a", root=1) != seed_for("a", root=2) and seed_for("a", "b") != seed_for("b", "a")
    found = {seed_for("x", k) for k in range(10000)}
    assert len(found) == 10000 and all(0 <= s < 2**63 for s in found)
