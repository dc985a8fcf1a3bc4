"""The pages: every link leads somewhere, every public name is documented, every example is run by some test, and the map of
the papers names files that are there and has every formula."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PAPERS = {
    "Lin, Nadarajah, Soheili, Yang (2020)": (r"Lin, Nadarajah, Soheili, Yang \(2020\)", (15, 3, 1, 4)),
    "Yao, Lin, Yang (2023)": (r"Yao, Lin, Yang \(2023\)", (44, 4, 2, 3)),
    "He, Huang, Yao, Lin (2026)": (r"He, Huang, Yao, Lin \(2026\)", (119, 12, 4, 3)),
    "PLADA": (r"A modified proximal-perturbed Lagrangian|PLADA", (35, 7, 2, 1)),
    "Kliachkin": (r"Kliachkin", (13, 5, 3, 3)),
}
"""How the heading of a paper in the map begins -> how sources name the paper, and how many numbered formulas (of
appendices with numbers of their own: none), figures, tables and algorithms it has."""


def site():
    spec = importlib.util.spec_from_file_location("docs_site", DOCS / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_relative_link_is_there():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists() or target == "changelog.md", f"{page.name}: {target}"


def test_every_public_name_is_documented():
    assert site().undocumented() == []
    text = "\n".join(site().reference().values())
    for name in site().public_names():
        assert f"\n## {name}\n" in text, name


def test_a_name_without_a_docstring_is_found(monkeypatch):
    module = site()
    monkeypatch.setattr(module, "public_names", lambda: {"fairbound.lost": lambda x: x})
    assert module.undocumented() == ["fairbound.lost"]


def test_pages_with_examples_are_run_by_a_test():
    tests = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("test_*.py") if p != Path(__file__))
    for page in PAGES:
        if re.search(r"^```python$", page.read_text(encoding="utf-8"), flags=re.M):
            assert page.name in tests, (
                f"no test names {page.name}: run its examples in tests/convergence/test_docs_examples.py"
            )


def test_the_map_names_files_and_commands_that_are_there():
    text = (DOCS / "papers" / "map.md").read_text(encoding="utf-8")
    for path in re.findall(r"`(?!src)([a-z_]+/[a-z_/]*(?:\.py|\.json)?)`", text):
        assert (ROOT / ("" if path.startswith("tests/") else "src/fairbound") / path).exists(), path
    for script in re.findall(r"`python (benchmarks/\w+\.py)", text):
        assert (ROOT / script).exists(), script
    for study, items in re.findall(r"`fairbound reproduce ([\w-]+) --only ([\w,-]+)`", text):
        known = (ROOT / "src/fairbound/studies" / f"{study}.toml").read_text(encoding="utf-8")
        assert [i for i in items.split(",") if f'key = "{i}"' not in known] == [], study


def sections_of_the_map():
    text = (DOCS / "papers" / "map.md").read_text(encoding="utf-8")
    sections = text.split("\n## ")[1:]
    assert len(sections) == len(PAPERS)
    return {paper: next(s for s in sections if s.startswith(paper)) for paper in PAPERS}


def sources(path: Path):
    """What each docstring of the file says after "Source:", without what departs from it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for found in re.findall(r"Source:(.*?)(?=Departs:|\n\s*\n|\Z)", ast.get_docstring(node) or "", flags=re.S):
                yield " ".join(found.split())


def test_every_file_whose_source_is_one_of_the_papers_is_in_the_map():
    sections, missing, seen = sections_of_the_map(), [], 0
    package = ROOT / "src/fairbound"
    for path in sorted(package.rglob("*.py")):
        said, name = "; ".join(sources(path)), path.relative_to(package).as_posix()
        for paper, (names, _) in PAPERS.items():
            if re.search(names, said):
                seen += 1
                missing += [] if f"`{name}`" in sections[paper] else [f"{paper}: {name}"]
    assert seen > 50 and missing == []


def numbers_of(items: str, kind: str) -> set[int]:
    """Those of "Figures 2 to 5", "Algorithms 2 and 3"; of kind "" those of formulas, as "(14) to (26), (84)"."""
    one, runs = r"\((\d+)\)", [items]
    if kind:
        one, runs = r"(\d+)", re.findall(rf"{kind}s? (\d+(?:(?:, | and | to )\d+)*)", items)
    spans = [span for run in runs for span in re.findall(rf"{one}(?: to {one})?", run)]
    return {n for first, last in spans for n in range(int(first), int(last or first) + 1)}


@pytest.mark.parametrize("paper", PAPERS)
def test_the_map_has_every_formula_figure_table_and_algorithm(paper):
    rows = [line.split(" | ")[0] for line in sections_of_the_map()[paper].splitlines() if line.startswith("| ")]
    for kind, most in zip(("", "Figure", "Table", "Algorithm"), PAPERS[paper][1], strict=True):
        found = set().union(*(numbers_of(row, kind) for row in rows))
        assert found == set(range(1, most + 1)), f"{kind or 'formula'}: {sorted(found ^ set(range(1, most + 1)))}"


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site needs the extra 'docs'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert (tmp_path / "site" / "reference" / "estimators" / "index.html").stat().st_size > 10_000
