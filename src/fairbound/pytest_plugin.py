"""A pytest plugin: gates as tests. `pytest -p fairbound.pytest_plugin --fairbound-gate gate.toml`,
or the fixture `fairbound_gate`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from fairbound.cli.gate import Gate, check


def pytest_addoption(parser: Any) -> None:
    parser.addoption(
        "--fairbound-gate", action="append", default=[], help="A gate's TOML file, checked as a test of its own."
    )


def pytest_collection_modifyitems(session: Any, config: Any, items: list[Any]) -> None:
    for path in config.getoption("--fairbound-gate"):
        items.append(GateItem.from_parent(session, name=f"fairbound-gate[{path}]", gate=path))


class GateItem(pytest.Item):
    """One gate as a test."""

    def __init__(self, *, gate: str, **more: Any):
        super().__init__(**more)
        self.gate = gate

    def runtest(self) -> None:
        _passed(self.gate)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name


@pytest.fixture
def fairbound_gate() -> Callable[[str], Gate]:
    """A function that checks a gate's TOML file, and fails the test with the reasons where it is closed."""
    return _passed


def _passed(path: Any) -> Gate:
    found = check(path)
    if not found.passed:
        pytest.fail("\n".join([f"the gate {path} is closed:", *found.reasons]), pytrace=False)
    for said in found.summary["warnings"]:
        warnings.warn(said, stacklevel=2)
    return found
