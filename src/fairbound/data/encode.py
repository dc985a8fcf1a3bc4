"""Raw table -> feature matrix, with names that say which raw column a feature came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse as sp

from fairbound.base.errors import OptionError
from fairbound.data.dataset import Dataset
from fairbound.data.files import require_pandas

ENCODINGS = ("one-hot", "one-hot-reference", "numeric")


def encode(
    frame: Any, columns: Sequence[str], encoding: str, *, categorical: Sequence[str] = (), sparse: bool = False
) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """(X, feature names, source columns) of `columns` of a pandas table.

    Numbers stay numbers (NaN where missing). A categorical column (text, or listed in `categorical`) becomes, under
    "one-hot", one 0/1 column for each of its values in sorted order, all 0 where the value is missing; under
    "one-hot-reference" the same without the first value; under "numeric" one column: the value itself if it is a
    number, else its position in sorted order, NaN where missing.
    X: (n, d) float64; CSR if `sparse`, filled without a dense copy.
    """
    pandas = require_pandas()
    if encoding not in ENCODINGS:
        raise OptionError(f"encoding must be one of {', '.join(ENCODINGS)}, got {encoding!r}.")
    blocks: list[Any] = []
    names: list[str] = []
    sources: list[str] = []
    for column in columns:
        values = frame[column]
        numeric = pandas.api.types.is_numeric_dtype(values)
        if numeric and (encoding == "numeric" or column not in categorical):
            blocks.append(values.to_numpy(dtype=np.float64, na_value=np.nan)[:, None])
            names.append(column)
            sources.append(column)
            continue
        codes, categories = pandas.factorize(values, sort=True)
        if encoding == "numeric":
            blocks.append(np.where(codes < 0, np.nan, codes.astype(np.float64))[:, None])
            names.append(column)
            sources.append(column)
            continue
        if encoding == "one-hot-reference":
            codes, categories = codes - 1, categories[1:]
        rows = np.flatnonzero(codes >= 0)
        block = sp.csr_matrix((np.ones(len(rows)), (rows, codes[rows])), shape=(len(values), len(categories)))
        blocks.append(block if sparse else block.toarray())
        names += [f"{column}={category}" for category in categories]
        sources += [column] * len(categories)
    X = sp.hstack([sp.csr_matrix(block) for block in blocks], format="csr") if sparse else np.hstack(blocks)
    return X, tuple(names), tuple(sources)


def labels(values: Any, names: Mapping[Any, str] | None = None) -> np.ndarray:
    """(n,) object array of text labels of one pandas column, None where missing; `names` renames raw values.

    A raw value that `names` lacks becomes None.
    """
    codes, categories = require_pandas().factorize(values, sort=True)
    texts: list[str | None]
    if names is None:
        texts = [str(int(c)) if isinstance(c, float) and c.is_integer() else str(c) for c in categories]
    else:
        texts = [names.get(c) for c in categories]
    table = np.array([*texts, None], dtype=object)
    return table[codes]


def build(
    name: str,
    frame: Any,
    *,
    label: str,
    y: np.ndarray,
    positive: str,
    features: Sequence[str],
    sensitive: Mapping[str, tuple[np.ndarray, tuple[str, ...]]],
    encoding: str,
    description: str,
    categorical: Sequence[str] = (),
    sparse: bool = False,
    splits: Mapping[str, np.ndarray] | None = None,
) -> Dataset:
    """The Dataset of a raw table. sensitive: attribute -> (labels, the raw columns that reveal it)."""
    X, names, sources = encode(frame, features, encoding, categorical=categorical, sparse=sparse)
    raw = frame[list(features)].copy()
    raw[label] = y
    for attribute, (values, _) in sensitive.items():
        if attribute not in raw.columns:
            raw[attribute] = values
    return Dataset(
        name=name,
        X=X,
        y=y,
        sensitive={attribute: values for attribute, (values, _) in sensitive.items()},
        feature_names=names,
        splits=splits or {},
        description=description,
        label=label,
        positive=positive,
        frame=raw.reset_index(drop=True),
        feature_columns=tuple(features),
        feature_sources=sources,
        sensitive_sources={attribute: columns for attribute, (_, columns) in sensitive.items()},
    )
