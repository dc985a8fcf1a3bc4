"""Every example of the pages listed here runs as it stands, in an empty folder, on the embedded sample or rows it draws itself."""

from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="the commands need the extra 'cli'")
from fairbound.cli.app import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (
    "tutorial.md", "bounds.md", "fairlearn.md", "migrate_aif360.md", "migrate_tfco.md", "any_classifier.md", "many_classes.md",
    "metrics.md", "regression.md", "weights.md", "any-module.md", "training.md", "partial.md", "auc.md", "pytorch.md",
    "ranking.md", "deployment.md", "intervals.md",
)  # fmt: skip
LONG = ("certificates.md", "level_sets.md")
SAME = ("index.md",)
"""A page whose example is that of the README, where it runs."""
FRAGMENTS = ("plada.md", "reproduce.md", "subgroups.md")
"""Pages whose examples speak of a problem, a run or a table of the reader's own."""


def blocks(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(bash|python)\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize("page", [*PAGES, *(pytest.param(page, marks=pytest.mark.long) for page in LONG)])
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    names: dict[str, object] = {"__name__": "__main__"}
    found = blocks(page)
    assert found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pages show verdicts of small samples
        for language, text in found:
            if language == "python":
                exec(compile(text, page, "exec"), names)
                continue
            for command in (shlex.split(line, comments=True) for line in text.splitlines()):
                if command[:2] == ["python", "-c"]:
                    exec(command[2], {"__name__": "__main__"})
                elif command:
                    assert command[0] == "fairbound", command
                    assert main(command[1:]) in (0, 1, 3), command
    assert capsys.readouterr().out


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, *range(2, 6)))])
def test_the_first_loop_of_the_page_ends_within_its_bound_whatever_the_seed(seed, capsys):
    names: dict[str, Any] = {}
    text = blocks("pytorch.md")[0][1].replace("manual_seed(0)", f"manual_seed({seed})")
    exec(compile(text, "pytorch.md", "exec"), names)
    rows = names["model"](names["features"]), names["targets"], names["group"]
    (value,) = names["dual"].measure([rows]).values()
    assert f"manual_seed({seed})" in text and value <= 0.05


def test_the_bound_of_the_linear_terms_binds(capsys):
    (text,) = (text for _, text in blocks("level_sets.md") if "LinearTerms" in text)
    assert "without the bound f would be 0.34" in text
    found = []
    for bound in ("[0.6]", "[5.0]"):
        names: dict[str, Any] = {}
        exec(
            "import fairbound as fb\nfrom fairbound.methods import CertifiedLevelSet\n" + text.replace("[0.6]", bound),
            names,
        )
        found.append(names["mine"].evaluate(names["solution"].last))
    bounded, free = found
    assert float(bounded.f) == pytest.approx(0.91, abs=0.02) and -0.01 < float(bounded.g) <= 0
    assert float(free.f) == pytest.approx(0.34, abs=0.01) and float(free.g) < -1
