"""The package's names: each is found where the package says, for people and for type checkers, and none is imported early."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fairbound as fb

SOURCE = ast.parse(Path(fb.__file__).read_text(encoding="utf-8"))


def told_to_type_checkers():
    (block,) = (node for node in SOURCE.body if isinstance(node, ast.If))
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_type_checkers_and_people_find_the_same_names():
    named = {**fb._WHERE, **dict.fromkeys(fb._ROOMS, "fairbound")}
    assert told_to_type_checkers() == named
    assert sorted(fb.__all__) == sorted([*named, "__version__"]) == dir(fb)
    for name, module in fb._WHERE.items():
        assert getattr(fb, name) is getattr(import_module(module), name)
    for name in fb._ROOMS:
        assert getattr(fb, name) is import_module(f"fairbound.{name}")


def test_the_names_that_pages_speak_of_are_there():
    root = Path(__file__).parents[2]
    pages = [
        root / "README.md",
        root / "CHANGELOG.md",
        *(root / "docs").rglob("*.md"),
        *(root / "examples").glob("*.py"),
    ]
    said = {name for page in pages for name in re.findall(r"\bfb\.([A-Za-z_]+)", page.read_text(encoding="utf-8"))}
    assert len(said) > 40 and said - {name for name in said if hasattr(fb, name)} == set()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fairbound' has no attribute 'fit'"):
        fb.fit  # noqa: B018


def test_importing_the_package_and_asking_for_help_load_no_heavy_library_and_listing_data_sets_no_torch():
    code = (
        "import sys, fairbound; from fairbound.cli.app import main; assert main(['--help']) == 0;"
        "print(sorted({'torch', 'sklearn', 'scipy', 'pandas', 'numpy', 'matplotlib'} & set(sys.modules)));"
        "assert main(['datasets', 'list']) == 0; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    lines = done.stdout.strip().splitlines()
    assert "[]" in lines and lines[-1] == "False", done.stdout + done.stderr
