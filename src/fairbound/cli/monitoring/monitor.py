"""`fairbound monitor`: add a file of labelled decisions to a monitor's state,
and judge its bounds on all decisions so far."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairbound.audits.decisions import check_decisions_alone, forget_outcomes
from fairbound.base.errors import OptionError
from fairbound.cli.bounds import bounds_for, bounds_of_texts
from fairbound.cli.files.older_files import check_no_other_run
from fairbound.cli.files.outcome import Outcome, audit_outcome
from fairbound.cli.files.saved_model import other_column_warnings, trained_on
from fairbound.cli.judging.audit_facts import OF_TRAINING
from fairbound.cli.judging.judged_model import check_classifier, label_of_training
from fairbound.cli.monitoring.changed_groups import changed_group_warnings
from fairbound.cli.monitoring.counting import with_new_decisions
from fairbound.cli.monitoring.new_decisions import CountedBeforeError, NothingNewError
from fairbound.cli.monitoring.same_state import check_same
from fairbound.cli.options.judging import MonitorOptions
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.saving.folder import Folder, load_folder
from fairbound.monitoring import Monitor
from fairbound.monitoring.stored import check_not_changed, state_file, stored_sum
from fairbound.report import write_audit

STATE = "monitor.json"
WRITTEN_AGAIN = (
    "The report was of other decisions than the state, as after a call that was cut short, and is written again."
)


def run_monitor(options: MonitorOptions) -> Outcome:
    """Add the rows of the file, judge, and write audit.json, report.html and the state into the folder of the state. All are
    staged before the first is replaced, and the state comes last: where a call is cut short, its file can be counted again."""
    path = options.state / STATE
    before_reading = stored_sum(path)
    monitor = Monitor.load(path) if path.exists() else None
    if monitor is not None:
        check_same(options, monitor)
    folder = None if options.model is None else load_folder(options.model)
    if folder is not None:
        check_classifier(folder, "monitor")
    if monitor is None:
        check_no_other_run(options.state, folder, "--state")
    options = _of_decisions(options, monitor)
    said: list[str] = []
    rows, repeated = (0, 0) if monitor is None else (monitor.rows, monitor.repeated)
    if options.data is not None:
        before = {} if monitor is None else monitor.groups
        try:
            monitor, said = with_new_decisions(options, options.data, monitor, folder)
        except NothingNewError as quiet:
            return _unchanged(options, path, folder, f"{quiet} Nothing new was counted; the state is as it was.")
        except CountedBeforeError as again:
            if monitor is None or _shows(options.state, monitor):
                raise
            return _unchanged(options, path, folder, f"{again} The state is as it was.")
        said += changed_group_warnings(options.data, before, monitor.groups, rows, monitor.rows - rows)
    if monitor is None:
        raise OptionError(f"there is no monitor in {str(options.state)!r} yet; begin it with --data and --constraint.")
    if any(trained_on(folder, file["sha256"]) for file in monitor.files):
        said.append(OF_TRAINING)
    if options.data is not None:
        said += other_column_warnings(folder, options.label or label_of_training(folder), options.weights)
    found = _looked(options, monitor, said)
    check_not_changed(path, before_reading)
    write_audit(found, options.state, last={STATE: state_file(monitor.to_dict())[0]})
    return _outcome(options, monitor, found, monitor.rows - rows, monitor.repeated - repeated)


def _looked(options: MonitorOptions, monitor: Monitor, said: list[str]) -> dict[str, Any]:
    """The audit of all decisions so far, with what is said of the file in front of its warnings."""
    found = monitor.look(title=f"Monitor: {options.state.name}")
    named = monitor.columns
    if named and len(monitor.classes) == 2 and named.get("label") == named.get("score"):  # of a model both are None
        forget_outcomes(found)
    found["warnings"] = [*said, *found["warnings"]]
    return found


def _outcome(options: MonitorOptions, monitor: Monitor, found: dict[str, Any], counted: int, repeated: int) -> Outcome:
    """What the command says. counted: decisions that this call added; repeated: those that it left out as known."""
    growth = found["monitoring"]["growth"]
    alarms = [f"alarm: {text} was found violated at {rows:,} decisions" for text, rows in monitor.alarms.items()]
    outcome = audit_outcome(found, options.state, None, None, alarms, {"state": STATE})
    outcome.summary.update(alarms=monitor.alarms, growth=growth, counted=counted, repeated=repeated)
    return replace(outcome, exit_code=1) if growth and options.fail_on == "growth" else outcome


def _unchanged(options: MonitorOptions, path: Path, folder: Folder | None, why: str) -> Outcome:
    """What the command says of a file of a quiet day. The exit code is 0, unless a bound was found violated, which
    stays so; a monitor that is not begun stays so. Where the report is of other decisions than the state, as after a call
    that was cut short, it is written again, and the exit code is that of its verdict."""
    if not path.exists():
        bounds = bounds_for(options, None if folder is None else FairClassifier.load(folder))
        why += f" The monitor of {', '.join(bound.text for bound in bounds)} begins with the first decisions."
        summary: dict[str, Any] = {
            "verdict": None,
            "constraints": [],
            "rows": 0,
            "warnings": [why],
            "alarms": {},
            "counted": 0,
        }
        return Outcome(summary | {"repeated": 0, "out": str(options.state)}, why)
    monitor = Monitor.load(path)
    shown = _shows(options.state, monitor)
    found = _looked(options, monitor, [why if shown else f"{why} {WRITTEN_AGAIN}"])
    outcome = _outcome(options, monitor, found, 0, 0)
    if shown:
        return replace(outcome, exit_code=1 if outcome.exit_code == 1 else 0)
    write_audit(found, options.state)
    return outcome


def _shows(folder: Path, monitor: Monitor) -> bool:
    """Whether the audit.json in a folder is of the decisions that the monitor has counted."""
    try:
        shown = json.loads((folder / "audit.json").read_bytes())
        return bool(shown["data"]["rows"] == monitor.rows and shown["monitoring"]["files"] == monitor.files)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _of_decisions(options: MonitorOptions, monitor: Monitor | None) -> MonitorOptions:
    """The options with the decisions in place of labels, where no label is named, or the decisions themselves, and the
    state has none.

    Raises: OptionError for bounds that need outcomes, and for a threshold beside decisions.
    """
    if options.label not in (None, options.score) or options.score is None or options.data is None:
        return options  # a saved model's decisions are known when it is loaded
    if monitor is not None and monitor.columns.get("label") != options.score:
        return options
    check_decisions_alone(monitor.bounds if monitor is not None else bounds_of_texts(options.constraint, options.cross))
    if options.threshold is not None:
        column = re.split("[<>=]", options.score)[0]
        raise OptionError(
            f"without --label, --score alone says what counts as positive, as in --score '{column}>{options.threshold:g}'; leave "
            "--threshold out."
        )
    return replace(options, label=options.score)
