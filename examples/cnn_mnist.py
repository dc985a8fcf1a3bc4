"""A convolutional network on MNIST's test images whose loss must not be larger on noisy images than on clean ones.

    python examples/cnn_mnist.py --data-dir DIR [--steps 1800] [--bound 0.02]

Half of the 10,000 images, drawn at random, get noise. That half is the group "noisy"; a network is worse on it.
The bound asks for equal mean losses of the two groups on the training rows; a network trained without it stands beside.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import nn
from with_and_without import show, with_and_without

import fairbound as fb

# a loss has no upper end: where a multiplier exceeds a group's share of the rows, raising that group's loss pays, so
# the dual steps are half the default's
CONSTRAINED = fb.ALM(step_size=0.1, dual_step_size=0.5, penalty=0.5)


def cnn(seed: int = 0) -> nn.Module:
    """28 x 28 images with one channel -> 10 scores; 6,318 parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(),
            nn.Linear(16 * 5 * 5, 12), nn.ReLU(), nn.Linear(12, 10),
        )  # fmt: skip


def noisy_half(X: np.ndarray, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 1, 28, 28), half of them with normal noise of this standard deviation, and the group of each."""
    rng = np.random.default_rng(seed)
    images = X.reshape(-1, 1, 28, 28).astype(np.float32)
    chosen = rng.permutation(len(images)) < len(images) // 2
    images[chosen] += rng.normal(scale=noise, size=images[chosen].shape).astype(np.float32)
    return images, np.where(chosen, "noisy", "clean")


def compare(data_dir: str | None, steps: int, bound: float, noise: float = 0.5, seed: int = 0) -> dict[str, dict]:
    """Loss gap, loss and accuracy of both networks, trained on the first 8,000 rows, there and on the other 2,000."""
    mnist = fb.data.load("mnist-test", data_dir)
    images, groups = noisy_half(mnist.X, noise)
    parts = {"train": slice(0, 8000), "test": slice(8000, None)}
    stated = f"loss_gap <= {bound}"

    def problems() -> dict:
        module = cnn(seed)
        return {
            part: fb.formulate(module, "cross_entropy", (images[rows], mnist.y[rows], groups[rows]), None, stated)
            for part, rows in parts.items()
        }

    return with_and_without(problems, stated, CONSTRAINED, steps, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder of data files; default: the environment variable FAIRBOUND_DATA")
    parser.add_argument("--steps", type=int, default=1800, help="training steps of each network")
    parser.add_argument("--bound", type=float, default=0.02, help="largest accepted difference of mean losses")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    show(compare(arguments.data_dir, arguments.steps, arguments.bound))


if __name__ == "__main__":
    main()
