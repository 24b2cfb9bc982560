"""The options of the data source: their names, their values and their meaning.

Spark hands options over as text, and their names in lower case. A name nobody knows is an error that
says which there are; what Spark itself puts among them is left alone.

Invariant: what :meth:`ReadOptions.parse` and :meth:`WriteOptions.parse` return is well formed; whether
the table has such columns or snapshots, the table says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.limits import INT64_MAX
from lakehouse.io.location import Location
from lakehouse.io.open import understood_options
from lakehouse.options import Option
from lakehouse.spark.runtime.connection import Connection
from lakehouse.storage.rows import Missing, check_missing
from lakehouse.storage.scan import Freshness, is_fresh
from lakehouse.suggest import nearest, suggestion

__all__ = [
    "OPERATIONS",
    "IcebergTarget",
    "ReadOptions",
    "WriteOptions",
    "iceberg_target",
    "is_iceberg",
    "target_of",
]

OPERATIONS: Final = ("append", "upsert", "delete", "overwrite", "overwrite_partitions")
"""Operations that a write may ask for."""
_TARGET = ("warehouse", "table", "path", "storage_options", "locations", "moved", "catalogs")
_PREFIXES = ("storage.", "setting.")
_OF_SPARK = frozenset({"checkpointlocation", "queryname", "numpartitions", "provider", "owner", "paths"})
"""Names that Spark puts among the options of a source for itself."""
_OF_CATALOG = "option."
"""Prefix of options that a table of Spark's catalog was made with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read."""

    columns: tuple[str, ...] | None = None
    """Names of columns, in order; None = all. As ``a,b``, or a JSON list where names hold commas."""
    where: Expr | str | None = None
    """Condition on rows; as an option, SQL."""
    version: int | None = None
    """Id of the snapshot that is read."""
    timestamp: str | int | None = None
    """Moment whose snapshot is read, the last not after it: ISO text, or milliseconds since 1970."""
    tag: str | None = None
    """Tag of the snapshot that is read."""
    ref: str | None = None
    """Iceberg tables: branch or tag whose snapshot is read."""
    freshness: Freshness = "snapshot"
    """State that is read: ``wal`` includes the write-ahead log above the newest snapshot."""
    incremental_from: int | None = None
    """Id of the snapshot since which net changes are read, exclusive."""
    incremental_to: int | None = None
    """Id of the snapshot up to which they are read, inclusive; None = the newest."""
    relation: str | None = None
    """Relation that is read instead of rows, such as ``snapshots`` or ``files``."""
    split_bytes: int | None = None
    """Bytes of data files per task; None = as the size of the read and the cores suggest."""
    batch_rows: int | None = None
    """Maximum rows of a batch that goes to the JVM; None = as the width of the rows suggests."""
    pin_s: float | None = None
    """Seconds that the snapshot is kept from the planning on; None = only a read that takes long keeps it."""
    starting: str = "initial"
    """Streams: begin with all rows (``initial``), with what is ``latest``, with the ``earliest`` commit that
    is kept, or with what came after a snapshot or a moment."""
    changes: bool = False
    """Streams: net changes with their kind, instead of the rows that were added."""
    max_files: int | None = None
    """Streams: maximum files of a batch."""
    max_rows: int | None = None
    """Streams: maximum rows of a batch."""
    max_bytes: int | None = None
    """Streams: maximum bytes of files of a batch."""

    def __post_init__(self) -> None:
        named = [self.version, self.timestamp, self.tag, self.incremental_to, self.ref]
        if sum(value is not None for value in named) > 1:
            raise InvalidInputError("give one of version, timestamp, tag, ref and incremental_to")
        if self.incremental_to is not None and self.incremental_from is None:
            raise InvalidInputError("incremental_to goes with incremental_from: say since when")
        if self.freshness == "wal" and (named != [None] * 5 or self.incremental_from is not None):
            raise InvalidInputError(
                "freshness='wal' reads what is newest: it goes with no version, timestamp, tag or incremental"
            )
        if self.relation is not None and (self.columns is not None or self.where is not None):
            raise InvalidInputError("a relation is small: select and filter it in Spark")

    def refuse_given(self, names: Iterable[str], why: str) -> None:
        """Refuses options that have no meaning for what is read."""
        unset = {one.name: one.default for one in fields(self)}
        given = [name for name in names if getattr(self, name) != unset[name]]
        if given:
            raise InvalidInputError(f"{' and '.join(given)}: {why}", option=given[0])

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Reads options as Spark hands them over; ignores those that say which table."""
        return cls(**_parsed(options, _READ, "reading"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write."""

    operation: str | None = None
    """One of :data:`OPERATIONS`; None = as the mode of the write says. Also called ``mode``."""
    where: str | None = None
    """Condition of an overwrite, in SQL: only rows that match are replaced."""
    writer_id: str | None = None
    """Id of the writer: with ``writer_sequence``, the write is made once, however often it is tried."""
    writer_sequence: int | None = None
    missing: Missing | None = None
    """Treatment of columns that rows lack: ``error`` or ``null``; None = an error where older rows of their
    keys would lose values."""
    message: str | None = None
    """Message for people, which the snapshot keeps."""

    def __post_init__(self) -> None:
        if (self.writer_id is None) != (self.writer_sequence is None):
            raise InvalidInputError("writer_id and writer_sequence belong together: give both or neither")

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Reads options as Spark hands them over; ignores those that say which table."""
        return cls(**_parsed(options, _WRITE, "writing"))


def target_of(options: Mapping[str, str], default: Connection | None = None) -> tuple[Connection, str]:
    """Returns the warehouse and the table that the options name; the default fills in what they leave open.

    Options of the same warehouse are added to the default's, and win over them; but where
    ``storage_options`` are given, nothing of the default's is added.
    """
    given = {name.lower(): text for name, text in options.items()}
    url = given.get("warehouse", default.url if default is not None else None)
    if url is None:
        raise InvalidInputError(
            "which warehouse? call lakehouse.spark.register(spark, 's3://bucket/warehouse') first, or add "
            ".option('warehouse', 's3://bucket/warehouse')"
        )
    return _connection(url, given, default if default is not None and url == default.url else None), _table(
        given
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTarget:
    """An Iceberg table that options name."""

    connection: Connection
    """The table's URL with how it is reached, or the warehouse that its catalog is attached to."""
    name: str | None = None
    """``catalog.namespace.table``; None = the table is at the URL."""
    locations: tuple[str, ...] = ()
    """Further places where its files may be."""
    moved: bool = False
    """Whether the table was copied to where it is."""


def is_iceberg(table: str) -> bool:
    """Returns whether a name is that of an Iceberg table: a URL, or one of three parts or more."""
    return "://" in table or table.count(".") > 1


def iceberg_target(options: Mapping[str, str], default: Connection | None = None) -> IcebergTarget | None:
    """Returns the Iceberg table that the options name; None = they name one of our tables.

    Storage options that are not given are those of the default, if it is of the same kind of store.
    """
    given = {name.lower(): text for name, text in options.items()}
    table = given.get("table", given.get("path"))
    if table is None or not is_iceberg(table):
        if "moved" in given or "locations" in given:
            raise InvalidInputError("moved and locations are for Iceberg tables: name one by its URL")
        return None
    if "://" not in table:
        if "moved" in given or "locations" in given:
            raise InvalidInputError(f"{table} is where its catalog says: moved and locations go with a URL")
        return IcebergTarget(connection=target_of(options, default)[0], name=table)
    if default is not None and Location.parse(default.url).scheme != Location.parse(table).scheme:
        default = None
    return IcebergTarget(
        connection=_connection(table, given, default),
        locations=_names("locations", given["locations"]) if "locations" in given else (),
        moved=_declared("bool")("moved", given["moved"]) if "moved" in given else False,
    )


def _table(given: Mapping[str, str]) -> str:
    table = given.get("table", given.get("path"))
    if table is None:
        raise InvalidInputError("which table? .load('database.table'), or .option('table', 'database.table')")
    return table


def _connection(url: str, given: Mapping[str, str], default: Connection | None) -> Connection:
    """Returns a connection to a URL by what options say, and a default where they say nothing."""
    below: Mapping[str, Any] = {}
    catalogs = {} if default is None else default.catalogs
    if "catalogs" in given:
        catalogs = _json_object("catalogs", given["catalogs"])
    storage: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    if "storage_options" in given:
        below = _json_object("storage_options", given["storage_options"])
    elif default is not None:
        below, settings = default.storage_options, dict(default.settings)
    for name, text in given.items():
        if name.startswith("storage."):
            # Keys and names of accounts may consist of digits.
            storage[name.removeprefix("storage.")] = _value(text, numbers=False)
        elif name.startswith("setting."):
            settings[name.removeprefix("setting.")] = _value(text, numbers=True)
    merged = understood_options(Location.parse(url), below, storage)
    return Connection(url=url, storage_options=merged, settings=settings, catalogs=catalogs)


_Parser = Callable[[str, str], Any]


def _parsed(
    options: Mapping[str, str], known: Mapping[str, tuple[str, _Parser]], what: str
) -> dict[str, Any]:
    """Parses options into fields, by the names that are known."""
    fields: dict[str, Any] = {}
    for given, text in options.items():
        name = given.lower()
        if name.startswith(_OF_CATALOG):
            raise InvalidInputError(
                "Spark's catalog hands no options on to Python sources, so a table in it knows not which "
                "table it is: use CREATE TEMPORARY VIEW … USING lakehouse OPTIONS (…), or "
                "lakehouse.spark.create_view"
            )
        if name in _TARGET or name in _OF_SPARK or name.startswith(_PREFIXES):
            continue
        if name not in known:
            names = sorted({*known, *_TARGET, *(prefix + "<name>" for prefix in _PREFIXES)})
            raise InvalidInputError(
                f"there is no option {name!r} for {what}; {suggestion(name, names)}",
                option=name,
                nearest=nearest(name, names),
            )
        attribute, parse = known[name]
        value = parse(name, text)
        # An operation has two names, and case does not matter.
        if fields.setdefault(attribute, value) != value:
            raise InvalidInputError(f"option {name!r} and its other name say different things", option=name)
    return fields


def _text(_: str, text: str) -> str:
    return text


def _declared(kind: str, *, field: str = "", **about: Any) -> _Parser:
    """Returns the parser of an option of a type; further arguments are those of :class:`Option`."""

    def parse(name: str, text: str) -> Any:
        option = Option(name=name, field=field or name, type=kind, **about)
        value = option.read(text)
        wanted = option.wanted(value)
        if wanted:
            raise InvalidInputError(f"option {name!r} must be {wanted}, not {text!r}", option=name)
        return value

    return parse


def _snapshot_id(name: str, text: str) -> int:
    word = text.strip()
    # Iceberg draws ids from all of int64.
    if not re.fullmatch(r"-?[0-9]{1,19}", word) or not -INT64_MAX - 1 <= int(word) <= INT64_MAX:
        raise InvalidInputError(f"option {name!r} must be a whole number, not {text!r}", option=name)
    return int(word)


def _moment(_: str, text: str) -> str | int:
    # Four digits are a year of ISO text.
    return int(text) if re.fullmatch(r"\s*[0-9]{5,18}\s*", text) else text.strip()


def _starting(_: str, text: str) -> str:
    word = text.strip()
    return word.lower() if word.lower() in ("initial", "latest", "earliest") else word


def _names(name: str, text: str) -> tuple[str, ...]:
    items: Any = text.split(",")
    if text.lstrip().startswith("["):
        try:
            items = json.loads(text)
        except ValueError as error:
            raise InvalidInputError(f"option {name!r} is no JSON list: {error}", option=name) from error
    names = tuple(item.strip() if isinstance(item, str) else "" for item in items)
    if not all(names):
        raise InvalidInputError(f"option {name!r} is names such as 'id, amount', not {text!r}", option=name)
    return names


def _freshness(_: str, text: str) -> str:
    return "wal" if is_fresh(text.strip().lower()) else "snapshot"


def _missing(_: str, text: str) -> str:
    word = text.strip().lower()
    check_missing(word)
    return word


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        # Not shown: it may hold a key.
        raise InvalidInputError(f"option {name!r} is no JSON object", option=name)
    return value


def _value(text: str, *, numbers: bool) -> Any:
    """Parses truth values, lists, objects and, if asked for, numbers; returns all other text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text if value is None or isinstance(value, str) or (is_number and not numbers) else value


_READ: Final[Mapping[str, tuple[str, _Parser]]] = {
    "batch_rows": ("batch_rows", _declared("int", low=1)),
    "changes": ("changes", _declared("bool")),
    "columns": ("columns", _names),
    "freshness": ("freshness", _freshness),
    "incremental_from": ("incremental_from", _declared("int")),
    "incremental_to": ("incremental_to", _declared("int")),
    "max_bytes_per_trigger": ("max_bytes", _declared("int", field="bytes", low=1)),
    "max_files_per_trigger": ("max_files", _declared("int", low=1)),
    "max_rows_per_trigger": ("max_rows", _declared("int", low=1)),
    "pin": ("pin_s", _declared("float", low=0.001)),
    "ref": ("ref", _text),
    "relation": ("relation", _text),
    "split_bytes": ("split_bytes", _declared("int", field="bytes", low=1)),
    "starting": ("starting", _starting),
    "tag": ("tag", _text),
    "timestamp": ("timestamp", _moment),
    "version": ("version", _snapshot_id),
    "where": ("where", _text),
}
_OPERATION: Final = _declared("str", choices=OPERATIONS)
_WRITE: Final[Mapping[str, tuple[str, _Parser]]] = {
    "message": ("message", _text),
    "missing": ("missing", _missing),
    "mode": ("operation", _OPERATION),
    "operation": ("operation", _OPERATION),
    "where": ("where", _text),
    "writer_id": ("writer_id", _text),
    "writer_sequence": ("writer_sequence", _declared("int")),
}
