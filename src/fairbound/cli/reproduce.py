"""`fairbound reproduce`: run a study, or finish it where it stopped, and draw its report."""

from __future__ import annotations

import json

from fairbound.cli.files.outcome import Outcome, say
from fairbound.cli.options.data import ReproduceOptions
from fairbound.report.study_report import write_report
from fairbound.studies import run_study


def run_reproduce(options: ReproduceOptions) -> Outcome:
    """Run the study, write records, numbers, figures and the page; the findings are the text for people.
    The exit code is 1 where a run failed."""
    only = [key.strip() for key in options.only.split(",")] if options.only is not None else None
    run = run_study(
        options.study, options.out, jobs=options.jobs, backend=options.backend, data_dir=options.data_dir,
        quick=options.quick, only=only, tune=options.tune, seeds=options.seeds, budget=options.budget, say=say,
    )  # fmt: skip
    page = write_report(run.out, say)
    summary = json.loads((run.out / "summary.json").read_text(encoding="utf-8"))
    blocks = [f["text"] for f in summary["findings"]]
    blocks += [f"{b['title']}\n" + "\n".join(f"  {f['text']}" for f in b["findings"]) for b in summary["blocks"]]
    findings = {b["key"]: [f["text"] for f in b["findings"]] for b in summary["blocks"]}
    findings |= {"all": [f["text"] for f in summary["findings"]]} if summary["findings"] else {}
    facts = {
        "study": run.study["name"], "cells": run.study["cells"], "ran": run.done, "reused": run.reused,
        "failures": run.study["failures"], "notes": run.study["notes"], "slowdown": run.study["slowdown"],
        "findings": findings,
        "out": str(run.out), "report": str(page),
    }  # fmt: skip
    failed = [f"not finished: {key}: {why}" for key, why in run.study["failures"].items()]
    text = "\n\n".join([*blocks, *run.study["notes"], *failed, f"report  {page}\nnumbers {run.out / 'results.json'}"])
    return Outcome(facts, text, exit_code=1 if run.failed else 0)
