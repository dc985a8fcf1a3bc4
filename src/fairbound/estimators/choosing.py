"""Which method a fit takes: the one that was named, or under "auto" one that suits the model,
the objective and the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from fairbound.fairness.bound import Bound
from fairbound.fairness.objectives import AUCLoss, ClassLosses, objective_of
from fairbound.methods import ALM, FullBatchALM, Method
from fairbound.methods import algorithm as algorithm_named
from fairbound.methods.method import declared
from fairbound.models.mlp import is_built_in, is_linear
from fairbound.models.model import Model
from fairbound.models.scoring import has_last_layer

Refined = Literal["no", "auto", "yes"]
"""Whether the objective goes from the loss towards the error rate: "auto" as far as the order of the scores allows."""

SMOOTH = ("logistic", "squared")
"""Losses for which "auto" takes all rows at once."""

MARGINS = (0.2, 0.5)
"""Shares of each bound that are kept as margin, in turn, where none was found with the method's own."""


class Chosen(NamedTuple):
    """A method; whether it was left to "auto", and why it took this one; the margins to try where no iterate meets the
    bounds; whether a network's last layer is to be solved after it; and what is to be chosen in its place where a bound
    costs something."""

    method: Method[Any]
    automatic: bool = False
    why: str = ""
    margins: tuple[float, ...] = ()
    last_layer: bool = False
    otherwise: Chosen | None = None

    @property
    def at_once(self) -> bool:
        """Whether it takes all rows at once."""
        return isinstance(self.method, FullBatchALM)

    def refined(self, objective: Any, outputs: int) -> Refined:
        """What becomes of `objective`, as FairClassifier has it, in training of a model of so many outputs."""
        if not (self.at_once or self.last_layer) or objective not in ("auto", "accuracy"):
            return "no"
        if outputs > 1:
            return "no"
        return "auto" if objective == "auto" else "yes"


def asked_for(algorithm: Any) -> Chosen:
    """A method that was made, or one by its name, with MARGINS where its `margin` is a share of each bound."""
    if not isinstance(algorithm, str):
        return Chosen(algorithm)
    method = algorithm_named(algorithm)
    return Chosen(method, margins=MARGINS if getattr(method, "margin_is_share", False) else ())


def penalises_groups(algorithm: Any) -> bool:
    """Whether it names a method that needs groups, with bounds or without."""
    return algorithm != "auto" and bool(declared(asked_for(algorithm).method, "penalises_groups", False))


def without_bounds(algorithm: Any) -> Any:
    """The algorithm of the model without bounds beside one that `algorithm` trains under bounds: itself, or "auto" in
    place of a method that penalises differences of groups, or needs bounds to be differences of convex functions."""
    differences = algorithm != "auto" and "differences" in asked_for(algorithm).method.needs
    return "auto" if differences or penalises_groups(algorithm) else algorithm


def chosen(
    algorithm: Any,
    model: Model,
    features: Any,
    *,
    loss: str,
    objective: Any,
    stated: Sequence[Bound],
) -> Chosen:
    """The method that `algorithm` names, or that "auto" takes. features: rows that the model can be run on; the other
    arguments as in FairClassifier."""
    if algorithm != "auto":
        return asked_for(algorithm)
    on_batches = "Trained on random batches (alm)"
    batches = Chosen(ALM(), True, margins=MARGINS)
    network = not is_linear(model)
    if not is_built_in(model) and not has_last_layer(model, features):
        return batches._replace(why=f"{on_batches}: the model does not end in a linear layer of its own.")
    areas = isinstance(objective_of(objective), AUCLoss)
    weighted = isinstance(objective_of(objective), ClassLosses)
    plain = areas or (loss in SMOOTH and (weighted or objective in ("auto", "loss", "accuracy")))
    if not plain:
        smooth = " or ".join(SMOOTH)
        return batches._replace(
            why=f"{on_batches}: the objective is not the {smooth} loss of all rows, with class weights or without, or accuracy, or the AUC."
        )
    of_class = [bound.about == "class" for bound in stated]
    on_class = batches._replace(why=f"{on_batches}: a bound is on a class.")
    if any(of_class) and network:
        return on_class
    if stated and all(of_class):
        why = "Trained on all rows at once (full_batch_alm): the bounds cost nothing there."
        return Chosen(algorithm_named("full_batch_alm"), True, why, otherwise=on_class)
    if network:
        why = f"{on_batches}, its last layer then on all rows at once (full_batch_alm)."
        return batches._replace(why=why, last_layer=True)
    preset = ":thresholds" if any(bound.free_thresholds for bound in stated) else ""
    why = f"Trained on all rows at once (full_batch_alm{preset}): the model is linear."
    return Chosen(algorithm_named(f"full_batch_alm{preset}"), True, why)
