"""How many bytes of process memory a cached value keeps alive.

A weight errs on the heavy side: what is shared between values is counted with each of
them, so that the process never grows much beyond the sum of the weights. Weighing walks
everything a value refers to; a cache of many small values of one class should give its
:class:`~lakehouse.cache.spec.CacheSpec` a cheaper ``weigh`` of its own.
"""

from __future__ import annotations

import enum
import functools
import gc
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

__all__ = [
    "ENTRY_BYTES",
    "LABEL_BYTES",
    "LABEL_USE_BYTES",
    "TIMED_ENTRY_BYTES",
    "TIME_BYTES",
    "allocated",
    "weigh",
]

ENTRY_BYTES = 216
"""An entry besides key and value: the object 96, its weight 32, its place in the dictionary
30 to 60 and in the queue 9, its counters in the access table 8 to 16."""
TIMED_ENTRY_BYTES = ENTRY_BYTES + 40
"""The same with places for four times and a count."""
TIME_BYTES = 32
"""A time that is not shared with another place."""
LABEL_BYTES = 370
"""A tag or prefix with entries: a tuple, its place in a dictionary and a small inner one."""
LABEL_USE_BYTES = 60
"""One entry under one tag or prefix: a place in the inner dictionary."""

# Arrow objects live in C++ where sys.getsizeof does not look. Measured on pyarrow 26 as
# growth of the resident set over 10,000 objects: each array of a column, nested ones
# included, costs 600 to 950 bytes besides its buffers, each field of a schema 230 to 270.
_ARROW_ARRAY_BYTES = 900
_ARROW_FIELD_BYTES = 260

_POOLED_MAX = 512
_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, enum.Enum)
_FLAT = frozenset({int, float, complex, str, bytes, bytearray})
_NOTHING = frozenset({type(None), bool, type(Ellipsis), type(NotImplemented)})


def allocated(size: int) -> int:
    """Bytes that a process sets aside for an object or buffer of that size.

    CPython's pools round small ones up to 16 bytes. Larger ones come from malloc, where
    some room between them stays unused: 4 % was measured with values of 4 to 64 KiB and
    20 % with 0.2 to 2 MB, so an eighth is added.
    """
    return (size + 15) & ~15 if size <= _POOLED_MAX else size + (size >> 3)


def weigh(value: object) -> int:
    """Bytes that ``value`` and everything it refers to take, each object counted once.

    Buffers count with their whole allocation: a slice of an array, table or memoryview
    keeps all of it. Classes, functions, modules and enum members count nothing.
    """
    kind = type(value)
    if kind in _FLAT:
        return allocated(sys.getsizeof(value))
    if isinstance(value, tuple) and all(type(part) in _FLAT for part in value):
        # Most keys: no walk needed.
        return sum([allocated(sys.getsizeof(part)) for part in value], allocated(sys.getsizeof(value)))
    total = 0
    seen: set[int] = set()
    pending: list[Any] = [value]
    while pending:
        one = pending.pop()
        number = id(one)
        of: Any = type(one)
        if of in _NOTHING or number in seen:
            continue
        seen.add(number)
        if of in _FLAT:
            total += allocated(sys.getsizeof(one))
            continue
        way = _way(of)
        if way is None:
            continue
        size, parts = way(one)
        total += size
        pending.extend(parts)
    return total


_Way: TypeAlias = Callable[[Any], tuple[int, Sequence[Any]]]
"""Tells bytes of one object itself, and the objects it refers to."""


@functools.lru_cache(maxsize=1024)
def _way(kind: type[Any]) -> _Way | None:
    """How objects of a class are weighed; None = they count nothing. Looked up, as it is asked very often."""
    if issubclass(kind, _SHARED):
        return None
    if kind.__module__ == "pyarrow.lib":
        return _arrow
    if issubclass(kind, memoryview):
        return _view
    if kind.__module__ == "numpy" and hasattr(kind, "nbytes"):
        return _array
    if issubclass(kind, dict):
        return _mapping
    return _open if kind.__dictoffset__ else _plain


def _view(value: memoryview) -> tuple[int, Sequence[Any]]:
    return allocated(sys.getsizeof(value)), [value.obj]


def _array(value: Any) -> tuple[int, Sequence[Any]]:
    # An array that owns its data reports it in its size; a view keeps its base alive.
    parts = [value.base, *(value.ravel().tolist() if value.dtype.hasobject else ())]
    return allocated(sys.getsizeof(value)), parts


def _mapping(value: dict[Any, Any]) -> tuple[int, Sequence[Any]]:
    # Its referents leave text keys out.
    return allocated(sys.getsizeof(value)), [*value.keys(), *value.values()]


def _plain(value: object) -> tuple[int, Sequence[Any]]:
    return allocated(sys.getsizeof(value)), gc.get_referents(value)


def _open(value: object) -> tuple[int, Sequence[Any]]:
    # CPython keeps attribute values in an array that getsizeof does not see; asking for __dict__ would build
    # the dictionary and keep it.
    size, parts = _plain(value)
    return size + 24 + 8 * len(parts), parts


def _arrow(value: Any) -> tuple[int, list[Any]]:
    """Arrow values: their buffers whole, plus the C++ objects that describe them."""
    base = 100
    if hasattr(value, "get_total_buffer_size"):
        base += value.get_total_buffer_size()
        if hasattr(value, "schema"):
            arrays = sum(_nodes(field.type) for field in value.schema)
            chunks = (
                max((column.num_chunks for column in value.columns), default=1)
                if hasattr(value, "to_batches")
                else 1
            )
        else:
            arrays = _nodes(value.type)
            chunks = getattr(value, "num_chunks", 1)
        return base + _ARROW_ARRAY_BYTES * arrays * max(chunks, 1), []
    if hasattr(value, "field") and hasattr(value, "names"):
        return base + _ARROW_FIELD_BYTES * sum(_nodes(field.type) for field in value), []
    if hasattr(value, "parent") and hasattr(value, "size"):
        return (base + 200, [value.parent]) if value.parent else (base + 200 + allocated(value.size), [])
    return base + _ARROW_FIELD_BYTES, []


def _nodes(kind: Any) -> int:
    """An Arrow type and the types nested in it."""
    return 1 + sum(_nodes(kind.field(i).type) for i in range(kind.num_fields))
