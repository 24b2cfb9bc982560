"""Choice of encodings for the columns of a Parquet run: delta, dictionary, plain, or not even compressed.

A sample of the values decides.

Only encodings that every current reader knows are chosen: ``DELTA_BINARY_PACKED`` and dictionaries.
Byte-stream-split would make doubles a little smaller and quicker, but Spark before 4.3 cannot read it.

Invariant: the choice changes bytes and time, never a value; it depends on nothing but the rows and
the options, so the same rows give the same file.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.kernels.arrays import I64

__all__ = ["ColumnEncodings", "Encoding", "choose_encodings"]

_DELTA = "DELTA_BINARY_PACKED"
_BLOCKS = 8
_BLOCK_ROWS = 1024
"""Rows of a stretch of the sample, which has ``_BLOCKS`` of them: deltas are of neighbouring rows."""
_VALUES_MIN = 256
"""Minimum sample for a decision; with fewer values no dictionary, and deltas where they are possible."""
_REPEATS_MIN = 4
"""Mean number of times that a value must occur in a row group for a dictionary to pay."""
_CLUSTERED_MIN = 1.2
"""Ratio of distinct values to those of even draws from which values count as clustered by neighbourhood."""
_DELTA_SHARE_MAX = 7 / 8
"""Maximum width of deltas as a share of the values': wider ones save nothing and take three times as long."""
_DICTIONARY_GAIN = 0.8
"""Deltas decode faster, so a dictionary has to be smaller than them by this factor."""
_DELTA_RUN = 128
"""Number of values whose deltas are packed with one width."""
_SHRUNK_MAX = 0.9
"""Maximum ratio of compressed numbers; others stay uncompressed: written twice, read three times as fast."""
_NO_DELTA = 1 << 10
"""Stands for the bits of a delta where deltas are impossible: more than anything."""
_INT64_DIGITS = 18
"""Maximum digits of decimals that are stored as integers."""


class Encoding(enum.Enum):
    """Encoding of the values of a leaf column."""

    PLAIN = enum.auto()
    """Plain values, compressed."""
    RAW = enum.auto()
    """Plain values, not compressed: it would save next to nothing."""
    DICTIONARY = enum.auto()
    DELTA = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEncodings:
    """The choice for each leaf column, by its path in the Parquet schema."""

    choices: Mapping[str, Encoding]

    def arguments(self, codec: str, level: int | None) -> dict[str, object]:
        """Returns the arguments for ``pyarrow.parquet``.

        Args:
            codec: codec of all columns worth compressing.
            level: level of the codec; None where it has none.
        """
        packed = [path for path, choice in self.choices.items() if choice is not Encoding.RAW]
        return {
            "use_dictionary": self._of(Encoding.DICTIONARY),
            "column_encoding": dict.fromkeys(self._of(Encoding.DELTA), _DELTA),
            "compression": dict.fromkeys(packed, codec),
            "compression_level": None if level is None else dict.fromkeys(packed, level),
        }

    def _of(self, wanted: Encoding) -> list[str]:
        return [path for path, choice in self.choices.items() if choice is wanted]


def choose_encodings(rows: pa.Table, *, group_rows: int, delta: bool) -> ColumnEncodings:
    """Chooses the encodings for rows that are written in row groups of ``group_rows``.

    Args:
        rows: all rows of the file.
        group_rows: maximum rows of a row group.
        delta: True if deltas may be chosen.
    """
    group_rows = min(group_rows, max(rows.num_rows, 1))
    choices: dict[str, Encoding] = {}
    for field, column in zip(rows.schema, _sample(rows).columns, strict=True):
        for path, values in _leaves(field.name, column.combine_chunks()):
            # A column called "a.b" and a field b of a struct a share a path. One encoding need not suit
            # both, and pyarrow knows columns by their paths alone.
            shared = path in choices
            choices[path] = Encoding.PLAIN if shared else _choice(values, group_rows, delta=delta)
    return ColumnEncodings(choices=choices)


def _sample(rows: pa.Table) -> pa.Table:
    """Returns some stretches of neighbouring rows, spread over all."""
    if rows.num_rows <= _BLOCKS * _BLOCK_ROWS:
        return rows
    step = (rows.num_rows - _BLOCK_ROWS) // (_BLOCKS - 1)
    return pa.concat_tables([rows.slice(block * step, _BLOCK_ROWS) for block in range(_BLOCKS)])


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yields the leaf columns of a column, with the paths Parquet gives them."""
    kind = values.type
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _leaves(f"{path}.{kind.field(index).name}", values.field(index))
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _choice(values: pa.Array, group_rows: int, *, delta: bool) -> Encoding:
    width = _integer_bits(values.type)
    if width == 1:  # Parquet packs booleans as bits already
        return Encoding.PLAIN
    deltas = delta and width > 0
    values = values.drop_null()
    if len(values) < _VALUES_MIN:
        return Encoding.DELTA if deltas else Encoding.PLAIN
    delta_bits = _delta_bits(values) if deltas else _NO_DELTA
    distinct = _distinct_of_group(values, group_rows)
    if group_rows >= _REPEATS_MIN * distinct:
        dictionary_bits = math.log2(distinct) + distinct * (width or 64) / group_rows
        if dictionary_bits < _DICTIONARY_GAIN * delta_bits:
            return Encoding.DICTIONARY
    if delta_bits <= _DELTA_SHARE_MAX * width:
        return Encoding.DELTA
    return Encoding.PLAIN if _shrinks(values) else Encoding.RAW


def _shrinks(values: pa.Array) -> bool:
    """Returns whether compression is worth its time; text always is."""
    if not pa.types.is_primitive(values.type):
        return True
    data = np.asarray(values).tobytes()
    return len(pa.compress(data, "zstd")) < _SHRUNK_MAX * len(data)


def _integer_bits(kind: pa.DataType) -> int:
    """Returns the bits of the integers that Parquet stores for the type: 1 for booleans, 0 = none."""
    if pa.types.is_decimal(kind):
        return 0 if kind.precision > _INT64_DIGITS else 32 if kind.precision <= _INT64_DIGITS // 2 else 64
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return 32 if kind.bit_width <= 32 else 64
    return 0


def _integers(values: pa.Array) -> I64:
    """Returns the integers that Parquet stores for values of an integer kind without nulls."""
    kind = values.type
    if pa.types.is_decimal(kind):
        words = np.frombuffer(values.buffers()[1], np.int64)
        return words[2 * values.offset : 2 * (values.offset + len(values)) : 2]
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return np.asarray(values).astype(np.int64, copy=False)


def _delta_bits(values: pa.Array) -> float:
    """Returns the bits of a packed delta: the median over the values that are packed together.

    Differences wrap as those in the file do; the median ignores the gaps between stretches of
    the sample.
    """
    deltas = np.diff(_integers(values))
    runs = deltas[: len(deltas) // _DELTA_RUN * _DELTA_RUN].reshape(-1, _DELTA_RUN)
    spread = (runs.max(axis=1) - runs.min(axis=1)).view(np.uint64)
    return float(np.median(np.log2(spread.astype(np.float64) + 1)))


def _distinct_of_group(values: pa.Array, group_rows: int) -> float:
    """Estimates the number of distinct values of a row group from a sample.

    Values clustered by neighbourhood, as in sorted columns, are assumed to grow in number with the
    rows; others to be drawn evenly from some set.
    """
    drawn, distinct = len(values), int(pc.count_distinct(values).as_py())
    if distinct == drawn:
        return float(group_rows)
    stretch = drawn // _BLOCKS
    near = sum(pc.count_distinct(values.slice(block * stretch, stretch)).as_py() for block in range(_BLOCKS))
    evenly = _distinct_of_draws(_values_of_set(near / _BLOCKS, stretch), drawn)
    if distinct > _CLUSTERED_MIN * evenly:
        return max(1.0, distinct * group_rows / drawn)
    return max(1.0, _distinct_of_draws(_values_of_set(distinct, drawn), group_rows))


def _distinct_of_draws(values: float, drawn: int) -> float:
    """Returns the expected distinct values of even draws: ``n`` from ``d`` give ``d * (1 - exp(-n / d))``."""
    return values * -math.expm1(-drawn / values)


def _values_of_set(distinct: float, drawn: int) -> float:
    """Returns the size of the set from which so many draws give so many distinct values, by bisection."""
    low, high = distinct, float(drawn) * drawn
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _distinct_of_draws(middle, drawn) < distinct else (low, middle)
    return high
