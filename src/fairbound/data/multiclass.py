"""Sets for multi-class tasks, without sensitive attributes: MNIST's test images, pendigits, Connect-4."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from fairbound.base.errors import DataError
from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build
from fairbound.data.files import read_content, read_rows

SIDE = 28
CELLS = tuple(f"{column}{row}" for column in "abcdefg" for row in range(1, 7))
IDX_IMAGES, IDX_LABELS = b"\x00\x00\x08\x03", b"\x00\x00\x08\x01"  # unsigned bytes in 3 dimensions, in 1


def load_mnist_test(folder: Path) -> Dataset:
    """MNIST's 10,000 test images: X (10000, 784) grey values in [0, 1], row by row of 28 x 28 pixels; y the digit.

    `X.reshape(-1, 1, 28, 28)` gives images with one channel, as convolutions take them.
    """
    info = TABLE["mnist-test"]
    images, digits = (read_content(folder, file, info.name) for file in info.files)
    y = _idx(digits, IDX_LABELS, info.files[1].path)
    pixels = _idx(images, IDX_IMAGES, info.files[0].path).reshape(len(y), SIDE * SIDE)
    return Dataset(
        name=info.name,
        X=pixels / 255.0,
        y=y.astype(np.int64),
        sensitive={},
        feature_names=tuple(f"pixel {i // SIDE},{i % SIDE}" for i in range(SIDE * SIDE)),
        description=info.title,
        label="digit",
    )


def _idx(content: bytes, magic: bytes, path: str) -> np.ndarray:
    """The array of an IDX file of unsigned bytes: a magic number, the sizes (big-endian 32 bits), the values."""
    dimensions = magic[3]
    head = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, head, 4))
    if content[:4] != magic or len(content) != head + math.prod(shape):
        raise DataError(f"file {path!r} is no IDX file of bytes in {dimensions} dimensions, or is cut short.")
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)


def load_pendigits(folder: Path) -> Dataset:
    """Handwritten digits as 8 pen positions: X (10992, 16), integers 0 to 100; y the digit; splits train and test."""
    info = TABLE["pendigits"]
    parts = [_svmlight(read_content(folder, file, info.name), 16) for file in info.files]
    train = len(parts[0][1])
    X, y = (np.concatenate([part[j] for part in parts]) for j in (0, 1))
    return Dataset(
        name=info.name,
        X=X,
        y=y.astype(np.int64),
        sensitive={},
        feature_names=tuple(f"{axis}{point}" for point in range(1, 9) for axis in "xy"),
        splits={"train": np.arange(train), "test": np.arange(train, len(y))},
        description=info.title,
        label="digit",
    )


def load_connect_4(folder: Path, *, encoding: str = "one-hot") -> Dataset:
    """Connect-4 positions after 8 moves: 42 cells that are b (blank), o or x; y = 1 where x, who moves next, will lose.

    encoding: see `fairbound.data.encode.encode`; "one-hot" makes 126 columns, some of them always 0 or 1.
    """
    info = TABLE["connect-4"]
    frame = read_rows(folder, info)
    return build(
        info.name,
        frame,
        label="class_loss",
        y=frame["class_loss"].to_numpy(dtype=np.int64),
        positive="loss",
        features=CELLS,
        sensitive={},
        encoding=encoding,
        description=info.title,
    )


def load_connect_4_head(folder: Path) -> Dataset:
    """The first 2,345 positions of `connect-4` with three classes: y = 0 loss, 1 draw, 2 win for x.

    X: (2345, 126), a 0/1 column for x, b and o of each cell, as in LIBSVM's file.
    """
    info = TABLE["connect-4-head"]
    X, y = _svmlight(read_content(folder, info.files[0], info.name), 3 * len(CELLS))
    return Dataset(
        name=info.name,
        X=X,
        y=y.astype(np.int64) + 1,
        sensitive={},
        feature_names=tuple(f"{cell}={piece}" for cell in CELLS for piece in "xbo"),
        feature_sources=tuple(cell for cell in CELLS for _ in "xbo"),
        description=info.title,
        label="class",
    )


def _svmlight(content: bytes, features: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_svmlight_file(io.BytesIO(content), n_features=features)
    return X.toarray(), y
