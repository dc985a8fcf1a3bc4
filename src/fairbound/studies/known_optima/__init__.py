"""Studies of methods on instances with a known optimum: gap and worst constraint along the way, as in LNSY20's section 6."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.instances.exact import optimum
from fairbound.studies.known_optima.cell import prepare
from fairbound.studies.known_optima.spec import Study
from fairbound.studies.known_optima.summary import summarise
from fairbound.studies.spec import Kind, named


def with_optima(study: Study, data_dir: str | None) -> tuple[Study, list[str]]:
    """The study without the instances whose optimum is not stored, and a note for each of them.

    Raises: OptionError where none is left.
    """
    notes, known = [], set()
    for key in named(study.items, "data"):
        try:
            optimum(key)
            known.add(key)
        except OptionError as error:
            notes.append(f"{study.data[key].title} is left out: {error}")
    items = tuple(replace(item, data=tuple(d for d in item.data if d in known)) for item in study.items)
    if not known:
        raise OptionError(notes[0])
    return replace(study, items=tuple(item for item in items if item.data)), notes


def facts(study: Study, chosen: dict[str, Any]) -> dict[str, Any]:
    """What study.json says of these studies alone: the optima with their certificates, and the settings item by item."""
    data = {}
    for key in named(study.items, "data"):
        known = optimum(key)
        told = {name: getattr(known, name) for name in ("f", "x0_f", "lower", "upper", "certificate")}
        data[key] = {**asdict(study.data[key]), "optimum": told}
    settings = {item.key: {m.key: m.settings for m in study.methods_of(item)} for item in study.items}
    return {"subject": study.subject, "against": list(study.against), "data": data, "settings": settings}


KIND = Kind(spec=Study, prepare=prepare, facts=facts, summarise=summarise, place=with_optima)
