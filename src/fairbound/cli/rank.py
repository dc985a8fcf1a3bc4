"""`fairbound fit --qid COL` and `fairbound audit --qid COL`: rankings, trained and judged query by query."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.base.errors import DataError, DataWarning, OptionError, silenced
from fairbound.cli.audit_facts import whole_file_facts
from fairbound.cli.bounds import bounds_for, stated_bounds
from fairbound.cli.columns import groups_in, in_file, in_label, labelled_table, listed, numbers_in, one_column
from fairbound.cli.judged_model import model_facts
from fairbound.cli.judging_options import AuditOptions
from fairbound.cli.older_files import check_no_other_run
from fairbound.cli.outcome import Outcome, written_audit
from fairbound.cli.rows import InputRows, is_file, rows_of_data_set, rows_of_file
from fairbound.cli.training import held_out, judged, parameters, reported, trained
from fairbound.cli.training_options import FitOptions
from fairbound.cli.unfamiliar import Unfamiliar
from fairbound.estimators.ranker import FairRanker
from fairbound.estimators.saving.folder import load_folder
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
    bounds = ranking_bounds(stated_bounds(options.constraint, options.cross))
    rows = _rows(options, bool(bounds))
    done = trained(options, bounds, rows, held_out(options, rows), partial(_fitted, options, rows))
    facts = done.model.fit_report_
    missed = [facts["message"]] if bounds and not (facts["feasible"] and facts["best_step"] > 0) else []
    found = judged(
        options, bounds, rows, done, partial(_scored, rows, done.split.test),
        about=f"{options.model} ranker", warnings=[*missed, *facts["warnings"]],
    )  # fmt: skip
    return reported(options, bounds, rows, done, found, partial(_scored, rows, done.split.train))


def audit_ranking(options: AuditOptions) -> Outcome:
    """Judge a column of scores or a saved ranker on all queries of a file, taken as held out."""
    refused = ("threshold", "positive", "chunk_rows", "weights", "clusters")
    if any(getattr(options, name) is not None for name in refused):
        raise OptionError("--threshold, --positive, --weights, --clusters and --chunk-rows are not for rankings.")
    folder = None if options.model is None else load_folder(options.model)
    check_no_other_run(options.out, folder)
    frame, label, notes, _ = labelled_table(options)
    query, attributes = one_column(options.qid, frame.columns, "--qid"), listed(options.group, frame.columns, "--group")
    ranker = None if folder is None else FairRanker.load(folder)
    bounds, warnings = bounds_for(options, ranker), list[str]()
    if ranker is None:
        column = one_column(options.score, frame.columns, "--score")
        scores = numbers_in(frame, column, options.data)
    else:
        assert ranker.encoder_ is not None
        lacking = [c for c in ranker.encoder_.columns if c not in frame.columns]
        if lacking:
            raise DataError(f"{options.data} lacks the column {lacking[0]!r}, which the ranker was trained on.")
        unfamiliar = Unfamiliar(ranker)
        with in_file(options.data, frame.index.to_numpy()), unfamiliar.part():
            scores = ranker.predict(frame[list(ranker.encoder_.columns)])
        warnings = unfamiliar.said()
    with in_label(options.data, label, frame.index.to_numpy()):
        relevance = read_relevance(frame[label])
    found = audit(
        scores,
        relevance,
        groups_in(frame, attributes),
        bounds,
        qid=frame[query],
        confidence=options.confidence,
        power=options.power,
        **whole_file_facts(options, label, folder, "queries", warnings=warnings),
        model=model_facts(ranker, options, folder),
        notes=notes,
    )
    return written_audit(found, options.out)


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
