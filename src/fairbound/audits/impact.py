"""Selection rates and impact ratios of every category and intersection, in the form of bias audits of hiring tools.

The impact ratio of a category is its rate over that of the category with the highest rate. The rate is the share
selected, or (scoring rate) the share whose score is above the median score of all rows. A category of less than 2 % of
the rows is shown, and left out of the ratios, with this reason. Rows whose category is not known are counted. The
four-fifths screen says whether a ratio is below 0.8, with Fisher's exact test of the two categories. Nothing here says
that a model passes: there is no such thing in these rules.

Sources: New York City, 6 RCNY 5-300 to 5-304 (Local Law 144 of 2021); 29 CFR 1607.4 D (four-fifths); Fisher (1935).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from fairbound.fairness.scored import Scored
from fairbound.rows.groups import Groups

FEWEST_SHARE = 0.02
FOUR_FIFTHS = 0.8
FEW = 30
"""Rows of a category below which its ratio is flagged as one of a small sample."""

EXPECTED = 5
"""An expected count in the table of two categories below which the sample is flagged as small, too."""

MOST_CATEGORIES = 400


def impact_tables(rows: Scored) -> list[dict[str, Any]]:
    """A table for each attribute, and one for their intersections where there are several (docs/evidence.md).

    rows: with two classes; weights are not looked at, people are counted. Of rows that come in clusters no p-value is
    given, as Fisher's test takes rows for independent.
    """
    groups, each = rows.groups, rows.mass[0]
    tables = [Groups(groups.codes[:, [a]], (name,), (groups.labels[a],)) for a, name in enumerate(groups.attributes)]
    if len(groups.attributes) > 1:
        tables.append(groups.crossed())
    selected = (rows.predicted == 1).astype(float)
    above = None
    if rows.scores is not None and len(np.unique(rows.scores)) > 2:
        above = (rows.scores > np.median(rows.scores)).astype(float)
    made = [_table(one, each, selected, above) for one in tables if len(one.labels[0]) <= MOST_CATEGORIES]
    screens = [c["four_fifths"] for table in made for c in table["categories"] if c["four_fifths"] is not None]
    for screen in screens if rows.clusters is not None else ():
        screen["p_value"] = None
    return made


def _table(groups: Groups, each: np.ndarray, selected: np.ndarray, above: np.ndarray | None) -> dict[str, Any]:
    code, names = groups.codes[:, 0], groups.labels[0]
    known, total = code >= 0, float(each.sum())
    count = lambda part: np.bincount(code[known], weights=(each * part)[known], minlength=len(names))  # noqa: E731
    n, hits = count(np.ones(len(each))), count(selected)
    high = None if above is None else count(above)
    enough = n >= FEWEST_SHARE * total
    best, best_score = _best(hits, n, enough), None if high is None else _best(high, n, enough)
    categories = [
        {
            "category": name,
            "n": int(n[i]),
            "share": float(n[i] / total),
            "selected": int(hits[i]),
            "selection_rate": _ratio(hits[i], n[i]),
            "impact_ratio": _impact(hits, n, i, best, bool(enough[i])),
            "scoring_rate": None if high is None else _ratio(high[i], n[i]),
            "scoring_impact_ratio": None if high is None else _impact(high, n, i, best_score, bool(enough[i])),
            "left_out": _reason(n[i], total, bool(enough[i])),
            "four_fifths": _screen(hits, n, i, best) if enough[i] and best is not None else None,
        }
        for i, name in enumerate(names)
    ]
    return {
        "attribute": groups.attributes[0],
        "unknown": int(each[~known].sum()),
        "highest": None if best is None else names[best],
        "categories": categories,
    }


def _best(hits: np.ndarray, n: np.ndarray, enough: np.ndarray) -> int | None:
    """The category with the highest rate among those that are large enough; None where nobody is selected."""
    rate = np.where(enough & (n > 0), hits / np.maximum(n, 1), -1.0)
    best = int(np.argmax(rate))
    return best if rate[best] > 0 else None


def _ratio(hits: float, n: float) -> float | None:
    return float(hits / n) if n else None


def _impact(hits: np.ndarray, n: np.ndarray, i: int, best: int | None, enough: bool) -> float | None:
    if best is None or not enough or not n[i]:
        return None
    return float((hits[i] / n[i]) / (hits[best] / n[best]))


def _reason(n: float, total: float, enough: bool) -> str | None:
    if not n:
        return "no row has this category"
    return None if enough else f"{100 * n / total:.2g} % of the rows, less than {100 * FEWEST_SHARE:g} %"


def _screen(hits: np.ndarray, n: np.ndarray, i: int, best: int) -> dict[str, Any]:
    """Whether a category's ratio is below four fifths, how surprising so large a difference is if the two rates were
    equal, and whether the sample is small."""
    table = np.array([[hits[i], n[i] - hits[i]], [hits[best], n[best] - hits[best]]])
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    ratio = _impact(hits, n, i, best, True)
    return {
        "below": ratio is not None and ratio < FOUR_FIFTHS,
        "p_value": 1.0 if i == best else float(stats.fisher_exact(table.astype(np.int64)).pvalue),
        "small_sample": bool(min(n[i], n[best]) < FEW or expected.min() < EXPECTED),
    }
