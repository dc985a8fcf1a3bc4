"""Situations that peers were seen to get wrong: what this library does in each, beside the peers that are installed.

Every cell of the table is computed when the command runs. "right" is decided by a rule written beside the case, the same for all; a
peer without anything of the kind has "-". Prints the table, or with `--json` one JSON object. No data needed.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import failures_of_peers as peers
import numpy as np
import pandas as pd
import torch
from sklearn import config_context
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairbound as fb
from fairbound.base.errors import FairboundError
from fairbound.optim import Dual

Found = tuple[bool, str]


@dataclass(frozen=True)
class Case:
    """name; right: what the right answer is; ours: gives whether it was given and what happened; peers: the same by name."""

    name: str
    right: str
    ours: Callable[[], Found]
    peers: dict[str, Callable[[], Found]]


def absent_group() -> Found:
    dual = Dual("demographic_parity <= 0.1", group_names=["a", "b", "c"], dual_every=1)
    dual.loss(torch.tensor([1.0, -1.0] * 3), [1, 0] * 3, [0, 0, 1, 1, 2, 2])
    dual.step()
    dual.loss(torch.tensor([1.0, -1.0, 1.0, -1.0]), [1, 0, 1, 0], [0, 0, 2, 2])
    dual.step()
    value, lacking = dual.values()["demographic_parity <= 0.1"], dual.report().lacking
    return value == 0.0 and lacking == {"b": 1}, f"difference {value:g}, batches lacking a group: {lacking}"


def single_group() -> Found:
    dual = Dual("demographic_parity <= 0.1", group_names=["a", "b"], dual_every=1)
    scores = torch.tensor([2.0, 2.0], requires_grad=True)
    dual.loss(scores, [1, 0], [0, 0]).backward()
    dual.step()
    value = dual.values()["demographic_parity <= 0.1"]
    assert scores.grad is not None
    fine = math.isnan(value) and not dual.multipliers.any() and bool(torch.isfinite(scores.grad).all())
    return fine, f"difference {value:g} (not measured), multipliers {dual.multipliers.tolist()}"


def no_positives() -> Found:
    dual = Dual("equal_opportunity <= 0.1", group_names=["a", "b"], dual_every=1)
    scores = torch.tensor([2.0, -2.0, 1.0, 1.0], requires_grad=True)
    loss = dual.loss(scores, [1, 1, 0, 0], [0, 0, 1, 1])
    loss.backward()
    dual.step()
    value = dual.values()["equal_opportunity <= 0.1"]
    fine = math.isnan(value) and dual.report().unmeasured == ("b | y=1",) and math.isfinite(loss.item())
    return fine, f"rate {value:g}, named: {dual.report().unmeasured}"


def group_without_positives() -> Found:
    try:
        value = fb.measure("equal_opportunity", [1, 0, 1, 0], [1, 0, 0, 0], ["a", "a", "b", "b"], threshold=0.5)
    except FairboundError as error:
        return "b" in str(error), f"{type(error).__name__}: {str(error)[:80]}"
    return math.isnan(value), f"difference {value:g}"


def one_nan() -> Found:
    dual = Dual("loss_gap <= 0.001", group_names=["a", "b"], dual_every=1)
    said = ""
    for scores in ([1.0, -2.0], [1.0, math.nan], [1.0, -2.0]):
        try:
            dual.loss(torch.tensor(scores), [1, 1], [0, 1])
            dual.step()
        except FairboundError as error:
            said = f"{type(error).__name__}: {str(error)[:60]}"
    return bool(said) and bool(torch.isfinite(dual.multipliers).all()), f"{said}; multipliers finite"


def out_of_reach() -> Found:
    dual = Dual("loss_gap <= 0.01", group_names=["a", "b"], dual_every=1, multiplier_bound=3.0, decay=0.0)
    for _ in range(60):
        dual.loss(torch.tensor([4.0, 4.0]), [1, 0], [0, 1])  # a model that cannot change
        dual.step()
    report = str(dual.report())
    return "out of reach" in report and float(
        dual.multipliers.max()
    ) == 3.0, "said, with the smallest value; at its cap of 3"


def two_satisfied() -> Found:
    dual = Dual("demographic_parity <= 0.3", group_names=["a", "b"], dual_every=1)
    for _ in range(5):
        dual.loss(torch.tensor([1.0, -1.0, 1.0, -1.0]), [1, 0, 1, 0], [0, 0, 1, 1])
        dual.step()
    return not dual.multipliers.any(), f"multipliers {dual.multipliers.tolist()}"


def other_checkpoint() -> Found:
    saved = Dual("demographic_parity <= 0.1", group_names=["a", "b"]).state_dict()
    try:
        Dual("demographic_parity <= 0.1", group_names=["a", "b", "c"]).load_state_dict(saved)
    except FairboundError as error:
        return True, f"{type(error).__name__}: {str(error)[:80]}"
    return False, "loaded without a word"


def wrong_options() -> Found:
    accepted = []
    for options in ({"dual_step_size": -1.0}, {"memory": 0}, {"penalti": 1.0}):
        try:
            Dual("demographic_parity <= 0.1", group_names=["a", "b"], **options)
            accepted.append(str(options))
        except (FairboundError, TypeError):
            pass
    return not accepted, f"accepted: {accepted or 'none'}"


def unseen_group() -> Found:
    x, y, group = peers.table()
    rule = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.05").fit(x, y, sensitive_features=group)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rule.predict(x[:3], sensitive_features=["a", "b", "new"])
    spoken = [str(w.message) for w in said]
    return any("not fitted to" in text for text in spoken), f"warns: {spoken[0][:90] if spoken else 'nothing'}"


def habits() -> Found:
    x, y, group = peers.table()
    frame, text = pd.DataFrame(x, columns=["one", "two"], dtype="float32"), np.where(y == 1, "yes", "no")
    with config_context(enable_metadata_routing=True):
        model = fb.FairClassifier("demographic_parity <= 0.1", budget="50 steps")
        model.set_fit_request(sensitive_features=True)
        fitted = make_pipeline(StandardScaler(), model).fit(frame, text, sensitive_features=group)
    labels = sorted(set(fitted.predict(frame)))
    return labels == ["no", "yes"], f"fitted by routing, labels {[str(v) for v in labels]}"


def predict_twice() -> Found:
    x, y, group = peers.table()
    model = fb.FairClassifier("demographic_parity <= 0.02", budget="50 steps").fit(x, y, sensitive_features=group)
    changed = int((model.predict(x) != model.predict(x)).sum())
    return changed == 0, f"{changed} of {len(y)} decisions change"


def train_and_test() -> Found:
    x, y, group = peers.table(2000, seed=1)
    model = fb.Reduction(GradientBoostingClassifier(n_estimators=10), "demographic_parity <= 0.01")
    model.fit(x[:1000], y[:1000], sensitive_features=group[:1000])
    found = fb.audit(model.predict(x[1000:]), y[1000:], group[1000:], "demographic_parity <= 0.01")
    true = fb.measure("demographic_parity", model.predict(x[1000:]), y[1000:], group[1000:])
    return found["verdict"] != "met" or true <= 0.01, f"held out {true:.3f}, verdict: {found['verdict']}"


def rare_class() -> Found:
    """A class with one row: the folds that train without it, and the one that tests it."""
    x, _, group = peers.table(300)
    y = np.where(x[:, 0] > 0.5, 2, (x[:, 1] > 0).astype(int))
    y[0] = 3
    model = fb.FairClassifier("class_demographic_parity <= 0.5", budget="30 steps")
    folds = list(StratifiedKFold(3).split(x, np.minimum(y, 2)))
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(sensitive_features=True)
        found = cross_validate(
            model, x, y, cv=folds, params={"sensitive_features": group}, scoring="accuracy", error_score="raise",
            return_estimator=True,
        )  # fmt: skip
    sizes = [len(m.classes_) for m in found["estimator"]]
    return bool(np.isfinite(found["test_score"]).all()) and sorted(sizes) == [3, 4, 4], f"classes by fold: {sizes}"


CASES = [
    Case("a group absent from a batch", "the others' difference, 0; the group is named, not renumbered, not a rate of 0",
         absent_group, {"fairret": peers.fairret_absent, "torchmetrics": peers.torchmetrics_absent}),
    Case("a batch of a single group", "not measured; finite; no multiplier moves", single_group, {"fairret": peers.fairret_absent}),
    Case("no positives in a batch", "not measured, said; the loss is finite", no_positives,
         {"libauc": peers.libauc_no_positives, "fairret": peers.fairret_no_positives}),
    Case("a group without positives", "NaN, or an error that names the group", group_without_positives,
         {"fairlearn": peers.fairlearn_no_positives}),
    Case("one NaN among scores", "refused or skipped; multipliers stay finite", one_nan,
         {"humancompatible-train": peers.hc_nan, "cooper": peers.cooper_nan}),
    Case("a bound out of reach", "said, and no multiplier grows without end", out_of_reach,
         {"humancompatible-train": peers.hc_out_of_reach, "fairlearn": peers.fairlearn_out_of_reach}),
    Case("two satisfied inequalities", "multipliers stay 0", two_satisfied, {"humancompatible-train": peers.hc_satisfied}),
    Case("the checkpoint of another problem", "refused", other_checkpoint, {"humancompatible-train": peers.hc_checkpoint}),
    Case("options that cannot be meant", "refused at construction", wrong_options, {"humancompatible-train": peers.hc_options}),
    Case("an unseen group at prediction", "said, by an error or a warning", unseen_group, {"fairlearn": peers.fairlearn_unseen}),
    Case("float32 frame, text labels, Pipeline with routing", "fits and predicts the text labels", habits,
         {"fairlearn": peers.fairlearn_habits}),
    Case("predict called twice", "the same decisions", predict_twice, {"fairlearn": peers.fairlearn_twice}),
    Case("boosted trees: train against test", "what holds on training rows only is not called met", train_and_test,
         {"fairlearn": peers.fairlearn_boosting}),
    Case("a rare class missing in a fold", "every fold fits; each knows its classes", rare_class, {}),
]  # fmt: skip


def judged(run: Callable[[], Found]) -> Found:
    """What a case gives; an exception of any other kind than a case expects is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run()
        except Exception as error:
            return False, f"{type(error).__name__}: {str(error)[:80]}"


def results() -> list[dict[str, Any]]:
    """Each case with what ours and every installed peer gave: {"right": bool, "what": text}."""
    found = peers.installed()
    out = []
    for case in CASES:
        runs = {"fairbound": case.ours, **{name: run for name, run in case.peers.items() if found[name]}}
        answers = {name: dict(zip(("right", "what"), judged(run), strict=True)) for name, run in runs.items()}
        out.append({"case": case.name, "asked": case.right, "answers": answers})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    args = parser.parse_args()
    rows, missing = results(), [name for name, there in peers.installed().items() if not there]
    right = sum(row["answers"]["fairbound"]["right"] for row in rows)
    if args.json:
        print(
            json.dumps(
                {"benchmark": "failures", "right": right, "of": len(rows), "cases": rows, "not_installed": missing},
                indent=1,
            )
        )
        return
    for row in rows:
        print(f"{row['case']}  (asked: {row['asked']})")
        for name, answer in row["answers"].items():
            print(f"    {name:22} {'right' if answer['right'] else 'WRONG'}  {answer['what']}")
    print(f"\nfairbound: {right} of {len(rows)} right." + (f" Not installed: {', '.join(missing)}." if missing else ""))


if __name__ == "__main__":
    main()
