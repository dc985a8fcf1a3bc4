"""`fairbound feasibility`: before a long run, what a bound costs and whether these rows could confirm it."""

from __future__ import annotations

import numpy as np

from fairbound.base.files import atomic_write_text
from fairbound.cli.bounds import bounds_of_texts, check_of_classes, of_classes_only, of_two_classes
from fairbound.cli.files.outcome import Outcome, json_file, say
from fairbound.cli.options.training import FeasibilityOptions
from fairbound.cli.training.fit import of_options
from fairbound.cli.training.rows import in_lines_of_parts, rows_of_options
from fairbound.estimators.feasibility import MORE, SHOWN, feasibility
from fairbound.report.terminal import grid


def run_feasibility(options: FeasibilityOptions) -> Outcome:
    """Train models under tighter and tighter bounds, judge each on the other half of the rows, print;
    the exit code is 0."""
    (bound,) = bounds_of_texts([options.constraint], options.cross)
    check_of_classes([bound], "feasibility")
    rows = rows_of_options(options, needs_groups=not of_classes_only([bound]), two_classes=of_two_classes([bound]))
    say(
        f"{rows.name}: a curve of models under tighter and tighter bounds, each judged on half of {rows.counting(np.arange(len(rows))):,} rows"
    )
    chosen = of_options(options, [bound], rows).get_params(deep=False)
    taken = {name: value for name, value in chosen.items() if name not in ("constraint", "certify", "on_insufficient")}
    groups = rows.groups if rows.groups.attributes else None
    with in_lines_of_parts(rows):
        found = feasibility(bound, rows.X, rows.y, groups, rows.weight, confidence=options.confidence, **taken)
    lines = [
        [
            "none" if one["trained_under"] is None else f"{one['trained_under']:g}",
            *("–" if one[k] is None else f"{one[k]:.4f}" for k in ("value", "lower", "upper", "accuracy")),
            "yes" if one["certified"] else "no",
        ]
        for one in found["curve"]
    ]
    title = f"{bound.text} on {rows.name}: {found['rows']['held']:,} held-out rows"
    text = grid(title, ("trained under", "measured", "at least", "at most", "accuracy", "confirmed"), lines)
    if gains := gains_of_rows(found["more_rows"]):
        move = "raise" if bound.sense == "at least" else "lower"
        text += f"\n{MORE:,} more held-out rows would {move} the interval's end by\n" + "\n".join(gains)
    text += f"\n\n{found['said']}"
    text += "".join(f"\nwarning: {line}" for line in found["warnings"])
    if options.out is not None:
        path = atomic_write_text(options.out / "feasibility.json", json_file(found).decode())
        text += f"\nas data  {path}"
    return Outcome(found, text)


def gains_of_rows(more_rows: dict[str, float]) -> list[str]:
    """Lines that say by how much more rows of each group would move the interval's end, the most first;
    groups that do nothing together."""
    helps = sorted(((gain, name) for name, gain in more_rows.items() if gain >= SHOWN), reverse=True)
    rest = len(more_rows) - len(helps)
    others = [f"  0.0000  of {'any other group' if rest > 1 else 'the other group'}"] if helps and rest else []
    return [f"  {gain:.4f}  of {name}" for gain, name in helps] + others
