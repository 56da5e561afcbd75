"""Parquet: the node table in columns, for pandas, DuckDB, Spark …; needs the extra ``parquet`` (pyarrow)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chakra_core.errors import ChakraError
from chakra_core.writers.base import Rank, Writer
from chakra_core.writers.files import replacing
from chakra_core.writers.table import node_table

__all__ = ["WRITER"]


def _write(ranks: Sequence[Rank], path: Path, compress: bool) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ChakraError('Parquet needs the package pyarrow: pip install "chakra-dashboard[parquet]"') from error
    frame = node_table(ranks)
    for name in ("name", "lane", "shapes", "comm_group"):
        frame[name] = [str(value).encode("utf-8", "replace").decode() for value in frame[name]]
    with replacing(path) as file:
        pq.write_table(
            pa.Table.from_pandas(frame, preserve_index=False), file, compression="gzip" if compress else "zstd"
        )


WRITER = Writer("parquet", "Parquet table of all nodes (needs pyarrow)", ".parquet", _write, per_rank=False)
