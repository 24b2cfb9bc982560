"""The options of a table: names, values, meanings and bounds, in one place.

Options of single columns are called ``fields.<column>.<option>``; :mod:`lakehouse.format.schema.merge_rules`
defines what they and the other options about merging mean for a table's columns.

Invariant: a value that :meth:`TableOptions.parse` returns is within its bounds; an unknown option
is an error. Options that determine the layout or the merging of rows (``fixed``) never change once
a table exists.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.options import Option, declare, declared
from lakehouse.suggest import nearest, suggestion

__all__ = ["AGGREGATES", "ENGINES", "ColumnOptions", "OptionInfo", "TableOptions", "option_texts"]

_MIB = 1024**2
_CODECS = ("none", "snappy", "lz4", "zstd")
ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
"""Merge engines."""
AGGREGATES = (
    "last_non_null_value",
    "last_value",
    "first_non_null_value",
    "first_value",
    "sum",
    "product",
    "count",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "listagg",
    "collect",
    "merge_map",
)
"""Functions that merge the values of a column in rows of one key."""
_OF_COLUMN = "fields."
_ANY_COLUMN = "<column>"
_POINT_READ_ROWS = 16_384
"""Rows of a row group in tables with point reads: small, since pyarrow reads a whole group for one row."""


def _option(name: str, default: Any, doc: str, *, fixed: bool = False, **about: Any) -> Any:
    return declare(default, doc, name=name, fixed=fixed, **about)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionInfo(Option):
    """Description of an option.

    Its name is that in a table's options, with ``<column>`` for any column. Its field is an
    attribute of :class:`TableOptions` or of :class:`ColumnOptions`.
    """

    fixed: bool
    """True if it is set at the creation of the table and never changed."""

    @property
    def is_of_column(self) -> bool:
        """True if each column may have it."""
        return self.name.startswith(_OF_COLUMN)

    def parse(self, text: str) -> Any:
        """Parses a value from text; InvalidInputError when it is not accepted."""
        value = self.read(text)
        wanted = self.wanted(value)
        if wanted:
            raise InvalidInputError(
                f"table option {self.name!r} must be {wanted}, not {short(text)}",
                option=self.name,
                value=text,
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """Options ``fields.<column>.…`` of one column, parsed and checked."""

    aggregate: str = _option(
        "aggregate",
        "last_non_null_value",
        "Function that merges the column's values in rows of one key (engines partial-update and"
        " aggregation).",
        choices=AGGREGATES,
        fixed=True,
    )
    delimiter: str = _option(
        "delimiter", ",", "Text that listagg puts between two texts, taken literally.", fixed=True
    )
    distinct: bool = _option(
        "distinct", False, "Whether collect keeps each element once, where it came first.", fixed=True
    )
    sequence_group: str = _option(
        "sequence_group",
        "",
        "Columns, comma-separated, that a row changes only if its value in this column is not null and"
        " not below the one before; several columns that decide one after the other are named with commas"
        " between them (engine partial-update).",
        fixed=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options of a table, parsed and checked."""

    file_format: str = _option(
        "file.format",
        "parquet",
        "Format of files that compaction writes: parquet for scans, sst for point reads.",
        choices=("parquet", "sst"),
    )
    file_format_level0: str = _option(
        "file.format.level0",
        "parquet",
        "Format of files as commits and flushes write them.",
        choices=("parquet", "sst"),
    )
    file_target_bytes: int = _option(
        "file.target_bytes",
        128 * _MIB,
        "Size at which a writer begins another file.",
        low=1024,
        high=4 * 1024**3,
    )
    parquet_compression: str = _option(
        "parquet.compression", "zstd", "Codec of Parquet pages.", choices=_CODECS
    )
    parquet_compression_level: int = _option(
        "parquet.compression_level", 1, "Level of the codec, where it has levels (zstd).", low=1, high=22
    )
    parquet_row_group_rows: int = _option(
        "parquet.row_group_rows",
        131_072,
        "Rows of a Parquet row group, fewer where they would take more than 64 MiB in memory; "
        f"{_POINT_READ_ROWS} unless it is set, where point_reads is true.",
        low=128,
        high=16 * 1024**2,
    )
    point_reads: bool = _option(
        "point_reads", False, "Whether single rows are looked up often: files are laid out in small pieces."
    )
    sst_block_bytes: int = _option(
        "sst.block_bytes",
        16_384,
        "Size of an SSTable's data block before compression.",
        low=1024,
        high=16 * _MIB,
    )
    sst_codec: str = _option("sst.codec", "lz4", "Codec of SSTable blocks.", choices=_CODECS)
    sst_bloom_bits_per_key: int = _option(
        "sst.bloom_bits_per_key",
        10,
        "Bits of an SSTable's bloom filter per key; 0 = no filter.",
        low=0,
        high=64,
    )
    write_buffer_bytes: int = _option(
        "write.buffer_bytes",
        256 * _MIB,
        "Rows one write holds in memory before it sorts them and writes files.",
        low=_MIB,
    )
    write_memtable_bytes: int = _option(
        "write.memtable_bytes",
        64 * _MIB,
        "Rows of a streaming writer that are flushed together, from four fifths of it on.",
        low=1024,
    )
    write_memtables: int = _option(
        "write.memtables",
        3,
        "Memtables of a streaming writer that wait to be flushed before puts wait as well.",
        low=1,
        high=64,
    )
    wal_interval_ms: int = _option(
        "wal.interval_ms",
        0,
        "Milliseconds a streaming writer collects puts for a segment of its log: more save requests and"
        " delay what is acknowledged; at 0, what comes while a segment is written is the next one.",
        low=0,
        high=60_000,
    )
    wal_segment_bytes: int = _option(
        "wal.segment_bytes",
        8 * _MIB,
        "Rows at which a segment of the log takes in no further put.",
        low=1024,
        high=512 * _MIB,
    )
    wal_segments_max: int = _option(
        "wal.segments_max",
        1_024,
        "Segments that are flushed together at most, however small: readers of the newest rows read each.",
        low=1,
        high=1_000_000,
    )
    wal_compression: str = _option(
        "wal.compression", "lz4", "Codec of rows in the log.", choices=("none", "lz4", "zstd")
    )
    snapshot_interval_s: float = _option(
        "snapshot_interval_s",
        60.0,
        "Seconds after which rows of a streaming writer are flushed, however few: how far readers of"
        " snapshots are behind at most.",
        low=0.01,
        high=86_400,
    )
    read_max_staleness_s: float = _option(
        "read.max_staleness_s",
        0.0,
        "Seconds for which reads take the newest snapshot seen for the newest, without a request to look for"
        " another; 0 = each read looks. max_staleness of a call or a handle goes before it.",
        low=0,
        high=86_400,
    )
    commit_max_retries: int = _option(
        "commit.max_retries", 30, "Times a write that read the table is done again after a conflict.", low=0
    )
    commit_deadline_s: float = _option(
        "commit.deadline_s",
        300.0,
        "Seconds from reading the newest snapshot to the end of the commit that follows it.",
        low=1,
        high=900,
    )
    delete_grace_s: float = _option(
        "delete_grace_s",
        3600.0,
        "Seconds from the commit that makes an object unreachable to its deletion.",
        low=1800,
    )
    orphan_min_age_s: float = _option(
        "orphan.min_age_s",
        86_400.0,
        "Seconds from an upload to its removal as an orphan, if no commit took it.",
        low=1800,
    )
    merge_engine: str = _option(
        "merge_engine",
        "deduplicate",
        "Engine that merges several rows of one key: the newest stays; values that are not null replace"
        " older ones; values are aggregated; the first stays.",
        choices=ENGINES,
        fixed=True,
    )
    sequence_field: str = _option(
        "sequence.field",
        "",
        "Columns, comma-separated, by which rows of one key are older and newer, before the order of"
        " commits; empty = the order of commits alone.",
        fixed=True,
    )
    ignore_delete: bool = _option(
        "ignore_delete", False, "Whether deletes of keys are dropped when they are written.", fixed=True
    )
    record_ttl_s: float = _option(
        "record.ttl_s",
        0.0,
        "Seconds after record.time_field from which a row is hidden from reads of snapshots made then or"
        " later; 0 = never.",
        low=0,
    )
    record_time_field: str = _option(
        "record.time_field",
        "",
        "Column with the time from which record.ttl_s counts: a timestamp, a date, or a bigint of"
        " milliseconds since 1970; rows with null stay.",
    )
    compaction_auto: str = _option(
        "compaction.auto",
        "writer",
        "Processes that compact by themselves when their commits made it worth while: those that have a "
        "streaming writer open (writer), all (on), none, not even a streaming writer that meets "
        "compaction.stop_trigger (off).",
        choices=("off", "writer", "on"),
    )
    compaction_trigger: int = _option(
        "compaction.trigger", 5, "Runs of a merge unit from which compaction looks at it.", low=2, high=1000
    )
    compaction_stop_trigger: int = _option(
        "compaction.stop_trigger",
        8,
        "Runs of a merge unit at which a streaming writer waits for compaction, unless compaction.auto"
        " is off.",
        low=3,
        high=10_000,
    )
    compaction_max_size_amplification_percent: int = _option(
        "compaction.max_size_amplification_percent",
        200,
        "All runs are merged when the newer ones together have more than so much of the oldest one's size.",
        low=1,
    )
    compaction_size_ratio_percent: int = _option(
        "compaction.size_ratio_percent",
        1,
        "The next older run is merged too when it is larger by no more than that.",
        low=0,
    )
    index_min_rows: int = _option(
        "index.min_rows",
        100_000,
        "Rows from which a data file gets the table's indexes; smaller ones are read as quickly without.",
        low=1,
    )
    iceberg_publish: str = _option(
        "iceberg.publish",
        "off",
        "Whether the process that commits a compaction publishes the table for Iceberg's readers by itself"
        " (auto) or only the call does (off).",
        choices=("off", "auto"),
    )
    iceberg_format_version: int = _option(
        "iceberg.format_version",
        2,
        "Version of Iceberg's format in which the table is published; 3 has deletion vectors and defaults.",
        low=2,
        high=3,
    )
    iceberg_retain: int = _option(
        "iceberg.retain",
        10,
        "Published snapshots that Iceberg's readers can go back to; each keeps its files.",
        low=1,
        high=10_000,
    )
    stats_text_bytes: int = _option(
        "stats.text_bytes",
        16,
        "Bytes of text and binary bounds that a snapshot keeps of each file's columns.",
        low=1,
        high=1024,
    )
    columns: Mapping[str, ColumnOptions] = field(default_factory=dict, hash=False)
    """Options by column, or columns as the option names them, for those that have any."""

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> Self:
        """Parses the options in a table's schema, or as a user gives them: values need not be text yet.

        Raises:
            InvalidInputError: an unknown option (the nearest is named), or a value that is not
                accepted.
        """
        values: dict[str, Any] = {}
        columns: dict[str, dict[str, Any]] = {}
        for name, text in option_texts(options).items():
            info = cls.info(name)
            of_column = columns.setdefault(_split(name)[0], {}) if name.startswith(_OF_COLUMN) else values
            of_column[info.field] = info.parse(text)
        if values.get("point_reads"):
            values.setdefault("parquet_row_group_rows", _POINT_READ_ROWS)
        return cls(**values, columns={name: ColumnOptions(**given) for name, given in columns.items()})

    @classmethod
    def describe(cls) -> Iterator[OptionInfo]:
        """Yields the description of every option, in the order of declaration."""
        yield from _known().values()

    @classmethod
    def info(cls, name: str) -> OptionInfo:
        """Returns the description of an option; InvalidInputError when there is no such option."""
        known = _known()
        if name in known and _ANY_COLUMN not in name:
            return known[name]
        column, option = _split(name) if name.startswith(_OF_COLUMN) else ("", "")
        if not column:
            raise InvalidInputError(
                f"there is no table option {short(name)}; {suggestion(name, known)}",
                kind="unknown-setting",
                option=name,
                nearest=nearest(name, known),
            )
        of_any = f"{_OF_COLUMN}{_ANY_COLUMN}.{option}"
        if of_any not in known:
            names = [option_name.rpartition(".")[2] for option_name in known if _ANY_COLUMN in option_name]
            raise InvalidInputError(
                f"there is no option {short(option)} of columns, as in {short(name)}; "
                f"{suggestion(option, names)}",
                kind="unknown-setting",
                option=name,
                nearest=nearest(option, names),
            )
        return dataclasses.replace(known[of_any], name=name)


@functools.cache
def _known() -> dict[str, OptionInfo]:
    """Returns the descriptions of all options by name."""
    of_columns = (
        dataclasses.replace(info, name=f"{_OF_COLUMN}{_ANY_COLUMN}.{info.name}")
        for info in _infos(ColumnOptions)
    )
    return {info.name: info for info in (*_infos(TableOptions), *of_columns)}


def _infos(options: type[TableOptions] | type[ColumnOptions]) -> list[OptionInfo]:
    return [OptionInfo(**about) for about in declared(options)]


def _split(name: str) -> tuple[str, str]:
    """Splits ``fields.<column>.<option>`` into column, or columns, and option."""
    column, _, option = name.removeprefix(_OF_COLUMN).rpartition(".")
    return column, option


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Returns options as a schema stores them, as text: ``True`` is ``"true"``, ``3`` is ``"3"``.

    Raises:
        InvalidInputError: a name is no text, or a value neither text nor a number nor true or false.
    """
    if not isinstance(options, Mapping):
        raise InvalidInputError(f"table options are given as {{name: value}}, not as {short(options)}")
    return {_option_name(name): _option_text(name, value) for name, value in options.items()}


def _option_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidInputError(f"a table option is named by text, not by {short(name)}")
    return name


def _option_text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Real):
        return str(value)
    raise InvalidInputError(
        f"table option {name!r} must be text, a number, or true or false, not {short(value)}", option=name
    )
