"""Loops that numpy cannot express: compiled when numba is installed, interpreted when it is not.

Invariant: both ways run the same source, so they give the same bytes. A loop is written
once, over sequences that are indexed: lists, ``bytes`` and ``bytearray`` when interpreted,
numpy arrays when compiled. Operations that differ (growing a buffer, wrapping arithmetic) are
small functions with a stand-in for the compiled run.

numba is optional (the ``fast`` extra). It is imported on first use only, and what it
compiles is cached on disk, beside the module or in the user's cache directory.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import types
from collections.abc import Callable
from typing import Any

__all__ = ["Loops", "numba_available"]

_START_UP_PAYS_FROM = 30_000
"""Number of interpreted items that take as long as importing numba and loading compiled code: a second (and
more seconds of compiling the first time on a machine)."""
_WARM_PAYS_FROM = 64
"""Number of items from which loaded code is quicker: preparing arrays costs some 20 microseconds."""


def numba_available() -> bool:
    """Returns whether numba can be used; imports it, which takes half a second."""
    return _numba() is not None


@functools.cache
def _numba() -> Any:
    """Returns numba, or None where it is missing or does not work with the installed numpy."""
    try:
        import numba
    except ImportError:
        return None
    return numba


class Loops:
    """Functions that call each other, compiled as one unit.

    Args:
        functions: callees before callers; each refers to the others by its plain name.
        pays_from: number of items that, interpreted, take as long as loading compiled code.
        adds_up: True counts small pieces of work together, so that code is loaded once the work so far would
            have paid for it. Not for loops that somebody waits for: one call would take a second longer.
        stand_ins: functions to compile or arrays that replace a name in the compiled run.
    """

    __slots__ = ("_adds_up", "_compiled", "_done", "_functions", "_lock", "_pays_from", "_stand_ins")

    def __init__(
        self,
        *functions: Callable[..., Any],
        pays_from: int = _START_UP_PAYS_FROM,
        adds_up: bool = False,
        **stand_ins: Any,
    ) -> None:
        self._functions = functions
        self._stand_ins = stand_ins
        self._pays_from = pays_from
        self._adds_up = adds_up
        self._done = 0
        self._compiled: types.SimpleNamespace | None = None
        self._lock = threading.Lock()

    @property
    def is_loaded(self) -> bool:
        """True if compiled code is loaded, so that using it costs next to nothing."""
        return self._compiled is not None

    def compiled_for(self, work: int, *, wanted: bool | None = None) -> types.SimpleNamespace | None:
        """Returns the compiled functions as attributes, or None when interpreting is better or all there is.

        Args:
            work: approximate number of items that the loop will handle.
            wanted: True compiles whatever the work, False never does; None decides by the work.
        """
        if wanted is None:
            if self._compiled is None:
                self._done = self._done + work if self._adds_up else work
                wanted = self._done >= self._pays_from
            else:
                wanted = work >= _WARM_PAYS_FROM
        if not wanted or not numba_available():
            return None
        with self._lock:
            if self._compiled is None:
                self._compiled = self._compile()
        return self._compiled

    def _compile(self) -> types.SimpleNamespace:
        numba = _numba()
        version = self._version()

        def compiled(function: Callable[..., Any], namespace: dict[str, Any]) -> Callable[..., Any]:
            # A copy with globals of its own, so that it calls compiled functions while the
            # original still calls interpreted ones.
            copy = types.FunctionType(function.__code__, namespace, function.__name__)
            # numba's cache notices changes of a function's own file only; the name covers all files.
            copy.__qualname__ = f"{function.__name__}_{version}"
            try:
                return numba.njit(cache=True, nogil=True)(copy)  # type: ignore[no-any-return]
            except RuntimeError:  # no directory for the disk cache can be written
                return numba.njit(nogil=True)(copy)  # type: ignore[no-any-return]

        namespace: dict[str, Any] = {}
        for function in self._functions:
            namespace.update(function.__globals__)
        for name, stand_in in self._stand_ins.items():
            is_function = isinstance(stand_in, types.FunctionType)
            namespace[name] = compiled(stand_in, stand_in.__globals__) if is_function else stand_in
        for function in self._functions:
            namespace[function.__name__] = compiled(function, namespace)
        return types.SimpleNamespace(**{f.__name__: namespace[f.__name__] for f in self._functions})

    def _version(self) -> str:
        """Returns a digest that changes with every function of the unit and every constant they use."""
        digest = hashlib.sha256()
        functions = list(self._functions)
        for name, stand_in in self._stand_ins.items():
            if isinstance(stand_in, types.FunctionType):
                functions.append(stand_in)
            else:
                digest.update(name.encode() + bytes(stand_in))
        for function in functions:
            code = function.__code__
            constants = {
                name: value
                for name in code.co_names
                if isinstance(value := function.__globals__.get(name), int | bytes)
            }
            digest.update(code.co_code + repr((code.co_consts, code.co_names, constants)).encode())
        return digest.hexdigest()[:12]
