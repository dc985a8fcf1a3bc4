"""The pages: every link leads somewhere, every public name is documented, every example is run by some test, the map names files."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


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


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site needs the extra 'docs'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert (tmp_path / "site" / "reference" / "estimators" / "index.html").stat().st_size > 10_000
