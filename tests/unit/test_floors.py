"""The plan of the house holds: floors, no circles, short files and functions, nobody's private names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fairbound.fairness.bound import Bound
from fairbound.fairness.notions import NOTIONS

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
MOST_FILE_LINES, MOST_FUNCTION_LINES = 400, 80

# What is above a limit today. The lists may only shrink: an entry that is no longer needed fails its test.
LONG_FILES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()
PRIVATE_IMPORTS: set[str] = set()
CIRCLES: set[str] = set()  # modules of a circle, sorted and joined by a space


@cache
def modules() -> dict[str, ast.Module]:
    """Dotted name -> parsed source, of every module of the package."""
    return {_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SRC.rglob("*.py"))}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def room(module: str) -> str:
    """`rows` of `fairbound.rows.groups`; the package itself is the room `fairbound`."""
    return module.split(".")[1] if "." in module else module


@cache
def imports() -> list[tuple[str, str, str]]:
    """(module, the module it imports from, the name it imports or ""), inside functions too."""
    known, found = modules(), []
    for module, tree in known.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                source = _absolute(module, node)
                for name in (alias.name for alias in node.names):
                    inner = f"{source}.{name}"
                    found.append((module, inner, "") if inner in known else (module, source, name))
            elif isinstance(node, ast.Import):
                found += [(module, alias.name, "") for alias in node.names]
    return [(module, target, name) for module, target, name in found if target.split(".")[0] == "fairbound"]


def _absolute(module: str, node: ast.ImportFrom) -> str:
    """The dotted name that `from ... import` reads from, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    package = (SRC / Path(*module.split("."))).is_dir()
    parts = module.split(".")[: len(module.split(".")) - node.level + package]
    return ".".join([*parts, *([node.module] if node.module else [])])


def floors() -> list[str]:
    """The rooms from the ground up, as docs/extending.md lists them."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    listed = re.search(r"^```rooms\n(.*?)^```$", text, flags=re.M | re.S)
    assert listed, "docs/extending.md has no fenced list ```rooms"
    return [line.split()[0] for line in listed[1].splitlines() if line.strip()]


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """(qualified name, lines from `def` to the last) of every function and method."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not isinstance(node, ast.ClassDef):
                yield prefix + node.name, (node.end_lineno or node.lineno) - node.lineno + 1
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def circles(arrows: dict[str, set[str]]) -> set[frozenset[str]]:
    """The sets of two or more names that all reach each other (Tarjan 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in arrows.get(name, ()):
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            part = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(part) > 1:
                found.add(frozenset(part))

    for name in arrows:
        if name not in order:
            visit(name)
    return found


def check(found: set[str], allowed: set[str]) -> None:
    assert not found - allowed, f"new: {sorted(found - allowed)}"
    assert not allowed - found, f"mended, so take them off the list at the top of this file: {sorted(allowed - found)}"


def test_every_room_is_listed_once_and_there():
    listed = floors()
    rooms = {room(module) for module in modules()}
    assert len(listed) == len(set(listed)) and set(listed) == rooms


def test_a_room_imports_only_from_rooms_below_it():
    height = {name: i for i, name in enumerate(floors())}
    up = {(m, t) for m, t, _ in imports() if room(m) != room(t) and height[room(t)] > height[room(m)]}
    assert not up, f"arrows up: {sorted(up)}"


def test_the_report_imports_only_base():
    assert {room(t) for m, t, _ in imports() if room(m) == "report"} <= {"report", "base"}


def test_no_module_is_in_a_circle():
    arrows: dict[str, set[str]] = {m: set() for m in modules()}
    for module, target, _ in imports():
        if module != target:
            arrows[module].add(target)
    check({" ".join(sorted(circle)) for circle in circles(arrows)}, CIRCLES)


def test_no_folder_of_a_room_is_in_a_circle_with_what_stands_beside_it():
    """Seen from above a room is its folders and files."""
    inside: dict[str, set[str]] = {}
    for module, target, _ in imports():
        one, other = (".".join(name.split(".")[:3]) for name in (module, target))
        if one != other and room(module) == room(target) and one.count(".") == other.count(".") == 2:
            inside.setdefault(one, set()).add(other)
            inside.setdefault(other, set())
    assert circles(inside) == set()


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset("bc")}
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()


def test_no_module_imports_a_private_name_of_another():
    private = re.compile(r"^_[^_]")
    found = {
        f"{m} <- {t}{'.' if name else ''}{name}"
        for m, t, name in imports()
        if private.match(name) or private.match(t.split(".")[-1])
    }
    check(found, PRIVATE_IMPORTS)


def test_nobody_outside_the_notions_asks_for_the_class_of_a_bound():
    """What bounds have in common stands in `fairness/bound.py`; what is special to one, it says of itself."""
    of_bounds = {c.__name__ for notion in NOTIONS.values() for c in notion.__mro__} - {Bound.__name__, "ABC", "object"}
    assert {"AUCParity", "LossBound", "RateBound"} <= of_bounds

    def asked(node: ast.AST) -> set[str]:
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Name)
            or node.func.id not in ("isinstance", "issubclass")
        ):
            return set()
        return {
            n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in ast.walk(node.args[1])
        } & of_bounds

    found = {(module, *asked(n)) for module, tree in modules().items() for n in ast.walk(tree) if asked(n)}
    assert {entry for entry in found if not entry[0].startswith("fairbound.fairness.notions")} == set()


def test_no_file_is_too_long():
    lines = {_name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in SRC.rglob("*.py")}
    check({name for name, n in lines.items() if n > MOST_FILE_LINES}, LONG_FILES)


def test_no_function_is_too_long():
    found = {
        f"{module}:{name}"
        for module, tree in modules().items()
        for name, lines in functions(tree)
        if lines > MOST_FUNCTION_LINES
    }
    check(found, LONG_FUNCTIONS)
