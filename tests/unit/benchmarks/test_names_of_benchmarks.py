"""No benchmark runs in the tests; what each imports of the library is there."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[3] / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_benchmark_imports_exists(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fairbound":
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}"), name.name
