"""`fairbound fit --qid COL`: rankings, trained and judged query by query."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.base.errors import DataWarning, silenced
from fairbound.cli.bounds import bounds_of_texts
from fairbound.cli.files.outcome import Outcome
from fairbound.cli.options.training import FitOptions
from fairbound.cli.training.common import held_out, judged, parameters, reported, trained
from fairbound.cli.training.rows import InputRows, is_file, rows_of_data_set, rows_of_file
from fairbound.estimators.ranker import FairRanker
from fairbound.fairness.ranking_problem import ranking_bounds
from fairbound.ranking.documents import read_relevance
from fairbound.rows.reading import take_rows

NOT_FOR_RANKINGS = (
    "objective",
    "weight_decay",
    "positive",
    "use_groups_at_prediction",
    "group_terms",
    "chunk_rows",
    "weights",
    "split_by",
)


def fit_ranking(options: FitOptions) -> Outcome:
    """Train a ranker, judge it on queries held out, and write model and report; exit codes as of `fit`."""
    options.refuse("rankings", "--qid", *NOT_FOR_RANKINGS)
    bounds = ranking_bounds(bounds_of_texts(options.constraint, options.cross))
    rows = _rows(options, bool(bounds))
    done = trained(options, bounds, rows, held_out(options, rows), partial(_fitted, options, rows))
    facts = done.model.fit_report_
    missed = [facts["message"]] if bounds and not (facts["feasible"] and facts["best_step"] > 0) else []
    found = judged(
        options, bounds, rows, done, partial(_scored, rows, done.split.test),
        about=f"{options.model} ranker", warnings=[*missed, *facts["warnings"]],
    )  # fmt: skip
    return reported(options, bounds, rows, done, found, partial(_scored, rows, done.split.train))


def _rows(options: FitOptions, needs_groups: bool) -> InputRows:
    """The documents of a file or of a named data set; target: their relevance."""
    if is_file(options.data):
        return rows_of_file(options, needs_groups, _grades, options.qid)
    return rows_of_data_set(options, needs_groups, _grades, ranked=True)


def _grades(column: Any) -> tuple[np.ndarray, tuple[()]]:
    """(n,) the relevance in a column of labels, and no classes."""
    return read_relevance(column), ()


def _fitted(options: FitOptions, rows: InputRows, part: np.ndarray, bounds: Any, certify: float) -> FairRanker:
    ranker = FairRanker(
        list(bounds) or None,
        **parameters(options),
        batch_size=32 if options.batch_size == FitOptions.batch_size else options.batch_size,
        certify=certify,
        on_insufficient=options.on_insufficient,  # type: ignore[arg-type]
    )
    with silenced(ConvergenceWarning, DataWarning), rows.in_lines_of(part):  # the audit's warnings say it
        return ranker.fit(take_rows(rows.X, part), rows.target[part], np.asarray(rows.qid)[part], rows.groups_of(part))


def _scored(rows: InputRows, part: np.ndarray, ranker: FairRanker) -> dict[str, Any]:
    with rows.in_lines_of(part):
        return rows.known_of(part) | {"scores": ranker.predict(take_rows(rows.X, part))}
