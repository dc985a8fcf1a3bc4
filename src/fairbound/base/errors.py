"""The library's own errors. Each says what happened, where, and the next move."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

BINARY = "(Only binary classification is supported. The type of the target is multiclass.)"
"""What scikit-learn asks of an estimator for two classes to say of others."""


class FairboundError(Exception):
    """Base of the errors raised by fairbound; wrong arguments raise ValueError subclasses of it."""


class OptionError(FairboundError, ValueError):
    """An option has a value outside its range, or a name that is not known."""


class DataError(FairboundError, ValueError):
    """The data cannot be used as they are."""


class NoRowsError(DataError):
    """A table has a header and no rows, as the file of a day on which nothing came. columns: their names."""

    def __init__(self, message: str, columns: Iterable[str]):
        super().__init__(message)
        self.columns = [str(name) for name in columns]

    def __reduce__(self) -> tuple[type[NoRowsError], tuple[str, list[str]]]:
        return type(self), (str(self), self.columns)


class EmptyGroupError(DataError):
    """A group has no row for which a stated quantity is defined."""


class NonFiniteError(FairboundError, ArithmeticError):
    """A loss, constraint or gradient was NaN or infinite; the message names batch, constraint and group."""


class CheckpointError(FairboundError):
    """A checkpoint cannot be read, or belongs to another problem or method."""


class CertificateError(FairboundError):
    """No model could be certified to meet its bounds, and such a model was refused."""


class CertificateWarning(UserWarning):
    """A model is returned that could not be certified to meet its bounds."""


class DataWarning(UserWarning):
    """Columns or groups were left out, a group is too small for what is stated of it,
    or a column is not read as it may be meant."""


@contextmanager
def silenced(*kinds: type[Warning]) -> Iterator[None]:
    """Warnings of these kinds are not shown within, where what is made there says the same by itself."""
    with warnings.catch_warnings():
        for kind in kinds:
            warnings.simplefilter("ignore", kind)
        yield
