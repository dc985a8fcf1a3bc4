"""What `make docs` adds to the pages: their order, the API reference from docstrings, files that pages link to, the changelog.

A public name without a docstring, or a link to a file that is not there, fails the build.
"""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((\.\./[^)#\s]+)((?:#[^)\s]*)?)\)")

NAVIGATION = {
    "Start": ["index.md", "tutorial.md", "bounds.md", "verdicts.md", "which_method.md", "gallery.md"],
    "How to": [
        "training.md", "certificates.md", "postprocessing.md", "any_classifier.md", "many_classes.md", "regression.md",
        "ranking.md", "auc.md", "partial.md", "subgroups.md", "metrics.md", "monitoring.md", "pytorch.md", "any-module.md",
        "weights.md", "evidence.md", "deployment.md", "commands.md",
    ],
    "Coming from": ["fairlearn.md", "migrate_aif360.md", "migrate_tfco.md"],
    "Understand": [
        "training_measured.md", "intervals.md", "level_sets.md", "plada.md", "auc_study.md", "partial_study.md", "results.md",
        "reproduce.md", "audit-schema.md",
    ],
    "Papers": [
        "papers/level_set.md", "papers/auc.md", "papers/partial.md", "papers/plada.md", "papers/deep_benchmark.md",
        "papers/map.md",
    ],
    "Project": ["extending.md", "contributing.md", "security.md", "changelog.md"],
}  # fmt: skip

REFERENCE = {
    "Estimators, audits, metrics": (
        "estimators",
        "audits",
        "postprocessing",
        "metrics",
        "rows",
        "tables",
        "data",
        "base",
    ),
    "Bounds and what is measured": ("fairness", "confidence", "ranking", "monitoring"),
    "Methods and solving": ("methods", "solver", "subproblems", "problems", "instances"),
    "PyTorch and reports": ("optim", "report"),
}


def public_names() -> dict[str, Any]:
    """Every public name and what it is: those of the package, and those of its rooms that are modules."""
    import fairbound as fb

    out: dict[str, Any] = {}
    for name in fb.__all__:
        made = getattr(fb, name)
        if name == "__version__":
            continue
        if not inspect.ismodule(made):
            out[f"fairbound.{name}"] = made
            continue
        for inner in getattr(made, "__all__", []):
            thing = getattr(made, inner)
            if not inspect.ismodule(thing) and callable(thing):
                out[f"fairbound.{name}.{inner}"] = thing
    return out


def members(thing: Any) -> dict[str, Any]:
    """The public methods and properties that a class defines itself."""
    if not inspect.isclass(thing):
        return {}
    return {
        name: value
        for name, value in vars(thing).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod))
    }


def undocumented() -> list[str]:
    """Public names, and methods of public classes, without a docstring of their own or of the method that they replace."""
    out = []
    for name, thing in public_names().items():
        if not (thing.__doc__ or "").strip():
            out.append(name)
        out += [f"{name}.{m}" for m in members(thing) if not inspect.getdoc(getattr(thing, m))]
    return out


def signature(thing: Any) -> str:
    """The arguments as a call shows them."""
    try:
        return str(inspect.signature(thing)).replace("'", "")
    except (TypeError, ValueError):
        return "(...)"


def reference_page(title: str, names: dict[str, Any]) -> str:
    """The page of some public names."""
    lines = [f"# {title}", ""]
    for name, thing in sorted(names.items()):
        lines += [f"## {name}", "", "```python", f"{name}{signature(thing)}", "```", ""]
        lines += ["```text", inspect.cleandoc(thing.__doc__ or ""), "```", ""]
        for member, value in members(thing).items():
            call = "" if isinstance(value, property) else signature(getattr(thing, member))
            doc = inspect.getdoc(getattr(thing, member)) or ""
            lines += [f"### {name.rpartition('.')[2]}.{member}", "", "```text", f"{member}{call}", "", doc, "```", ""]
    return "\n".join(lines)


def reference() -> dict[str, str]:
    """Address -> the page of each part of the API."""
    names = public_names()
    out, placed = {}, set()
    for title, rooms in REFERENCE.items():
        mine = {n: t for n, t in names.items() if t.__module__.split(".")[1] in rooms and n not in placed}
        placed |= set(mine)
        out[f"reference/{title.split()[0].lower().strip(',')}.md"] = reference_page(title, mine)
    rest = {n: t for n, t in names.items() if n not in placed}
    if rest:
        out["reference/others.md"] = reference_page("Other names", rest)
    return out


# -- the events of mkdocs ---------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Pages in their order; those not named above come under "More"."""
    docs = Path(config.docs_dir)
    there = {str(p.relative_to(docs)).replace(os.sep, "/") for p in docs.rglob("*.md")} | {"changelog.md"}
    nav: list[Any] = [{title: [p for p in pages if p in there]} for title, pages in NAVIGATION.items()]
    named = {p for pages in NAVIGATION.values() for p in pages}
    nav.insert(-1, {"API": sorted(reference())})
    if more := sorted(there - named):
        nav.append({"More": more})
    config.nav = nav
    return config


def on_files(files: Any, config: Any) -> Any:
    """The reference, the changelog, and the files outside docs/ that pages link to."""
    from mkdocs.exceptions import PluginError
    from mkdocs.structure.files import File

    if lacking := undocumented():
        raise PluginError(f"public names without a docstring: {', '.join(lacking)}")
    for address, text in reference().items():
        files.append(File.generated(config, address, content=text))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changes))
    linked = set()
    for page in Path(config.docs_dir).rglob("*.md"):
        for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / target).resolve()
            if Path(config.docs_dir).resolve() not in path.parents:
                linked.add(path)
    for path in sorted(linked):
        if not path.is_file():
            raise PluginError(f"a page links to {path.relative_to(ROOT)}, which is no file")
        address = f"files/{path.relative_to(ROOT)}".replace(os.sep, "/") + (".txt" if path.suffix == ".md" else "")
        files.append(File.generated(config, address, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files outside docs/ as links to their copies."""
    docs, here = Path(config.docs_dir).resolve(), Path(page.file.src_uri).parent

    def moved(match: re.Match[str]) -> str:
        path = (docs / here / match[1]).resolve()
        if docs in path.parents:
            return match[0]
        address = f"files/{path.relative_to(ROOT)}" + (".txt" if path.suffix == ".md" else "")
        return f"]({os.path.relpath(address, here)}{match[2]})".replace(os.sep, "/")

    return LINK.sub(moved, markdown)
