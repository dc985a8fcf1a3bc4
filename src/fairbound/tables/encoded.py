"""`Encoded`: a table turned into features once, for several models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import issparse

from fairbound.base.errors import DataError
from fairbound.rows.shards import ALONE, Shards
from fairbound.tables.encode_report import EncodeReport
from fairbound.tables.encoder import TableEncoder
from fairbound.tables.in_parts import encode_chunks
from fairbound.tables.reading.chunks import Chunks


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table made features by `encoder`, to be given to several models without reading it again.

    features: (n, d) array, or CSR where the encoder is sparse; report: what happened to the table on the way. decays:
    the weight decay that models of all its rows chose, by their labels and weights.
    """

    features: Any
    report: EncodeReport
    encoder: TableEncoder
    decays: dict[bytes, float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        encoder: TableEncoder,
        table: Any,
        shards: Shards = ALONE,
        labels: Any = None,
        by_column: bool = False,
    ) -> Encoded:
        """The features of `table`, float32 where they are dense; an encoder that is not fitted yet learns from it.

        table: what the encoder takes, or Chunks. shards: as in `encode_chunks`; tables are read in parts then. labels:
        (n,), for an encoder that learns which numbers are to bend. by_column: whether dense features are to lie column
        by column in memory, as all rows at once of a linear model are trained on sooner; those of Chunks never do.
        """
        if not shards.alone and not isinstance(table, Chunks):
            if issparse(table):
                raise DataError("a sparse table is encoded by one process; encode it before, or pass dense parts.")
            table = Chunks([table])
        if isinstance(table, Chunks):
            return cls(*encode_chunks(encoder, table, shards), encoder)
        if encoder.fitted:
            return cls(*encoder.encode(table, np.float32, by_column), encoder)
        return cls(*encoder.fit_encode(table, np.float32, labels, by_column), encoder)

    def __len__(self) -> int:
        return self.features.shape[0]
