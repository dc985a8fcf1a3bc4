"""The sides of a domain that a point is at: half-spaces that hold the whole set, whose normals span its normal cone."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import nnls

from fairbound.problems.domain import Ball, Box, Domain, Product, Simplex, Space

INF = torch.inf
CENTRE = torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64)
SETS = {
    "space": Space(),
    "box": Box(-0.3, 0.4),
    "box far from 0": Box(100.0, 101.0),
    "half-lines": Box(torch.tensor([0.0, -INF, -INF]).double(), torch.tensor([INF, 1.0, INF]).double()),
    "ball": Ball(0.7, CENTRE),
    "simplex": Simplex(2.0),
    "product": Product((Simplex(), Box(0.0, 1.0)), (2, 1)),
}


@pytest.mark.parametrize("name", SETS)
def test_what_a_projection_took_off_is_a_sum_of_the_normals_and_every_point_is_inside_of_the_sides(name):
    domain, generator = SETS[name], torch.Generator().manual_seed(0)
    points = 2 * torch.randn(60, 3, generator=generator, dtype=torch.float64) + domain.prox_centre(torch.zeros(3))
    inside = domain.project(points)
    for point, x in zip(points, inside, strict=True):
        normals, distances = domain.sides(x)
        assert normals.dtype == distances.dtype == torch.float64 and normals.shape == (len(distances), 3)
        assert torch.allclose(normals.norm(dim=1), torch.ones(len(normals)).double())
        assert ((inside - x) @ normals.T <= distances + 1e-9).all()
        tight = normals[distances.abs() < 1e-9].numpy().T
        off = (point - x).numpy()
        assert (nnls(tight, off)[1] if tight.size else abs(off).max()) < 1e-9


def test_within_the_set_there_are_none_and_a_set_of_ones_own_need_not_say():
    class Own(Domain):
        def project(self, x):
            return x.clamp_min(0)

    x = torch.full((3,), 1 / 3, dtype=torch.float64)
    for domain in (Space(), Box(-1.0, 1.0), Ball(1.0), Own(), Product((Ball(1.0), Box(0.0, 1.0)), (2, 1))):
        assert [len(part) for part in domain.sides(x)] == [0, 0]
    assert len(Simplex().sides(x)[0]) == 2  # the plane alone, both ways


def test_of_very_many_sides_the_nearest_are_taken():
    x = torch.linspace(0, 0.001, 2000, dtype=torch.float64)
    normals, distances = Box(0.0, 1.0).sides(x)
    assert len(normals) == 512 and float(distances.max()) == float(x[511])
