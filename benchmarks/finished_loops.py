"""A PyTorch loop under a bound, and its last layer solved after it by `fairbound.optim.finish`.

The first `--tables` of FRESH in `public_tables.py` of 1,000 to 10,000 rows, in the order of `defaults.py`; splits 0 and 1, parity and equalised odds
within 0.03. A network of widths 64 and 32 is trained by Adam (1e-3, batches of 128) for 40 epochs, under the bound by
`Dual` or without it, and judged as it ends and after `finish` on the training rows. No option was tuned. Printed: in how
many fits the bound is met on the training rows; means of accuracy and difference on training and held-out rows; held-out accuracy less that of
the loop under `Dual` over tables with a standard error, and seconds. `--results` keeps every fit as a line of JSON and
takes up where it stopped.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import time
import warnings
from pathlib import Path
from typing import Any

import frontier_vs_fairlearn as frontier
import numpy as np
import pandas as pd
import torch
from defaults import SEEDS, split
from other_learners import of_some_rows, said

from fairbound.data import Prepared
from fairbound.optim import Dual, finish

NOTIONS, BOUND = ("demographic_parity", "equalized_odds"), 0.03
EPOCHS, BATCH = 40, 128
ARMS = ("without a bound", "without a bound, finished", "Dual", "Dual, finished")


def trained(data: Prepared, text: str | None, seed: int) -> torch.nn.Module:
    """The network after the loop, under the bound or without."""
    torch.manual_seed(seed)
    x, y = torch.tensor(data.X_train, dtype=torch.float32), torch.tensor(data.y_train).long()
    widths = [x.shape[1], 64, 32]
    layers = [part for a, b in itertools.pairwise(widths) for part in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    dual = None if text is None else Dual(text, groups=data.group_train, targets=data.y_train)
    group = torch.zeros(len(x), dtype=torch.long) if dual is None else dual.encode(data.group_train)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            scores = model(x[rows]).squeeze(1)
            if dual is None:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, y[rows].float())
            else:
                loss = dual.loss(scores, y[rows], group[rows])
            loss.backward()
            optimizer.step()
            if dual is not None:
                dual.step()
    return model


def fits(data: Prepared, notion: str, seed: int) -> list[dict[str, Any]]:
    """What each arm reaches."""
    out = []
    x = torch.tensor(data.X_train, dtype=torch.float32)
    for text in (None, f"{notion} <= {BOUND}"):
        start = time.process_time()
        model = trained(data, text, seed)
        loop = time.process_time() - start
        done = copy.deepcopy(model)
        start = time.process_time()
        finish(done, f"{notion} <= {BOUND}", x, data.y_train, data.group_train)
        last = time.process_time() - start
        for net, seconds, arm in zip((model, done), (loop, last), ARMS[:2] if text is None else ARMS[2:], strict=True):

            def scores(X: Any, net: Any = net) -> np.ndarray:
                with torch.no_grad():
                    return net(torch.tensor(X, dtype=torch.float32)).squeeze(1).numpy()

            found = frontier.of_parts(data, notion, lambda X, draw, s=scores: (s(X) > 0).astype(int), scores, 1)
            out.append({"method": arm, "seconds": seconds, **found})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=16)
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    known, names = frontier.stored(args.results), of_some_rows(args.tables)
    have = {(r["data"], r["seed"], r["notion"]) for r in known}
    for name in names:
        for seed in SEEDS:
            for notion in NOTIONS:
                if (name, seed, notion) not in have:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = fits(split(name, seed)["straight"], notion, seed)
                    rows = [{"data": name, "seed": seed, "notion": notion, **row} for row in found]
                    known += rows
                    for row in rows:
                        frontier.store(row, args.results)
    made = pd.DataFrame(known)
    made = made[made.data.isin(names)]
    print(f"{len(names)} tables: {', '.join(names)}")
    columns = [f"{what}_{part}" for part in ("train", "test") for what in ("difference", "accuracy")]
    for notion in NOTIONS:
        of = made[made.notion == notion]
        means = of.groupby("method")[[*columns, "seconds"]].mean().loc[list(ARMS)]
        met = of.assign(met=of.difference_train <= BOUND + 1e-9).groupby("method").met.sum()
        print(f"{notion} <= {BOUND}, {len(of) // len(ARMS)} fits each\n" + means.assign(met=met).round(4).to_string())
        tables = of.groupby(["data", "method"])[["accuracy_test", "difference_test"]].mean().unstack("method")
        for arm in ("Dual, finished", "without a bound, finished"):
            beside = [said(what, (tables[column][arm] - tables[column]["Dual"]).to_numpy())
                     for what, column in (("accuracy", "accuracy_test"), ("difference", "difference_test"))]  # fmt: skip
            print(f"  {arm}, held out, less Dual: {', '.join(beside)}")


if __name__ == "__main__":
    main()
