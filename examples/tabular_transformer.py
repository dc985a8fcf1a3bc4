"""A small transformer that reads a table row as a sentence of tokens, one for each categorical column, under a bound.

    python examples/tabular_transformer.py --data-dir DIR [--steps 2000] [--bound 0.02]     Adult, 8 columns
    python examples/tabular_transformer.py --sample                                         the embedded sample

Each value of each column is a token (an integer); an embedding, one transformer layer and a linear head give the score.
The bound asks for equal mean losses of the groups on the training rows; a model trained without it stands beside.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas
import torch
from torch import nn
from with_and_without import show, with_and_without

import fairbound as fb

ADULT = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
)  # fmt: skip
LOANS = ("married", "self", "sch", "thick", "unver", "mortg", "cons", "chist", "pubrec", "gift", "cosign", "prop")


class TokenTransformer(nn.Module):
    """tokens (B, columns) int64 in [0, vocabulary) -> scores (B,). No dropout: batches differ in rows alone."""

    def __init__(self, vocabulary: int, columns: int, width: int = 16, heads: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.place = nn.Parameter(0.02 * torch.randn(columns, width))
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embedding(tokens) + self.place).mean(1)).squeeze(-1)


def tokens_of(frame, columns) -> tuple[np.ndarray, int]:
    """(n, columns) int64 tokens, different for each pair of column and value (a missing value is one), and how many."""
    coded, offset = [], 0
    for column in columns:
        codes, values = pandas.factorize(frame[column], sort=True)
        coded.append(codes + 1 + offset)
        offset += len(values) + 1
    return np.stack(coded, 1).astype(np.int64), offset


def transformer(vocabulary: int, columns: int, seed: int = 0) -> TokenTransformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TokenTransformer(vocabulary, columns)


def compare(sample: bool, data_dir: str | None, steps: int, bound: float, seed: int = 0) -> dict[str, dict]:
    """Loss gap, loss and accuracy with and without the bound, on training and held-out rows."""
    data = fb.data.load("loanapp") if sample else fb.data.load("adult", data_dir)
    group, columns = ("race", LOANS) if sample else ("sex", ADULT)
    tokens, vocabulary = tokens_of(data.frame, columns)
    parts = data.split(seed, 0.25, "group", group=group) if sample else data.splits
    stated = f"loss_gap <= {bound}"

    def problems() -> dict:
        module = transformer(vocabulary, len(columns), seed)
        return {
            part: fb.formulate(module, "logistic", (tokens[rows], data.y[rows]), data.group(group)[rows], stated)
            for part, rows in parts.items()
        }

    return with_and_without(problems, stated, fb.ALM(step_size=0.1), steps, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder of data files; default: the environment variable FAIRBOUND_DATA")
    parser.add_argument("--sample", action="store_true", help="the embedded loan applications in place of Adult")
    parser.add_argument("--steps", type=int, default=2000, help="training steps of each model")
    parser.add_argument("--bound", type=float, default=0.02, help="largest accepted difference of mean losses")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    show(compare(arguments.sample, arguments.data_dir, arguments.steps, arguments.bound))


if __name__ == "__main__":
    main()
