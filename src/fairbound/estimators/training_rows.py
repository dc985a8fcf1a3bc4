"""Turns what the estimators are given into rows to train on or to score: labels as numbers, columns as features."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from torch import nn

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning, OptionError, silenced
from fairbound.base.names import plain_repr
from fairbound.estimators.choosing import asked_for
from fairbound.estimators.conventions import warn_of_names
from fairbound.fairness.bound import Bound
from fairbound.fairness.module_trial import has_embedding, runs_on
from fairbound.fairness.objectives import objective_of
from fairbound.models.mlp import is_linear
from fairbound.models.model import Model
from fairbound.models.scoring import predicted_scores
from fairbound.rows.doubtful import twin_words
from fairbound.rows.groups import Groups
from fairbound.rows.labels import class_labels, positive_last, two_needed
from fairbound.rows.reading import frame_of, plain_array
from fairbound.rows.shards import ALONE, Shards, all_or_none
from fairbound.rows.sparse import SparseRows
from fairbound.tables import Chunks, Encoded, EncodeReport, TableEncoder, TableOptions
from fairbound.tables.naming import column_names, columns_named, keep_names
from fairbound.tables.shapes.shapes import may_be_asked

MOST_BENT = 1_000_000
"""Rows of a table up to which numbers bend and jump by default."""

TOLD = (
    "As the labels ask for it, the network is told whether these numbers lie above so many values: {}. "
    "options=TableOptions(jumps=0) leaves that out."
)

NOT_DROPPED = (
    "Nothing was dropped: sensitive_columns='drop' finds columns by their names, and X has none. Pass a data frame, or leave "
    "columns that tell {} out of X."
)


def checked_labels(X: Any, y: Any, name: str = "FairClassifier", what: str = "labels") -> Any:
    """y as one column of real labels, in scikit-learn's words where it is something else. name: of the estimator."""
    if y is None:
        raise DataError(f"{name} requires y to be passed, but the target y is None.")
    if any(getattr(getattr(part, "dtype", None), "kind", None) == "c" for part in (X, y)):
        raise DataError("Complex data not supported: X and y must be real.")
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        warnings.warn(
            f"A column-vector y was passed when a 1d array was expected; it is taken as one column of {what}.",
            DataConversionWarning,
            stacklevel=users_line(),
        )
    return y


def class_codes(y: Any, positive: Any, loss: str, compared: Sequence[str]) -> tuple[np.ndarray, tuple[Any, ...]]:
    """(n,) class numbers and the labels; of two, the positive one is last. compared: bounds that need two classes.

    positive: of two classes the positive label, None for the greater one. loss: as in FairClassifier.
    Raises: DataError or OptionError where bounds, positive or loss need two classes and y has more.
    """
    codes, classes = class_labels(y)
    if len(classes) == 2:
        return positive_last(codes, classes, positive, y)
    if compared or positive is not None:
        what = f"the bound {compared[0]!r}" if compared else f"positive={plain_repr(positive)}"
        raise DataError(two_needed(codes, classes, what, positive))
    if loss not in ("logistic", "cross_entropy"):
        raise OptionError(f"loss={loss!r} is for two classes; y has {len(classes)}. Take 'logistic'.")
    return codes, classes


def compares_groups(stated: Sequence[Bound], objective: Any) -> list[str]:
    """The bounds on groups and the objective, as text, where they compare groups."""
    minimised = objective_of(objective)
    grouped = minimised is not None and "groups" in minimised.needs
    return [b.text for b in stated if b.about == "group"] + (
        [minimised.text] if minimised is not None and grouped else []
    )


def columns_to_drop(X: Any, groups: Groups, choice: str) -> tuple[list[str], list[str]]:
    """The columns of X named like a sensitive attribute where choice is "drop", none where it is "keep"; and notes.

    Warns: DataWarning of columns that are such an attribute by another name, and where columns to drop have no names."""
    notes, names = twin_words(X, groups), column_names(X)
    if names is None and choice == "drop" and groups.attributes:
        notes = [NOT_DROPPED.format(", ".join(groups.attributes)), *notes]
    for said in notes:
        warnings.warn(said, DataWarning, stacklevel=users_line())
    shared = [name for name in names or () if name in groups.attributes]
    if shared and choice == "drop":
        if isinstance(X, Encoded):
            raise OptionError(f"X is encoded with {', '.join(shared)} in it; leave these columns out before encoding.")
        return shared, [*notes, f"Sensitive columns dropped from the features: {', '.join(shared)}."]
    if shared:
        notes = [*notes, f"Sensitive columns kept among the features: {', '.join(shared)}."]
    return [], notes


def without(X: Any, columns: Sequence[str]) -> Any:
    """X without those of its columns that are named."""
    if isinstance(X, Chunks):
        return X.map(lambda part: without(part, columns)) if columns else X
    frame = frame_of(X) if columns else None
    if frame is None:
        return X
    return frame.drop([name for name in frame.columns if str(name) in columns]).to_native()


def columns_taken(estimator: Any, X: Any) -> Any:
    """X without the columns that a fitted estimator leaves out; of a frame for an nn.Module, the columns of training by name.

    Raises: DataError where a frame lacks one that an nn.Module was trained on."""
    table, names = without(X, estimator.dropped_columns_), getattr(estimator, "feature_names_in_", None)
    if names is None or estimator.encoder_ is not None:  # an encoder takes columns by name itself
        return table
    return columns_named(table, names)


def shaped_by_default(estimator: Any, table: Any, labels: Any, shards: Shards) -> bool:
    """Whether numbers may bend or jump where the labels (n,) ask for it, though nothing is said of either: in models of
    numbers or of at most MOST_CLASSES classes, of a dense table of at most MOST_BENT rows that one process holds whole,
    without terms of groups. labels: class numbers, or floats; None for a model that predicts neither."""
    if labels is None or isinstance(estimator.model, nn.Module) or getattr(estimator, "group_terms", False):
        return False
    whole = shards.alone and not (isinstance(table, Chunks) or sparse.issparse(table))
    return whole and len(labels) <= MOST_BENT and may_be_asked(labels)


def encoder_options(estimator: Any, table: Any, labels: Any, shards: Shards) -> TableOptions:
    """The options of an estimator's encoder, with the default of knots and jumps: both of linear models, jumps of networks
    that predict classes. Arguments as in `shaped_by_default`."""
    stated = estimator.options or TableOptions()
    if not shaped_by_default(estimator, table, labels, shards):
        return stated
    if estimator.model == "linear":
        return stated.or_knots()
    return stated if np.asarray(labels).dtype.kind == "f" else stated.or_jumps()


def at_once(model: Any, algorithm: Any) -> bool:
    """Whether a fit with these options passes over all rows at once, of a linear model."""
    return bool(model == "linear" and (algorithm == "auto" or asked_for(algorithm).at_once))


def encoded_rows(estimator: Any, X: Any, shards: Shards, labels: Any) -> Encoded:
    """The training table read once and encoded; X may be encoded already. shards: the processes that hold a table each.
    labels: as in `Encoded.of`."""
    if not isinstance(X, Encoded):
        encoder = TableEncoder(encoder_options(estimator, X, labels, shards))
        return Encoded.of(encoder, X, shards, labels, at_once(estimator.model, estimator.algorithm))
    stated, own = estimator.options, X.encoder.options
    if stated is not None and stated.shaped_as(own) != own.shaped_as(own):
        raise OptionError("X is encoded already, under other options; leave options=None, or give them to its encoder.")
    return X


def fit_features(
    estimator: Any, X: Any, groups: Groups, shards: Shards = ALONE, labels: Any = None
) -> tuple[Any, list[str]]:
    """The features (n, d) to train on, after which the estimator knows its encoder and the columns that it takes; and
    notes on them. labels: as in `Encoded.of`."""
    choice = estimator.sensitive_columns
    estimator.dropped_columns_, notes = all_or_none(shards, lambda: columns_to_drop(X, groups, choice))
    table = without(X, estimator.dropped_columns_)
    if isinstance(estimator.model, nn.Module):
        features = all_or_none(shards, lambda: module_features(table, estimator.model))
        estimator.encoder_, estimator.encoder_report_, estimator.n_features_in_ = None, None, features.shape[1]
        keep_names(estimator, column_names(table))
    else:
        rows = encoded_rows(estimator, table, shards, labels)
        features, estimator.encoder_, estimator.encoder_report_ = rows.features, rows.encoder, rows.report
        estimator.n_features_in_ = rows.encoder.n_features_in_
        keep_names(estimator, getattr(rows.encoder, "feature_names_in_", None))
        if rows.encoder.options.by_labels and (said := of_shapes(rows.encoder, estimator.model != "linear")):
            notes = [*notes, said]
    return features, notes


def of_shapes(encoder: TableEncoder, network: bool) -> str | None:
    """What is said of an encoder that chose where numbers bend or jump, and which columns act together; of a network's
    None where it chose nothing."""
    options, jumping = encoder.options, encoder.jumping
    bent = encoder.bent if options.knots == "auto" else ()
    together = Counter(" and ".join(side.name for side in pair.sides) for pair in encoder.pairs)
    if network and not together:
        return TOLD.format(_counts(jumping)) if jumping else None
    asked = [
        ("bend", options.knots == "auto"),
        ("jump", options.jumps_by_labels),
        ("pair of columns", options.pairs == "auto"),
    ]
    if not bent and not jumping and not together:
        what = " or ".join(name for name, was in asked if was)
        straight = "The model is straight in every number: the" if options.knots in (0, "auto") else "The"
        return f"{straight} labels ask for no {what}, or are too few to tell."
    said = [
        f"bends at up to {options.most_knots} values in these columns: {', '.join(bent)}" if bent else "",
        f"jumps in these, each at so many values: {_counts(jumping)}" if jumping else "",
        f"takes these together, in so many ways: {_listed(together)}" if together else "",
    ]
    what = "; it ".join(filter(None, said))
    without = " options=TableOptions(pairs=0) takes no columns together." if together else ""
    return f"As the labels ask for it, the model {what}. options=TableOptions(knots=0) keeps it straight.{without}"


def _counts(jumping: Mapping[str, Sequence[float]]) -> str:
    return _listed({name: len(at) for name, at in jumping.items()})


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.items())


def check_readable(estimator: Any, train: Any, X: Any, groups: Groups) -> None:
    """Encodes a table X as a model of the rows `train` of it would, but for bends, jumps and pairs, and keeps
    nothing.

    train: a part of the table, whose groups are `groups`. Nothing is done where a table is encoded already or an nn.Module
    takes it as it is. Raises: DataError for a cell that such a model cannot read."""
    if isinstance(X, Encoded) or isinstance(estimator.model, nn.Module):
        return
    straight = replace(estimator.options or TableOptions(), knots=0, jumps=0, pairs=0)
    reader = clone(estimator).set_params(options=straight)
    with silenced(DataWarning):  # the model that is trained says it
        fit_features(reader, train, groups)
    for part in X if isinstance(X, Chunks) else [X]:
        reader.encoder_.encode(without(part, reader.dropped_columns_), np.float32)


def features_of(
    X: Any,
    encoder: TableEncoder | None,
    width: int,
    extended: Callable[[Any], Any] | None = None,
    module: nn.Module | None = None,
) -> tuple[torch.Tensor | SparseRows, EncodeReport | None]:
    """The features (n, d) that a fitted model sees, and what happened to the table on the way.

    encoder: None for an nn.Module, the `module`, which takes X as it is. width: columns of X that the model was trained
    on. extended: what adds to the encoded features.
    """
    if encoder is None:
        array = module_features(X, module)
        if array.shape[1] != width:
            raise DataError(f"X has {array.shape[1]} features, but the model is expecting {width} features.")
        return torch.from_numpy(array), None
    if isinstance(X, Encoded) and X.encoder is not encoder:
        raise DataError("X is encoded by another encoder than the model's; pass the table itself.")
    rows = X if isinstance(X, Encoded) else Encoded.of(encoder, X)
    features = rows.features if extended is None else extended(rows.features)
    return seen_by_model(features), rows.report


def seen_by_model(features: Any) -> torch.Tensor | SparseRows:
    """Encoded features (n, d) as a model scores them."""
    if sparse.issparse(features):
        return SparseRows.of(features, torch.float32)
    return torch.as_tensor(features, dtype=torch.float32)


def model_scores(estimator: Any, X: Any, extended: Callable[[Any], Any] | None = None) -> np.ndarray:
    """(n,) scores of a fitted estimator's model, (n, k) with several outputs. extended: what adds to the encoded
    features.

    Warns: UserWarning as `warn_of_names`; DataWarning as `TableEncoder.warn`."""
    frame = frame_of(X)  # opened once, for all that look at it
    X = X if frame is None else frame
    warn_of_names(getattr(estimator, "feature_names_in_", None), X, type(estimator).__name__)
    if extended is None:
        scores = table_scores(estimator.model_, estimator.x_, estimator.encoder_, X, estimator.dropped_columns_)
        if scores is not None:
            return scores
    table, module = columns_taken(estimator, X), getattr(estimator.model_, "module", None)
    features, report = features_of(table, estimator.encoder_, estimator.n_features_in_, extended, module)
    if report is not None and not isinstance(X, Encoded):
        estimator.encoder_.warn(report)
    return predicted_scores(estimator.model_, estimator.x_, features).numpy()


def table_scores(
    model: Model, x: torch.Tensor, encoder: TableEncoder | None, table: Any, dropped: Sequence[str]
) -> np.ndarray | None:
    """(n,) float64 scores of a linear model, (n, c) with several outputs, without a copy of the table's features.

    dropped: columns of the table that are left out. None for what is scored from its features: another model, a sparse
    table, or one that is encoded already.
    """
    if not is_linear(model) or encoder is None or encoder.sparse or isinstance(table, Encoded):
        return None
    weight, bias = (part.double().numpy() for part in model.layers.split(x))
    parts = table if isinstance(table, Chunks) else [table]
    found = [encoder.weighted(without(part, dropped), np.ascontiguousarray(weight.T)) for part in parts]
    scores = found[0] if len(found) == 1 else np.concatenate(found)
    scores += bias
    return scores[:, 0] if model.outputs == 1 else scores


def module_features(X: Any, module: nn.Module | None) -> np.ndarray:
    """X (n, ...) as float32, for an nn.Module; integers as int64 where the module cannot run on floats, as an embedding
    of tokens. Raises: DataError where X is not numeric, has no column, or a cell that is NaN or infinite."""
    try:
        given = plain_array(X)
        with np.errstate(over="ignore"):
            array = np.require(given, dtype=np.float32, requirements=["W"])
    except (TypeError, ValueError) as error:
        raise DataError(
            f"an nn.Module needs numeric features ({error}); encode the table with fairbound.TableEncoder first."
        ) from None
    if array.ndim < 2:
        raise DataError(f"X must have at least two dimensions, got {array.ndim}.")
    if not (finite := np.isfinite(array)).all():
        row, column, *_ = np.argwhere(~finite)[0].tolist()
        name = (column_names(X) or [f"x{place}" for place in range(array.shape[1])])[column]
        raise DataError(
            f"column {name!r} is missing, infinite or too large for single precision in row {row} (counting from 0), and perhaps in others; "
            "an nn.Module takes X as it is. Fill or correct such cells; a fairbound.TableEncoder before the module fills missing ones."
        )
    if module is None or given.dtype.kind not in "iu" or runs_on(module, torch.from_numpy(array)):
        return array
    integers = np.require(given, dtype=np.int64, requirements=["W"])
    return integers if has_embedding(module) or runs_on(module, torch.from_numpy(integers)) else array
