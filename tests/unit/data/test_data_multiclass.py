"""The multi-class sets: counts by class, shapes, what a row means, and damaged files."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from fairbound.base.errors import DataError, OptionError
from fairbound.data import catalog, info, load, names
from fairbound.data.multiclass import CELLS, IDX_IMAGES, IDX_LABELS, _idx

MULTICLASS = [name for name in names() if info(name).classes and not info(name).groups]


def test_which_sets_these_are():
    assert MULTICLASS == ["mnist-test", "pendigits", "connect-4", "connect-4-head"]
    for name in MULTICLASS:
        entry = info(name)
        assert sum(rows for _, rows in entry.classes) == entry.rows and not entry.groups


@pytest.mark.parametrize("name", MULTICLASS)
def test_rows_by_class(name, data_dir):
    if name == "connect-4":
        pytest.importorskip("pandas")
    entry, loaded = info(name), load(name, data_dir)
    assert len(loaded) == entry.rows and loaded.X.shape == (entry.rows, len(loaded.feature_names))
    assert np.bincount(loaded.y).tolist() == [rows for _, rows in entry.classes]
    assert np.isfinite(loaded.X).all() and not loaded.sensitive
    with pytest.raises(OptionError, match="has no sensitive attribute"):
        loaded.group("sex")


def test_mnist_images(data_dir):
    mnist = load("mnist-test", data_dir)
    images = mnist.X.reshape(-1, 28, 28)
    assert mnist.y[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]  # the published beginning
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert images[:, :, 0].mean() < 0.001 < images[:, 10:18, 10:18].mean()  # the digit is in the middle
    one, zero = (images[mnist.y == digit].mean(0) for digit in (1, 0))
    assert one[14, 14] > 0.7 > 0.1 > zero[14, 14]  # a one is filled at its centre, a zero is not


def test_pendigits_split(data_dir):
    pen = load("pendigits", data_dir)
    assert {part: len(rows) for part, rows in pen.splits.items()} == {"train": 7494, "test": 3498}
    assert pen.feature_names[:3] == ("x1", "y1", "x2") and (pen.X.min(), pen.X.max()) == (0, 100)
    assert pen.X[0].tolist() == [47, 100, 27, 81, 57, 37, 26, 0, 0, 23, 56, 53, 100, 90, 40, 98] and pen.y[0] == 8


def test_connect_4_positions(data_dir):
    pytest.importorskip("pandas")
    whole, head = load("connect-4", data_dir), load("connect-4-head", data_dir)
    assert whole.frame.columns.tolist() == [*CELLS, "class_loss"] and whole.positive == "loss"
    for piece, count in (("x", 4), ("o", 4), ("b", 34)):
        columns = [j for j, name in enumerate(head.feature_names) if name.endswith(f"={piece}")]
        assert (head.X[:, columns].sum(1) == count).all()
    for j, name in enumerate(head.feature_names):
        cell, piece = name.split("=")
        assert np.array_equal(head.X[:, j] == 1, whole.frame[cell].to_numpy()[: len(head)] == piece)
    assert np.array_equal(head.y == 0, whole.y[: len(head)] == 1)


def test_idx_files_that_are_not():
    good = IDX_LABELS + (3).to_bytes(4, "big") + b"\x01\x02\x03"
    assert _idx(good, IDX_LABELS, "f").tolist() == [1, 2, 3]
    for content in (good[:-1], good + b"\x00", IDX_IMAGES + good[4:], b"", good[:6]):
        with pytest.raises(DataError, match="no IDX file"):
            _idx(content, IDX_LABELS, "f")


def test_a_missing_or_damaged_image_file_is_named(tmp_path, data_dir):
    with pytest.raises(DataError, match=r"mnist-t10k-images-idx3-ubyte.gz' is missing"):
        load("mnist-test", tmp_path)
    folder = tmp_path / "multiclass"
    folder.mkdir()
    for file in info("mnist-test").files:
        (tmp_path / file.path).write_bytes((data_dir / file.path).read_bytes())
    path = tmp_path / info("mnist-test").files[0].path
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="is truncated"):
        load("mnist-test", tmp_path)
    path.write_bytes(gzip.compress(b"else"))
    with pytest.raises(DataError, match="is not the published one"):
        load("mnist-test", tmp_path)


def test_a_wrong_count_by_class_is_refused(monkeypatch, data_dir):
    entry = info("connect-4-head")
    wrong = replace(entry, classes=(("loss", 443), *entry.classes[1:]))
    monkeypatch.setitem(catalog.TABLE, "connect-4-head", wrong)
    with pytest.raises(DataError, match="444 rows of class 'loss', but the published file has 443"):
        load("connect-4-head", data_dir)


def test_the_command_line_says_that_there_are_no_groups(data_dir):
    from fairbound.cli.options.common import RowOptions
    from fairbound.cli.training.rows import rows_of_options

    with pytest.raises(OptionError, match="no sensitive attribute"):
        rows_of_options(RowOptions(data="mnist-test", data_dir=str(data_dir)))
