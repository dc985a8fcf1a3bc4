"""The methods by name. A new one is a file with a Config (its class), `init` and `step`, and a row in METHODS.

state = init(config, problem, x0, draws)            x0 is taken over and moved in place
state = step(config, state, problem, draws)         state has at least x, k and multipliers; it is plain data

A state whose method returns something else than its latest x has it as `point`; one that can halt says so in `done` (...,).
"""

from __future__ import annotations

import difflib
from dataclasses import fields
from types import ModuleType
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.methods import (
    alm,
    certified_level_set,
    dfls,
    sfls,
    sgd,
    sgd_fairret,
    ssl_alm,
    stochastic_ghost,
    switching_subgradient,
    ynw,
)
from fairbound.methods.alm import ALM
from fairbound.methods.certified_level_set import CertifiedLevelSet
from fairbound.methods.dfls import DFLS
from fairbound.methods.sfls import SFLS
from fairbound.methods.sgd import SGD
from fairbound.methods.sgd_fairret import SGDFairret
from fairbound.methods.ssl_alm import SSLALM
from fairbound.methods.stochastic_ghost import StochasticGhost
from fairbound.methods.switching_subgradient import SwitchingSubgradient
from fairbound.methods.ynw import YNW

__all__ = [
    "ALM",
    "DFLS",
    "METHODS",
    "SFLS",
    "SGD",
    "SSLALM",
    "YNW",
    "CertifiedLevelSet",
    "SGDFairret",
    "StochasticGhost",
    "SwitchingSubgradient",
    "algorithm",
    "method_of",
]

METHODS: dict[type, ModuleType] = {
    ALM: alm,
    SSLALM: ssl_alm,
    SwitchingSubgradient: switching_subgradient,
    StochasticGhost: stochastic_ghost,
    SGD: sgd,
    SGDFairret: sgd_fairret,
    SFLS: sfls,
    DFLS: dfls,
    YNW: ynw,
    CertifiedLevelSet: certified_level_set,
}


def algorithm(name: str | Any, **options: Any) -> Any:
    """The configuration of a method by name ("alm"), or by name and preset ("ssl_alm:paper"), with options on top.

    Raises: OptionError for an unknown name, preset or option.
    """
    if type(name) in METHODS:
        if options:
            raise OptionError(f"give options to {type(name).__name__}(...) itself, not beside it.")
        return name
    word, _, preset = str(name).partition(":")
    for config in METHODS:
        if config.name == word:  # type: ignore[attr-defined]
            break
    else:
        raise OptionError(f"unknown algorithm {name!r}; known: {', '.join(c.name for c in METHODS)}.")  # type: ignore[attr-defined]
    if preset and preset not in config.presets:  # type: ignore[attr-defined]
        raise OptionError(f"{word} has no preset {preset!r}; it has {sorted(config.presets)}.")  # type: ignore[attr-defined]
    allowed = [f.name for f in fields(config)]
    unknown = [o for o in options if o not in allowed]
    if unknown:
        near = difflib.get_close_matches(unknown[0], allowed, 1)
        raise OptionError(
            f"{word} has no option {unknown[0]!r}"
            + (f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(allowed)}.")
        )
    return config(**{**(config.presets[preset] if preset else {}), **options})  # type: ignore[attr-defined]


def method_of(config: Any) -> ModuleType:
    """The module whose init and step run `config`."""
    if type(config) not in METHODS:
        raise OptionError(f"{type(config).__name__} is not a method of this library; see fairbound.methods.METHODS.")
    return METHODS[type(config)]
