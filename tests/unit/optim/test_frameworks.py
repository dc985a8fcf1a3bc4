"""The loops of examples/pytorch_loops.py train, where their packages are installed, and reach the bound as a plain loop does."""

import sys
import warnings
from pathlib import Path

import pytest
import torch

sys.path[:0] = [str(Path(__file__).parents[3] / "examples")]

import pytorch_loops  # noqa: E402

NEEDS = {
    "lightning_manual": "lightning",
    "lightning_callback": "lightning",
    "accelerate_loop": "accelerate",
    "trainer": "transformers",
}
STEPS = 20 * pytorch_loops.EPOCHS
SLACK = 0.03  # late iterates of a constant learning rate circle the bound; see test_optim_peers.py


def reached(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in NEEDS:
            pytest.importorskip(NEEDS[name])
        net, dual = pytorch_loops.LOOPS[name]()
    assert dual.report().steps == STEPS
    assert pytorch_loops.difference(net) <= 0.05 + SLACK
    return net


@pytest.mark.parametrize("name", ["plain", *NEEDS])
def test_the_loop_of_a_framework_reaches_the_bound(name):
    reached(name)


@pytest.mark.long
def test_a_compiled_network_reaches_the_bound():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.compile(torch.nn.Linear(1, 1))(torch.ones(2, 1))
        except Exception as error:  # what is missing differs: a compiler, its headers, OpenMP
            pytest.skip(f"torch.compile cannot build here: {type(error).__name__}")
        reached("compiled")


def test_without_the_bound_the_difference_is_large():
    net = pytorch_loops.network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(5):
        for x, y, _ in pytorch_loops.batches():
            optimizer.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(net(x).squeeze(1), y.float()).backward()
            optimizer.step()
    assert pytorch_loops.difference(net) > 0.15
