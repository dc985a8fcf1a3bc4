"""UCI Communities and Crime as cleaned by Le Quy et al. (2022), and its many overlapping groups of communities."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build, labels
from fairbound.data.files import read_rows

NOT_FEATURES = ("state", "communityname", "fold", "ViolentCrimesPerPop", "Black", "class")
RACES = ("racepctblack", "racePctAsian", "racePctHisp")
THRESHOLDS = tuple(round(0.06 + 0.045 * i, 3) for i in range(10))
"""Of the shares as UCI scales them, 0.06, 0.105, ..., 0.465: with these, strictly above, 535 of the 1,000 groups hold
more than 1 % of all 1,994 rows, PLADA's count; the paper does not say what its thresholds were."""

QUANTILES = tuple(round(0.05 + 0.1 * i, 2) for i in range(10))


def load_communities(folder: Path, *, threshold: float = 0.7) -> Dataset:
    """1,994 communities, 99 features scaled to [0, 1] by UCI; splits "fold-1" .. "fold-10" are UCI's.

    threshold: y = 1 where ViolentCrimesPerPop >= threshold. 0.7 is the file's own column `class`; 0.28, the 70 %
        quantile, is the label of Narasimhan et al. (2020).
    Sensitive attribute Black: "1" where racepctblack > 0.05.
    """
    if not 0 < threshold <= 1:
        raise OptionError(f"threshold must be in (0, 1], got {threshold}; ViolentCrimesPerPop is scaled to [0, 1].")
    info = TABLE["communities-crime"]
    frame = read_rows(folder, info)
    fold = frame["fold"].to_numpy()
    return build(
        info.name,
        frame,
        label="class",
        y=(frame["ViolentCrimesPerPop"] >= threshold).to_numpy(dtype=np.int64),
        positive=f"ViolentCrimesPerPop >= {threshold}",
        features=[column for column in frame.columns if column not in NOT_FEATURES],
        sensitive={"Black": (labels(frame["Black"]), ("racepctblack",))},
        encoding="numeric",
        description=info.title,
        splits={f"fold-{k}": np.flatnonzero(fold == k) for k in range(1, 11)},
    )


def threshold_groups(
    dataset: Dataset,
    columns: Sequence[str] = RACES,
    quantiles: Sequence[float] = QUANTILES,
    *,
    thresholds: Sequence[float] | None = None,
    minimum: float = 0.01,
    rows: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping groups: the rows above a threshold in every one of `columns`, for each combination of thresholds.

    quantiles: each column's thresholds are its quantiles at these levels, on `rows` (all rows by default). thresholds:
        the same values for every column, in their place.
    minimum: groups with at most this share of `rows` are left out.
    Returns: (memberships (m, n) bool, thresholds (m, len(columns))), in the order of the combinations.
    Source: Narasimhan et al. (2020), published code. PLADA counts 535 such groups, without saying how its thresholds
        are set; the code's rule gives more, and THRESHOLDS exactly 535.
    """
    absent = [column for column in columns if column not in dataset.feature_names]
    if absent or not columns:
        raise OptionError(f"data set {dataset.name!r} has no feature {', '.join(absent) or '(none given)'}.")
    if not 0 <= minimum < 1:
        raise OptionError(f"minimum must be a share in [0, 1), got {minimum}.")
    values = [np.asarray(dataset.X[:, [dataset.feature_names.index(column)]]).ravel() for column in columns]
    sample = slice(None) if rows is None else rows
    given = None if thresholds is None else np.asarray(thresholds, dtype=float)
    levels = [np.quantile(value[sample], quantiles) if given is None else given for value in values]
    above = [value[None, :] > level[:, None] for value, level in zip(values, levels, strict=True)]
    members, taken = [], []
    for combination in product(range(len(levels[0])), repeat=len(columns)):
        member = np.logical_and.reduce([above[c][i] for c, i in enumerate(combination)])
        if member[sample].mean() > minimum:
            members.append(member)
            taken.append([levels[c][i] for c, i in enumerate(combination)])
    shape = (len(members), len(dataset))
    return np.array(members, dtype=bool).reshape(shape), np.array(taken).reshape(len(members), len(columns))
