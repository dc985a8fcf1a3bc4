"""`fairbound audit` without `--label`: a column of decisions or scores judged by the shares selected alone. And what is
said where the rows without an outcome were decided otherwise than those that have one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbound.audits.audit import audit
from fairbound.audits.decisions import check_decisions_alone
from fairbound.base.errors import DataError
from fairbound.cli.audit_facts import whole_file_facts
from fairbound.cli.bounds import stated_bounds
from fairbound.cli.columns import (
    clusters_of,
    decided_or_scored,
    groups_in,
    in_file,
    labelled_rows,
    listed,
    one_column,
    weights_of,
    with_decisions,
)
from fairbound.cli.judging_options import AuditOptions
from fairbound.cli.row_warnings import said_of_rows
from fairbound.rows.scores import as_logits
from fairbound.tables import read_table

CHANCE = 4.0
"""Standard errors by which shares of positive decisions must differ to be spoken of."""


def audited_decisions(options: AuditOptions) -> dict[str, Any]:
    """The audit of a file's column of decisions or scores, without outcomes."""
    bounds = stated_bounds(options.constraint, options.cross)
    check_decisions_alone(bounds)
    frame = with_decisions(read_table(options.data, **options.file_format), options.score)
    column = one_column(options.score, frame.columns, "--score")
    attributes = listed(options.group, frame.columns, "--group", any("groups" in b.needs for b in bounds))
    frame, notes = labelled_rows(frame, column, options.drop_missing_labels, options.data)
    said = said_of_rows(frame, column, options.clusters)
    facts = whole_file_facts(options, column, None, warnings=said)
    facts["data"].pop("positive")  # `audit` says which of two words it is
    with in_file(options.data, frame.index.to_numpy()):
        return audit(
            frame[column],
            None,
            groups_in(frame, attributes),
            bounds,
            positive=options.positive,
            threshold=options.threshold,
            confidence=options.confidence,
            sample_weight=weights_of(frame, options.weights, options.data),
            clusters=clusters_of(frame, options.clusters),
            model={"kind": "scores", "description": f"the column {column} of the file"},
            notes=notes,
            **facts,
        )


def left_out_words(
    options: Any,
    label: str,
    column: str,
    classes: tuple[Any, Any],
    left_out: Sequence[str],
    remedy: str = " by leaving --label out",
) -> list[str]:
    """`decided_otherwise` of the rows of a file that have no label, where some were `left_out`, as notes say. options: those
    of the file and its --threshold."""
    if not left_out:
        return []
    whole = with_decisions(read_table(options.data, **options.file_format), column)
    whole = whole[whole[column].notna()]
    try:
        positive = as_logits(decided_or_scored(whole, column, classes), options.threshold)[0] > 0
    except DataError:  # the rows that are judged can be read; of the others nothing is said
        return []
    known = whole[label].notna().to_numpy()
    return decided_otherwise(positive[~known], positive[known], remedy)


def decided_otherwise(left_out: np.ndarray, judged: np.ndarray, remedy: str = "") -> list[str]:
    """A warning where the shares of positive decisions (bools) among rows without an outcome and among those judged
    differ by more than chance. remedy: how the decisions on all can be judged."""
    if not len(left_out) or not len(judged):
        return []
    out, kept = float(left_out.mean()), float(judged.mean())
    both = (left_out.sum() + judged.sum()) / (len(left_out) + len(judged))
    if abs(out - kept) <= CHANCE * np.sqrt(both * (1 - both) * (1 / len(left_out) + 1 / len(judged))):
        return []
    return [
        f"Who has an outcome depends on the decision: {100 * out:.3g} % of the {len(left_out):,} rows without one were decided "
        f"positive, and {100 * kept:.3g} % of those judged. So the rates here are not those of "
        f"everyone: the shares selected of all rows can be had{remedy}; their true and false positive rates cannot."
    ]
