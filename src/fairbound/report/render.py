"""Pages from the templates in ``templates/``. Whatever is put into a template is escaped there, unless it is markup."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from fairbound.base.extras import extra
from fairbound.base.names import seen
from fairbound.report import plots, summary, words


def render(template: str, **values: Any) -> str:
    """The page that ``template`` makes of ``values``; drawings among them are handed over by :func:`drawing`.

    Raises: ImportError naming the extra where jinja2 is missing.
    """
    return environment().get_template(template).render(values)


def drawing(svg: str) -> Any:
    """A drawing of our own as markup, which a template takes over as it is."""
    return environment().filters["safe"](svg)


@cache
def environment() -> Any:
    """The templates with what all of them use: ``words``, ``seen``, two small drawings, the style sheet ``css``."""
    with extra("report", "the page needs jinja2"):
        import jinja2

    def put_in(value: Any) -> Any:
        return value if hasattr(value, "__html__") else words.clean(str(value))

    env = jinja2.Environment(
        loader=jinja2.PackageLoader("fairbound.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=put_in,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    safe = env.filters["safe"]
    env.globals |= {
        "css": safe(resources.files("fairbound.report").joinpath("page.css").read_text(encoding="utf-8")),
        "glyph": lambda *given: safe(plots.glyph(*given)),
        "swatch": lambda *given: safe(plots.swatch(*given)),
        "seen": seen,
        "summary": summary,
        "words": words,
    }
    return env
