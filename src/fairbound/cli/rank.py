"""`fairbound fit --qid COL` and `fairbound audit --qid COL`: rankings, trained and judged query by query."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound import data
from fairbound.audits.audit import audit
from fairbound.base.errors import CertificateWarning, DataError, OptionError, silenced
from fairbound.base.files import check_writable
from fairbound.base.locks import locked
from fairbound.base.seeds import seed_for
from fairbound.cli.audit import model_facts
from fairbound.cli.audited import add_own_model, data_facts, whole_file_facts
from fairbound.cli.columns import groups_in, in_file, in_label, labelled_table, listed, numbers_of, one_column
from fairbound.cli.fitted import interrupted, of_training, training_facts, written_fit
from fairbound.cli.options import FitOptions
from fairbound.cli.outcome import Outcome, say, shows_progress, written_audit
from fairbound.cli.rows import TEST_SHARE, InputRows, Split, is_file, rows_of_file, table_options
from fairbound.cli.stated import bounds_for, stated_bounds
from fairbound.cli.using import AuditOptions
from fairbound.estimators.folder import load_folder
from fairbound.estimators.ranker import FairRanker
from fairbound.fairness.rankings.documents import read_relevance
from fairbound.fairness.rankings.problem import ranking_bounds
from fairbound.rows.groups import Groups, no_groups
from fairbound.rows.queries import split_by_query
from fairbound.rows.reading import take_rows

NOT_FOR_RANKINGS = ("objective", "positive", "use_groups_at_prediction", "group_terms", "chunk_rows", "weights")


def fit_ranking(options: FitOptions) -> Outcome:
    """Train a ranker, judge it on queries held out, and write model and report; exit codes as of `fit`."""
    options.refuse("rankings", "--qid", *NOT_FOR_RANKINGS)
    bounds = ranking_bounds(stated_bounds(options.constraint, options.cross))
    check_writable(options.out)
    rows = _rows(options, bool(bounds))
    under = " and ".join(b.text for b in bounds) or "no bound"
    split = _split(options, rows)
    held = "a part certifies" if options.certify else f"{len(split.test):,} are held out"
    say(f"{rows.name}: training on {len(split.train):,} documents under {under}; {held}.")
    if options.certify:
        ranker, split = _certified(options, bounds, rows, split.train)
    else:
        ranker = _trained(options, bounds, rows, split.train)
    stopped = interrupted(ranker)
    free = ranker.unconstrained_ if options.certify else None
    if bounds and options.baseline and not stopped and free is None:
        free = _trained(options, (), rows, split.train)
    found = _judged(options, bounds, rows, split, ranker, free)
    lines = []
    in_training = [] if options.certify else ranker.fit_report_["constraints"]
    for place, stated in enumerate(in_training):
        line = f"{stated['text']}: {stated['train_value']:.4f} on the training queries"
        if free is not None:
            measured = _audited(free, bounds, rows, split.train)
            line += f", {measured['constraints'][place]['value']:.4f} without the bound"
        lines.append(f"{line}.")
    with locked(options.out):
        return written_fit(found, options.out, ranker, rows.checksum, lines, stopped=stopped)


def audit_ranking(options: AuditOptions) -> Outcome:
    """Judge a column of scores or a saved ranker on all queries of a file, taken as held out."""
    if any(getattr(options, name) is not None for name in ("threshold", "positive", "chunk_rows", "weights")):
        raise OptionError("--threshold, --positive, --weights and --chunk-rows are not for rankings.")
    check_writable(options.out)
    frame, label, notes = labelled_table(options)
    columns = list(frame.columns)
    query, attributes = one_column(options.qid, columns, "--qid"), listed(options.group, columns, "--group")
    folder = None if options.model is None else load_folder(options.model)
    ranker = None if folder is None else FairRanker.load(folder)
    bounds = bounds_for(options, ranker)
    if ranker is None:
        column = one_column(options.score, columns, "--score")
        scores = numbers_of(frame[column], column)
    else:
        assert ranker.encoder_ is not None
        lacking = [c for c in ranker.encoder_.columns if c not in columns]
        if lacking:
            raise DataError(f"{options.data} lacks the column {lacking[0]!r}, which the ranker was trained on.")
        with in_file(options.data, frame.index.to_numpy()):
            scores = ranker.predict(frame[list(ranker.encoder_.columns)])
    with in_label(options.data, label, frame.index.to_numpy()):
        relevance = read_relevance(frame[label])
    found = audit(
        scores,
        relevance,
        groups_in(frame, attributes),
        bounds,
        qid=frame[query],
        confidence=options.confidence,
        **whole_file_facts(options.data, label, "queries"),
        model=model_facts(ranker, options),
        warnings=of_training(folder, options.data),
        notes=notes,
    )
    return written_audit(found, options.out)


def _rows(options: FitOptions, needs_groups: bool) -> InputRows:
    """The documents of a file or of a named data set; target: their relevance."""
    if is_file(options.data):
        return rows_of_file(options, needs_groups, lambda column: (read_relevance(column), ()), options.qid)
    found = data.load(options.data, options.data_dir)
    if found.qid is None:
        raise OptionError(f"data set {options.data!r} has no queries; leave --qid out.")
    wanted = [a for a in (options.group or "").split(",") if a] or list(found.sensitive)
    groups = Groups.of({a: found.group(a) for a in wanted}) if wanted else no_groups(len(found))
    shown = found if options.keep_sensitive or not wanted else found.without(*wanted)
    sums = " ".join(f"sha256:{file.sha256}" for file in data.info(options.data).files) or None
    relevance = found.y.astype(np.float64)
    return InputRows(
        options.data, shown.X, found.y, relevance, (), groups, "relevance", sums, found.splits, qid=found.qid
    )  # fmt: skip


def _split(options: FitOptions, rows: InputRows) -> Split:
    """Whole queries held out; none where a certificate keeps some apart."""
    if options.certify:
        return Split(np.arange(len(rows)), np.zeros(0, dtype=np.int64), "")
    if options.test_size is None and {"train", "test"} <= set(rows.published):
        return Split(rows.published["train"], rows.published["test"], f"the published split of {rows.name}")
    share = TEST_SHARE if options.test_size is None else options.test_size
    train, test = split_by_query(rows.qid, [share], seed_for("held-out", root=options.seed))
    return Split(train, test, f"{100 * share:g} % of the queries held out, seed {options.seed}")


def _certified(options: FitOptions, bounds: Any, rows: InputRows, part: np.ndarray) -> tuple[FairRanker, Split]:
    """The ranker with its certificate, and the rows that confirm it as those held out."""
    with silenced(CertificateWarning):  # the verdict says it
        ranker = _trained(options, bounds, rows, part, certify=options.confidence)
    held = ranker.certify_rows_
    words = f"{len(held) / len(rows):.0%} of the documents, whole queries, kept apart to certify, seed {options.seed}"
    return ranker, Split(np.setdiff1d(part, held), held, words)


def _trained(options: FitOptions, bounds: Any, rows: InputRows, part: np.ndarray, certify: float = 0.0) -> FairRanker:
    ranker = FairRanker(
        list(bounds) or None,
        model=options.model,
        options=table_options(options.knots),
        algorithm=options.algorithm,
        budget=options.budget,
        batch_size=32 if options.batch_size == FitOptions.batch_size else options.batch_size,
        certify=certify,
        on_insufficient=options.on_insufficient,  # type: ignore[arg-type]
        random_state=options.seed,
        progress=shows_progress(),
    )
    with silenced(ConvergenceWarning), rows.in_lines_of(part):  # the audit's warnings say it
        return ranker.fit(take_rows(rows.X, part), rows.target[part], np.asarray(rows.qid)[part], rows.groups_of(part))


def _audited(ranker: FairRanker, bounds: Any, rows: InputRows, part: np.ndarray, **more: Any) -> dict[str, Any]:
    """The audit of a part of the rows. more: further arguments of `audit`."""
    with rows.in_lines_of(part):
        scores = ranker.predict(take_rows(rows.X, part))
    return audit(scores, rows.target[part], rows.groups_of(part), bounds, qid=np.asarray(rows.qid)[part], **more)


def _judged(
    options: FitOptions, bounds: Any, rows: InputRows, split: Split, ranker: FairRanker, free: FairRanker | None
) -> dict[str, Any]:
    """The audit on the queries held out, beside the ranker without bounds."""
    facts = ranker.fit_report_
    missed = [facts["message"]] if bounds and not (facts["feasible"] and facts["best_step"] > 0) else []
    found = _audited(
        ranker,
        bounds,
        rows,
        split.test,
        confidence=options.confidence,
        compare={} if free is None else {"unconstrained": free.predict(take_rows(rows.X, split.test))},
        **data_facts(rows.name, rows.label, split.words, rows.checksum, len(split.train)),
        model={"kind": options.model, "description": f"{options.model} ranker", **training_facts(ranker)},
        trajectory=ranker.trajectory_,
        warnings=[*missed, *facts["warnings"]],
        notes=[*rows.notes, *facts["notes"]],
    )
    add_own_model(found, facts)
    return found
