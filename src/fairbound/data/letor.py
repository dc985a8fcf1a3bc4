"""Ranking files: LETOR and SVMlight lines with a query, MSLR-WEB10K's folders, and rows of that data set's size and
shape.

    2 qid:10 1:0.031 2:0.5 ... 136:0 # anything

is a document of relevance 2 of query 10. Features that a line leaves out are 0, and NULL is a missing one, NaN. A line
that cannot be read is an error with its number.
"""

from __future__ import annotations

import gzip
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from fairbound.base.errors import DataError, OptionError
from fairbound.base.seeds import seed_for
from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.files import read_content

QUALITY, MSLR_FEATURES = 132, 136  # the number of MSLR's QualityScore among its features, and how many there are
CHUNK_BYTES = 1 << 24
_COMMENT = re.compile(rb"#[^\n]*")

Part = tuple[np.ndarray, np.ndarray, list[str]]
"""X (n, d), relevance (n,) and query (n,) of some lines."""


def read_letor(
    path: str | os.PathLike[str], *, features: int | None = None, dtype: type = np.float32
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X (n, d), relevance (n,) and the query (n,) of each line of a file, gzip or not.

    features: d; None for the greatest number that occurs. Raises: DataError naming the line that cannot be read;
    OSError.
    """
    where = f"file {str(path)!r}"
    with gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb") as file:
        try:
            return joined_parts(list(_parts(_chunks(file), where)), where, features, dtype)
        except EOFError:
            raise DataError(f"{where} is cut short: the gzip data end early.") from None


def parse_letor(content: bytes, where: str, features: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of a file's content. where: its name, for messages."""
    return joined_parts(list(_parts(iter([content]), where)), where, features, np.float64)


def joined_parts(
    parts: list[Part], where: str, features: int | None, dtype: type
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One table of several parts. Raises: DataError for a file without lines, or with more features than `features`."""
    if not parts:
        raise DataError(f"{where} holds no documents.")
    width = max(X.shape[1] for X, _, _ in parts)
    if features is not None and width > features:
        raise DataError(f"{where} has a feature {width}, but {features} were asked for.")
    whole = np.zeros((sum(len(y) for _, y, _ in parts), features or width), dtype=dtype)
    at = 0
    for X, _, _ in parts:
        whole[at : at + len(X), : X.shape[1]] = X
        at += len(X)
    return (
        whole,
        np.concatenate([y for _, y, _ in parts]),
        np.array([q for *_, part in parts for q in part], dtype=object),
    )


def _chunks(file: object) -> Iterator[bytes]:
    """Whole lines, about CHUNK_BYTES at a time."""
    while chunk := file.read(CHUNK_BYTES):  # type: ignore[attr-defined]
        yield chunk + file.readline()  # type: ignore[attr-defined]


def _parts(chunks: Iterator[bytes], where: str) -> Iterator[Part]:
    line = 1
    for chunk in chunks:
        made = _even_lines(chunk) or _any_lines(chunk, where, line)
        line += chunk.count(b"\n")
        if len(made[1]):
            yield made


def _even_lines(chunk: bytes) -> Part | None:
    """Lines that all name the features 1, 2, ..., d in order, as numbers alone; None where they do not."""
    plain = _COMMENT.sub(b"", chunk) if b"#" in chunk else chunk
    lines = plain.count(b"\n") + (not plain.endswith(b"\n"))
    if b"NULL" in plain or plain.count(b"qid:") != lines:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            numbers = np.fromstring(plain.replace(b"qid:", b" ").replace(b":", b" "), dtype=np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    if len(numbers) % lines or (len(numbers) // lines) % 2:
        return None
    table = numbers.reshape(lines, -1)
    names = table[:, 2::2]
    if not names.shape[1] or not (names == np.arange(1, names.shape[1] + 1)).all() or not np.isfinite(table).all():
        return None
    query = table[:, 1]
    if (query != np.round(query)).any() or np.abs(query).max() > 2**52:
        return None
    return table[:, 3::2], table[:, 0].copy(), list(map(str, query.astype(np.int64).tolist()))


def _any_lines(chunk: bytes, where: str, first: int) -> Part:
    """Any lines, one by one. first: the number of the first."""
    labels: list[float] = []
    queries: list[str] = []
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for number, raw in enumerate(chunk.decode("utf-8", "replace").splitlines(), start=first):
        tokens = raw.partition("#")[0].split()
        if not tokens:
            continue
        try:
            labels.append(float(tokens[0]))
            if not tokens[1].startswith("qid:") or len(tokens[1]) == 4:
                raise ValueError("the second entry must be qid:NUMBER")
            queries.append(tokens[1][4:])
            before = 0
            for token in tokens[2:]:
                name, colon, value = token.partition(":")
                column = int(name)
                if not colon or column <= before:
                    raise ValueError(f"{token!r} is no feature:value with ascending numbers from 1")
                before = column
                rows.append(len(labels) - 1)
                columns.append(column - 1)
                values.append(np.nan if value == "NULL" else float(value))
        except (ValueError, IndexError) as error:
            why = "it has no query" if isinstance(error, IndexError) else str(error)
            raise DataError(
                f"{where}, line {number} cannot be read: {why}. A line is 'relevance qid:QUERY 1:VALUE 2:VALUE ...'; got "
                f"{raw[:60]!r}."
            ) from None
    X = np.zeros((len(labels), max(columns, default=-1) + 1))
    X[rows, columns] = values
    return X, np.array(labels), queries


def high_or_low(values: np.ndarray, quantile: float) -> np.ndarray:
    """(n,) "high" above the quantile of the known values, "low" else,
    None where it is missing: a quality as two groups."""
    if not 0 < quantile < 1:
        raise OptionError(f"quantile must lie in (0, 1), got {quantile!r}.")
    out = np.full(len(values), None, dtype=object)
    known = ~np.isnan(values)
    out[known] = np.where(values[known] > np.quantile(values[known], quantile), "high", "low")
    return out


def as_dataset(
    name: str,
    parts: Sequence[tuple[str, tuple[np.ndarray, np.ndarray, np.ndarray]]],
    attribute: int,
    quantile: float,
    description: str,
) -> Dataset:
    """A Dataset of the parts (name, (X, relevance, query)); the documents' feature `attribute`, from 1 on, above its
    quantile is the group "high" of the attribute "quality". Queries of different parts are different.
    """
    X = np.concatenate([X for _, (X, _, _) in parts])
    if not 1 <= attribute <= X.shape[1]:
        raise OptionError(f"data set {name!r} has features 1 to {X.shape[1]}; there is no feature {attribute}.")
    grades = np.concatenate([y for _, (_, y, _) in parts])
    qid = np.array([f"{part} {q}" for part, (_, _, queries) in parts for q in queries], dtype=object)
    ends = np.cumsum([0, *(len(y) for _, (_, y, _) in parts)])
    quality = high_or_low(X[:, attribute - 1].astype(np.float64), quantile)
    return Dataset(
        name=name,
        X=X,
        y=grades.astype(np.int64),
        sensitive={"quality": quality},
        feature_names=tuple(f"feature {j + 1}" for j in range(X.shape[1])),
        splits={part: np.arange(ends[i], ends[i + 1]) for i, (part, _) in enumerate(parts)} if len(parts) > 1 else {},
        description=description,
        label="relevance",
        positive="the highest grade",
        sensitive_sources={"quality": (f"feature {attribute}",)},
        qid=qid,
    )


def load_lightgbm_rank(folder: Path, *, attribute: int = 17, quantile: float = 0.6) -> Dataset:
    """LightGBM's example of ranking: 201 training and 50 test queries, grades 0 to 4, 300 sparse features without
    names.

    attribute, quantile: the feature, and from which of its quantiles on, that plays a document's quality.
    """
    info = TABLE["lightgbm-rank"]
    read = [parse_letor(read_content(folder, file, info.name), file.path, 300) for file in info.files]
    return as_dataset(info.name, list(zip(("train", "test"), read, strict=True)), attribute, quantile, info.title)


def load_mq2007_agg(folder: Path, *, attribute: int = 8, quantile: float = 0.5) -> Dataset:
    """Two of the five parts of MQ2007-agg: the 21 features are ranks that 21 lists give a document, NaN where one lacks
    it.

    attribute, quantile: as of `load_lightgbm_rank`; a document that the list `attribute` lacks is in no group.
    """
    info = TABLE["mq2007-agg"]
    read = [parse_letor(read_content(folder, file, info.name), file.path, 21) for file in info.files]
    return as_dataset(info.name, list(zip(("S1", "S5"), read, strict=True)), attribute, quantile, info.title)


def load_mslr(folder: Path, *, fold: int = 1, attribute: int = QUALITY, quantile: float = 0.5) -> Dataset:
    """MSLR-WEB10K as Microsoft distributes it: folder/Fold1/train.txt, vali.txt and test.txt (or below
    folder/MSLR-WEB10K).

    X is float32. fold: 1 to 5. attribute: the feature that is a document's quality, by default its QualityScore.
    quantile: above which it is "high". Raises: DataError where a file is missing.
    """
    found = next((f for f in (folder, folder / "MSLR-WEB10K") if (f / f"Fold{fold}").is_dir()), None)
    if found is None:
        raise DataError(f"there is no folder Fold{fold} of MSLR-WEB10K in {str(folder)!r}; unpack the archive there.")
    parts = []
    for part, file in (("train", "train"), ("validation", "vali"), ("test", "test")):
        path = found / f"Fold{fold}" / f"{file}.txt"
        if not path.exists():
            raise DataError(f"MSLR-WEB10K lacks {str(path)!r}; unpack the whole archive.")
        parts.append((part, read_letor(path, features=MSLR_FEATURES)))
    return as_dataset("mslr-web10k", parts, attribute, quantile, "MSLR-WEB10K, web pages graded for queries")


def rows_like_mslr(queries: int = 10_000, seed: int = 0, features: int = MSLR_FEATURES) -> Dataset:
    """Made documents of the size and shape of MSLR-WEB10K: 10,000 queries of 120 documents each, 1.2 million rows,
    grades 0 to 4 in its shares (52, 32, 13, 2 and 1 %), and a quality score from 0 to 149, a feature that goes with
    relevance but less than others do.

    Some 470,000 pairs of a query and a quality score have a document that is better than another of the query.
    sensitive: "quality", two groups, and "score", the quality score itself. A pure function of its arguments.
    """
    if queries < 2 or features < 2:
        raise OptionError(f"there must be at least 2 queries and 2 features, got {queries} and {features}.")
    rng = np.random.default_rng(seed_for("rows like mslr", queries, features, root=seed))
    n = queries * 120
    X = rng.standard_normal((n, features), dtype=np.float32)
    weight = rng.normal(size=features - 1).astype(np.float32)
    worth = X[:, 1:] @ (weight / np.linalg.norm(weight)) + rng.standard_normal(n, dtype=np.float32)
    edges = np.quantile(worth, np.cumsum([0.52, 0.32, 0.13, 0.02]))
    grade = np.searchsorted(edges, worth, side="right").astype(np.int64)
    score = np.floor(150 * ndtr(0.4 * worth / worth.std() + 0.84**0.5 * rng.standard_normal(n))).astype(np.int64)
    X[:, 0] = (score - 74.5) / 43.3
    scores = np.array([str(v) for v in range(150)], dtype=object)[score]
    return Dataset(
        name="rows like MSLR-WEB10K",
        X=X,
        y=grade,
        sensitive={"quality": high_or_low(score.astype(np.float64), 0.5), "score": scores},
        feature_names=("quality score", *(f"feature {j}" for j in range(2, features + 1))),
        label="relevance",
        positive="the highest grade",
        qid=np.repeat(np.arange(queries), 120),
    )
