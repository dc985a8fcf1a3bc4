"""A command line run in this process."""

from __future__ import annotations

import html
from functools import partial

import pytest

from fairbound.audits.compare import compare
from fairbound.cli import app as cli


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Models are compared by 100 draws in place of 500: what the intervals are is said in tests/unit/audits."""
    monkeypatch.setattr("fairbound.cli.judging.compare.compare", partial(compare, draws=100))


@pytest.fixture(autouse=True)
def named_charts(monkeypatch):
    """Charts of pages are not drawn, but named: half of the time of a fit of few rows goes into them, and what they show
    is said in tests/unit/report."""
    named = '<svg class="chart" role="img" aria-label="{}"></svg>'
    monkeypatch.setattr("fairbound.report.plots.draw", lambda paint, uid, alt, *size: named.format(html.escape(alt)))
    for module in ("roc", "percentiles", "frontier"):
        monkeypatch.setattr(
            f"fairbound.report.{module}.inline",
            lambda drawing, uid: named.format(html.escape(f"{drawing.title}. {drawing.caption}")),
        )


@pytest.fixture
def run(capsys):
    """(exit code, standard output, standard error) of a command line."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.main([str(a) for a in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
