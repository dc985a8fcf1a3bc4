"""The training methods, one published algorithm per file, and `algorithm`, which finds a method by its name.

`estimate_level` is none: it gives the tolerances of SFLS(stopping="theory"), whose constants are `LightTails`.

A method is a frozen dataclass of options with `init` and `step`; see `fairbound.methods.method`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.base.names import did_you_mean
from fairbound.base.own import own_module
from fairbound.methods.alm import ALM
from fairbound.methods.certified_level_set import CertifiedLevelSet
from fairbound.methods.conex import ConEx
from fairbound.methods.dfls import DFLS
from fairbound.methods.full_batch_alm import FullBatchALM
from fairbound.methods.idca import IDCA
from fairbound.methods.level_estimate import LevelEstimate, estimate_level
from fairbound.methods.method import Method, State
from fairbound.methods.multiplier_model import MultiplierModel
from fairbound.methods.ovsmd import LightTails
from fairbound.methods.plada import PLADA
from fairbound.methods.projected_gradient import ProjectedGradient
from fairbound.methods.proximal_point import ProximalPoint
from fairbound.methods.proxy_lagrangian import ProxyLagrangian
from fairbound.methods.sfls import SFLS
from fairbound.methods.sgd import SGD
from fairbound.methods.sgd_correlation import SGDCorrelation
from fairbound.methods.sgd_fairret import SGDFairret
from fairbound.methods.sgd_max_penalty import SGDMaxPenalty
from fairbound.methods.smd import SMD
from fairbound.methods.ssg import SSG
from fairbound.methods.ssl_alm import SSLALM
from fairbound.methods.stochastic_ghost import StochasticGhost
from fairbound.methods.switching_subgradient import SwitchingSubgradient
from fairbound.methods.ynw import YNW

__all__ = [
    "ALM",
    "DFLS",
    "IDCA",
    "METHODS",
    "PLADA",
    "SFLS",
    "SGD",
    "SMD",
    "SSG",
    "SSLALM",
    "YNW",
    "CertifiedLevelSet",
    "ConEx",
    "FullBatchALM",
    "LevelEstimate",
    "LightTails",
    "Method",
    "MultiplierModel",
    "ProjectedGradient",
    "ProximalPoint",
    "ProxyLagrangian",
    "SGDCorrelation",
    "SGDFairret",
    "SGDMaxPenalty",
    "State",
    "StochasticGhost",
    "SwitchingSubgradient",
    "algorithm",
    "estimate_level",
]

METHODS: dict[str, type[Any]] = {
    method.name: method
    for method in (
        ALM,
        SSLALM,
        SwitchingSubgradient,
        StochasticGhost,
        SGD,
        SGDFairret,
        SGDCorrelation,
        SGDMaxPenalty,
        ProjectedGradient,
        ProxyLagrangian,
        SFLS,
        SMD,
        DFLS,
        YNW,
        CertifiedLevelSet,
        FullBatchALM,
        PLADA,
        ConEx,
        ProximalPoint,
        MultiplierModel,
        SSG,
        IDCA,
    )
}
"""Short names. A method that is not here is named by its class: "package.module:Class"."""


def algorithm(name: str | Method[Any], **options: Any) -> Method[Any]:
    """A method by name ("alm"), by name and preset ("ssl_alm:paper"), or by its class ("package.module:Class", or
    "package.module:Class:preset"), with options on top; a method itself is returned as it is.

    An option `inner` may be a name, or a table {name = ..., further options}, of the method to hold.
    Raises: OptionError for an unknown name, preset or option, and for a module that cannot be imported.
    """
    if not isinstance(name, str):
        if isinstance(name, type) or not isinstance(name, Method):
            raise OptionError(
                f"an algorithm is a name like 'alm', or an object with init and step like fb.ALM(step_size=0.05); got {name!r}."
            )
        if options:
            raise OptionError(f"give options to {type(name).__name__}(...) itself, not beside it.")
        return name
    kind, preset = _found(name)
    if preset and preset not in kind.presets:
        raise OptionError(f"{kind.name} has no preset {preset!r}; it has {sorted(kind.presets)}.")
    allowed = [f.name for f in fields(kind)]
    for option in options:
        if option not in allowed:
            hint = did_you_mean(option, allowed, otherwise=f"it has {', '.join(allowed)}.")
            raise OptionError(f"{kind.name} has no option {option!r}; {hint}")
    if isinstance(inner := options.get("inner"), str):
        options["inner"] = algorithm(inner)
    elif isinstance(inner, Mapping):
        if "name" not in inner:
            raise OptionError(
                f"the table of an inner method must say its name, as {{'name': 'alm', ...}}; got {dict(inner)!r}."
            )
        options["inner"] = algorithm(**inner)
    return kind(**{**(kind.presets[preset] if preset else {}), **options})


def _found(name: str) -> tuple[type[Any], str]:
    """The class that `name` means, and the name of its preset ("" for none)."""
    word, _, rest = name.partition(":")
    if word in METHODS:
        return METHODS[word], rest
    if rest:
        path, _, preset = rest.partition(":")
        return _imported(word, path, name), preset
    module, _, path = word.rpartition(".")
    if module:
        return _imported(module, path, name), ""
    if word == "auto":
        raise OptionError(
            f"'auto' is FairClassifier's, which chooses by its model and rows; name a method, such as 'alm', here: {', '.join(METHODS)}."
        )
    raise OptionError(
        f"unknown algorithm {name!r}{did_you_mean(word, METHODS, before='; ', otherwise=';')} known: {', '.join(METHODS)}. A method of your "
        "own is named by its class, as 'package.module:Class'."
    )


def _imported(module: str, path: str, name: str) -> type[Any]:
    try:
        found = getattr(own_module(module), path, None)
    except OptionError as error:
        raise OptionError(f"unknown algorithm {name!r}: it is none of {', '.join(METHODS)}, and {error}") from None
    if not (isinstance(found, type) and is_dataclass(found) and isinstance(found, Method)):
        raise OptionError(
            f"{name!r} is no method: {module} has "
            + (
                f"no class {path!r}."
                if found is None
                else f"{path!r}, which is no dataclass with init, step and a name."
            )
        )
    return found
