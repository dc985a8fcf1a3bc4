"""`fairbound fit --qid COL` and `fairbound audit --qid COL`: rankings, trained and judged query by query."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound import data
from fairbound.audits.audit import audit
from fairbound.base.errors import CertificateWarning, DataError, OptionError
from fairbound.base.files import atomic_write_text, check_writable
from fairbound.base.interrupts import INTERRUPTED
from fairbound.base.seeds import seed_for
from fairbound.cli.audit import model_facts
from fairbound.cli.audited import data_facts, take_own, training_facts
from fairbound.cli.columns import (
    file_checksum,
    groups_in,
    in_file,
    in_label,
    labelled_table,
    listed,
    numbers_of,
    one_column,
)
from fairbound.cli.fit import TRAINED_ON
from fairbound.cli.options import FitOptions
from fairbound.cli.outcome import Outcome, json_lines, say, shows_progress, verdict_summary, verdict_text, written_audit
from fairbound.cli.rows import TEST_SHARE, is_file, table_options
from fairbound.cli.stated import stated_bounds
from fairbound.cli.using import AuditOptions
from fairbound.estimators.ranker import FairRanker
from fairbound.fairness.rankings.documents import read_relevance
from fairbound.fairness.rankings.problem import ranking_bounds
from fairbound.report import write_audit
from fairbound.rows.groups import Groups
from fairbound.rows.queries import split_by_query
from fairbound.rows.reading import take_rows

NOT_FOR_RANKINGS = ("objective", "positive", "use_groups_at_prediction", "group_terms", "chunk_rows", "weights")


class RankedRows(NamedTuple):
    """Documents as a command reads them. path: of the file; a named set has none. train, test: row numbers; words: how they were chosen;
    numbers: (n,) of the rows in the file."""

    name: str
    X: Any
    relevance: np.ndarray
    qid: Any
    groups: Groups | None
    label: str
    checksum: str | None
    path: str
    train: np.ndarray
    test: np.ndarray
    words: str
    numbers: np.ndarray
    notes: tuple[str, ...] = ()


def fit_ranking(options: FitOptions) -> Outcome:
    """Train a ranker, judge it on queries held out, and write model and report; exit codes as of `fit`."""
    options.refuse("rankings", "--qid", *NOT_FOR_RANKINGS)
    bounds = ranking_bounds(stated_bounds(options.constraint, options.cross))
    check_writable(options.out)
    rows = _rows(options, bool(bounds))
    under = " and ".join(b.text for b in bounds) or "no bound"
    held = "a part certifies" if options.certify else f"{len(rows.test):,} are held out"
    say(f"{rows.name}: training on {len(rows.train):,} documents under {under}; {held}.")
    if options.certify:
        ranker, rows = _certified(options, bounds, rows)
    else:
        ranker = _trained(options, bounds, rows)
    stopped = ranker.solution_.stopped == "interrupted"
    free = ranker.unconstrained_ if options.certify else None
    if bounds and options.baseline and not stopped and free is None:
        free = _trained(options, (), rows)
    found = _judged(options, bounds, rows, ranker, free)
    out = options.out
    ranker.save(out / "model", extras={TRAINED_ON: rows.checksum} if rows.checksum else None)
    write_audit(found, out)
    atomic_write_text(out / "records.jsonl", json_lines([_kept(row) for row in ranker.solution_.records]))
    lines = [verdict_text(found)]
    in_training = [] if options.certify else ranker.fit_report_["constraints"]
    for place, stated in enumerate(in_training):
        line = f"{stated['text']}: {stated['train_value']:.4f} on the training queries"
        if free is not None:
            part = [rows.relevance[rows.train], _of(rows.qid, rows.train), _groups(rows, rows.train)]
            measured = audit(free.predict(take_rows(rows.X, rows.train)), part[0], part[2], bounds, qid=part[1])
            line += f", {measured['constraints'][place]['value']:.4f} without the bound"
        lines.append(f"{line}.")
    lines.append(
        f"\nreport            {out / 'report.html'}\nreport as data    {out / 'audit.json'}\nmodel             {out / 'model'}"
    )
    summary = verdict_summary(found, seconds=ranker.fit_report_["seconds"], seed=options.seed, out=out)
    return Outcome(summary, "\n".join(lines), INTERRUPTED if stopped else found["exit_code"])


def audit_ranking(options: AuditOptions) -> Outcome:
    """Judge a column of scores or a saved ranker on all queries of a file, taken as held out."""
    if any(getattr(options, name) is not None for name in ("threshold", "positive", "chunk_rows", "weights")):
        raise OptionError("--threshold, --positive, --weights and --chunk-rows are not for rankings.")
    check_writable(options.out)
    frame, label, notes = labelled_table(options)
    columns = list(frame.columns)
    query, attributes = one_column(options.qid, columns, "--qid"), listed(options.group, columns, "--group")
    ranker = None if options.model is None else FairRanker.load(options.model)
    texts: Any = options.constraint or (() if ranker is None else ranker.constraint or ())
    bounds = stated_bounds([texts] if isinstance(texts, str) else list(texts), options.cross)
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
    found = audit(
        scores,
        _relevance(frame, label, options.data),
        groups_in(frame, attributes),
        bounds,
        qid=frame[query],
        confidence=options.confidence,
        **data_facts(
            Path(options.data).name, label, "all queries of the file, taken as held out", file_checksum(options.data)
        ),
        model=model_facts(ranker, options),
        notes=notes,
    )
    return written_audit(found, options.out)


def _rows(options: FitOptions, needs_groups: bool) -> RankedRows:
    """The documents of a file or of a named data set, split by query."""
    if is_file(options.data):
        frame, label, notes = labelled_table(options)
        columns = list(frame.columns)
        query = one_column(options.qid, columns, "--qid")
        attributes, dropped = listed(options.group, columns, "--group"), listed(options.drop, columns, "--drop")
        if needs_groups and not attributes:
            one_column(None, columns, "--group")
        away = {label, query, *dropped, *(() if options.keep_sensitive else attributes)}
        features = [column for column in columns if column not in away]
        if not features:
            raise OptionError(f"{options.data}: no column is left to learn from.")
        groups = groups_in(frame, attributes)
        relevance, of_rows = _relevance(frame, label, options.data), frame[query]
        made = RankedRows(
            Path(options.data).name, frame[features], relevance, of_rows, groups, label, file_checksum(options.data),
            options.data, np.zeros(0), np.zeros(0), "", frame.index.to_numpy(), tuple(notes),
        )  # fmt: skip
        published: Any = {}
    else:
        found = data.load(options.data, options.data_dir)
        if found.qid is None:
            raise OptionError(f"data set {options.data!r} has no queries; leave --qid out.")
        wanted = [a for a in (options.group or "").split(",") if a] or list(found.sensitive)
        groups = Groups.of({a: found.group(a) for a in wanted}) if wanted else None
        shown = found if options.keep_sensitive or not wanted else found.without(*wanted)
        sums = " ".join(f"sha256:{file.sha256}" for file in data.info(options.data).files) or None
        made = RankedRows(
            options.data, shown.X, found.y.astype(np.float64), found.qid, groups, "relevance", sums,
            "", np.zeros(0), np.zeros(0), "", np.arange(len(found.y)),
        )  # fmt: skip
        published = found.splits
    if options.certify:
        train, test, words = np.arange(len(made.relevance)), np.zeros(0, dtype=np.int64), ""
    elif options.test_size is None and {"train", "test"} <= set(published):
        train, test, words = published["train"], published["test"], f"the published split of {made.name}"
    else:
        share = TEST_SHARE if options.test_size is None else options.test_size
        train, test = split_by_query(made.qid, [share], seed_for("held-out", root=options.seed))
        words = f"{100 * share:g} % of the queries held out, seed {options.seed}"
    return made._replace(train=train, test=test, words=words)


def _relevance(frame: Any, label: str, source: str) -> np.ndarray:
    with in_label(source, label, frame.index.to_numpy()):
        return read_relevance(frame[label])


def _of(values: Any, rows: np.ndarray) -> np.ndarray:
    return np.asarray(values)[rows]


def _groups(rows: RankedRows, part: np.ndarray) -> Groups | None:
    return None if rows.groups is None else rows.groups.take(part)


def _certified(options: FitOptions, bounds: Any, rows: RankedRows) -> tuple[FairRanker, RankedRows]:
    """The ranker with its certificate, and the rows with those that confirm it as those held out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CertificateWarning)  # the verdict says it
        ranker = _trained(options, bounds, rows, certify=options.confidence)
    held = ranker.certify_rows_
    words = f"{len(held) / len(rows.relevance):.0%} of the documents, whole queries, kept apart to certify, seed {options.seed}"
    return ranker, rows._replace(train=np.setdiff1d(rows.train, held), test=held, words=words)


def _trained(options: FitOptions, bounds: Any, rows: RankedRows, certify: float = 0.0) -> FairRanker:
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
    take = partial(take_rows, rows.X)
    with warnings.catch_warnings(), in_file(rows.path, rows.numbers[rows.train]):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the audit's warnings say it
        return ranker.fit(
            take(rows.train), rows.relevance[rows.train], _of(rows.qid, rows.train), _groups(rows, rows.train)
        )


def _judged(
    options: FitOptions, bounds: Any, rows: RankedRows, ranker: FairRanker, free: FairRanker | None
) -> dict[str, Any]:
    """The audit on the queries held out, beside the ranker without bounds."""
    facts, held = ranker.fit_report_, take_rows(rows.X, rows.test)
    with in_file(rows.path, rows.numbers[rows.test]):
        scores = ranker.predict(held)
    missed = [facts["message"]] if bounds and not (facts["feasible"] and facts["best_step"] > 0) else []
    found = audit(
        scores,
        rows.relevance[rows.test],
        _groups(rows, rows.test),
        bounds,
        qid=_of(rows.qid, rows.test),
        confidence=options.confidence,
        compare={} if free is None else {"unconstrained": free.predict(held)},
        **data_facts(rows.name, rows.label, rows.words, rows.checksum, len(rows.train)),
        model={"kind": options.model, "description": f"{options.model} ranker", **training_facts(ranker)},
        trajectory=ranker.trajectory_,
        warnings=[*missed, *facts["warnings"]],
        notes=[*rows.notes, *facts["notes"]],
    )
    take_own(found, facts)
    return found


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    """A record as plain data."""
    plain = lambda v: v.tolist() if hasattr(v, "tolist") else v  # noqa: E731
    return {k: {n: plain(x) for n, x in v.items()} if isinstance(v, dict) else plain(v) for k, v in row.items()}
