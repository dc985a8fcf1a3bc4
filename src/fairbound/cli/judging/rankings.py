"""`fairbound audit --qid COL`: a column of scores or a saved ranker, judged query by query."""

from __future__ import annotations

from fairbound.audits.audit import audit
from fairbound.base.errors import OptionError
from fairbound.cli.bounds import bounds_for
from fairbound.cli.files.columns import (
    groups_in,
    in_file,
    in_label,
    labelled_table,
    named_columns,
    numbers_in,
    one_column,
)
from fairbound.cli.files.older_files import check_no_other_run
from fairbound.cli.files.outcome import Outcome, written_audit
from fairbound.cli.judging.audit_facts import whole_file_facts
from fairbound.cli.judging.judged_model import model_facts
from fairbound.cli.judging.unfamiliar import predicted
from fairbound.cli.options.judging import AuditOptions
from fairbound.estimators.ranker import FairRanker
from fairbound.estimators.saving.folder import load_folder
from fairbound.ranking.documents import read_relevance


def audit_ranking(options: AuditOptions) -> Outcome:
    """Judge a column of scores or a saved ranker on all queries of a file, taken as held out."""
    refused = ("threshold", "positive", "chunk_rows", "weights", "clusters")
    if any(getattr(options, name) is not None for name in refused):
        raise OptionError("--threshold, --positive, --weights, --clusters and --chunk-rows are not for rankings.")
    folder = None if options.model is None else load_folder(options.model)
    check_no_other_run(options.out, folder)
    frame, label, notes, _ = labelled_table(options)
    query = one_column(options.qid, frame.columns, "--qid")
    attributes = named_columns(options.group, frame.columns, "--group")
    ranker = None if folder is None else FairRanker.load(folder)
    bounds, warnings = bounds_for(options, ranker), list[str]()
    if ranker is None:
        column = one_column(options.score, frame.columns, "--score")
        scores = numbers_in(frame, column, options.data)
    else:
        with in_file(options.data, frame.index.to_numpy()):
            scores, warnings = predicted(ranker, frame)
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
