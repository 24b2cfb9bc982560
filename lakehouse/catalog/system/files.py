"""Builtins' files: TOML that says what an engine has, read into definitions and problems.

Invariant: reading never raises for what is in a file; whatever is wrong is a problem with its line, and
definitions that have an error are left out.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.catalog.engines.engine import EngineKey
from lakehouse.catalog.engines.payload_types import PayloadType
from lakehouse.catalog.engines.rules import EngineRule
from lakehouse.catalog.engines.versions import ANY_VERSION, VersionWindow
from lakehouse.catalog.system.definitions import Builtin, BuiltinKey, BuiltinSort, CastContext
from lakehouse.catalog.system.problems import BuiltinProblem, Severity
from lakehouse.catalog.system.signatures import Signature, head_of, parse_signature
from lakehouse.catalog.system.toml_lines import Spot, lines_of
from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.suggest import nearest

__all__ = ["FILE_BYTES_MAX", "FORMAT", "PAYLOAD_BYTES_MAX", "BuiltinFile", "read_builtins"]

FILE_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of a file at most."""
FORMAT = 1
"""Number of the files' format."""
PAYLOAD_BYTES_MAX = 64 * 1024
"""Bytes of a rule's payload at most: what travels with every plan must be small."""

_SECTIONS: Mapping[str, BuiltinSort] = {f"{sort.value}s": sort for sort in BuiltinSort}
_WINDOW = ("min_version", "max_version")
_HEAD = ("format", "engine", "source", *_WINDOW)
_KEYS: Mapping[BuiltinSort, tuple[str, ...]] = {
    BuiltinSort.TYPE: ("name", "aliases", "category"),
    BuiltinSort.FUNCTION: ("name", "signatures", "category"),
    BuiltinSort.OPERATOR: ("name", "signatures", "category"),
    BuiltinSort.AGGREGATE: ("name", "signatures", "category"),
    BuiltinSort.CAST: ("from", "to", "context"),
    BuiltinSort.COLLATION: ("name", "category"),
}
_RULE_KEYS = ("kind", *_WINDOW, "payload_type", "payload", "properties")
_TEXTS = frozenset({"name", "category", "from", "to", "context", "kind", "payload_type", *_WINDOW})


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinFile:
    """Builtins as one file says them."""

    name: str
    engine: str | None
    """Kind of the engine; None = every engine's."""
    builtins: tuple[Builtin, ...]
    problems: tuple[BuiltinProblem, ...]

    @property
    def type_names(self) -> dict[str, str]:
        """Canonical name of each type by its names in lower case."""
        return _type_names(self.builtins)


def read_builtins(data: bytes | str, *, name: str, types: Mapping[str, str] | None = None) -> BuiltinFile:
    """Reads a file of builtins.

    Args:
        data: its text.
        name: how problems call it.
        types: canonical names of types that other files of the engine define, by their names in lower case.
    """
    reader = _Reader(name, dict(types or {}))
    reader.read(data)
    return BuiltinFile(
        name=name,
        engine=reader.engine,
        builtins=tuple(reader.builtins),
        problems=tuple(sorted(reader.problems(), key=lambda each: each.line)),
    )


def _type_names(builtins: Iterable[Builtin]) -> dict[str, str]:
    types = [each for each in builtins if each.sort is BuiltinSort.TYPE]
    return {name.lower(): each.name for each in types for name in (each.name, *each.aliases)}


class _Reader:
    """Reader of one file."""

    def __init__(self, name: str, types: dict[str, str]) -> None:
        self._name = name
        self._text = ""
        self._found: list[tuple[Spot, Severity, str, str]] = []
        self._types = types
        self._seen: dict[BuiltinKey, list[VersionWindow]] = {}
        self._window = ANY_VERSION
        self.engine: str | None = None
        self.builtins: list[Builtin] = []

    def problems(self) -> Iterator[BuiltinProblem]:
        """Yields what is wrong, with lines."""
        lines = lines_of(self._text) if self._found else {}
        for place, severity, code, message in self._found:
            found = place
            # A key that is missing has the line of its table.
            while found and found not in lines:
                found = found[:-1]
            line = place[0] if code == "syntax" and place else lines.get(found, 1)
            yield BuiltinProblem(
                file=self._name, line=int(line), severity=severity, code=code, message=message
            )

    def _error(self, place: Spot, code: str, message: str) -> None:
        self._found.append((place, Severity.ERROR, code, message))

    def _warn(self, place: Spot, code: str, message: str) -> None:
        self._found.append((place, Severity.WARNING, code, message))

    # --- the document ---------------------------------------------------------------

    def read(self, data: bytes | str) -> None:
        """Reads a document into definitions and problems."""
        document = self._parsed(data)
        if document is None:
            return
        self._check_head(document)
        sections = {name: self._tables(document, name) for name in _SECTIONS if name in document}
        for name in sorted(sections, key=[*_SECTIONS].index):
            for number, table in sections[name]:
                self.builtins += self._builtins(_SECTIONS[name], (name, number), table)
            if name == "types":
                self._types |= _type_names(self.builtins)

    def _parsed(self, data: bytes | str) -> dict[str, Any] | None:
        if len(data) > FILE_BYTES_MAX:
            self._error((), "oversize-file", f"the file has {len(data):,} bytes, {FILE_BYTES_MAX:,} allowed")
            return None
        try:
            text = data if isinstance(data, str) else data.decode()
            document = tomllib.loads(text)
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            self._error((line,), "syntax", f"it is no UTF-8: {error.reason}")
            return None
        except RecursionError:
            self._error((), "syntax", "its values are nested too deeply")
            return None
        except (tomllib.TOMLDecodeError, ValueError) as error:
            found = re.search(r"line (\d+)", str(error))
            line = int(found[1]) if found else text.count("\n") + 1
            self._error((line,), "syntax", f"it is no TOML: {error}")
            return None
        self._text = text.replace("\r\n", "\n")
        return document

    def _check_head(self, document: dict[str, Any]) -> None:
        self._check_keys((), document, (*_HEAD, *_SECTIONS))
        if document.get("format") != FORMAT or isinstance(document.get("format"), bool):
            self._error(
                ("format",), "format", f"it must say 'format = {FORMAT}': this release reads no other"
            )
        if not isinstance(document.get("source"), str):
            self._warn(("source",), "no-source", "it does not say in 'source' where its facts are from")
        self._window = self._window_of((), document, ANY_VERSION)
        engine = document.get("engine")
        if engine == "*":
            return
        try:
            self.engine = EngineKey.of(engine if isinstance(engine, str) else "").kind or None
        except InvalidInputError as error:
            self._error(("engine",), "engine", error.message)
        else:
            if self.engine is None:
                self._error(
                    ("engine",), "engine", "it must name its engine, such as 'duckdb', or '*' for every one"
                )

    def _tables(self, document: dict[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
        value = document[name]
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self._error((name,), "wrong-type", f"'{name}' must be tables: write [[{name}]]")
            return []
        return [*enumerate(value)]

    # --- one definition -------------------------------------------------------------

    def _builtins(self, sort: BuiltinSort, place: Spot, table: dict[str, Any]) -> Iterator[Builtin]:
        """Yields what a table defines: one thing, or one for each signature."""
        count = len(self._found)
        self._check_keys(place, table, (*_KEYS[sort], *_WINDOW, "rules"))
        self._check_texts(place, table)
        names = ("from", "to") if sort is BuiltinSort.CAST else ("name",)
        for key in names:
            if not table.get(key):
                self._error((*place, key), "missing-key", f"a {sort.value} needs '{key}'")
        window = self._window_of(place, table, self._window)
        rules = tuple(self._rules(place, table, window))
        if any(severity is Severity.ERROR for _, severity, _, _ in self._found[count:]):
            return
        plain = Builtin(
            sort=sort,
            name=table.get("name", ""),
            category=table.get("category", ""),
            window=window,
            rules=rules,
        )
        make: Callable[[Spot, dict[str, Any], Builtin], Iterator[tuple[Spot, Builtin]]] = (
            self._cast if sort is BuiltinSort.CAST else self._type if sort is BuiltinSort.TYPE else self._each
        )
        for where, builtin in make(place, table, plain):
            if self._is_new(where, builtin):
                yield builtin

    def _type(self, place: Spot, table: dict[str, Any], plain: Builtin) -> Iterator[tuple[Spot, Builtin]]:
        yield place, replace(plain, aliases=tuple(self._strings(place, table, "aliases")))

    def _cast(self, place: Spot, table: dict[str, Any], plain: Builtin) -> Iterator[tuple[Spot, Builtin]]:
        context = table.get("context", "explicit")
        if context not in [*CastContext]:
            self._error(
                (*place, "context"), "context", f"{short(context)} is none of {', '.join(CastContext)}"
            )
            return
        source, target = (self._known(place, table[key], (key,)) for key in ("from", "to"))
        if source is not None and target is not None:
            yield (
                place,
                replace(plain, arguments=(source,), returns=target, context=CastContext(context)),
            )

    def _each(self, place: Spot, table: dict[str, Any], plain: Builtin) -> Iterator[tuple[Spot, Builtin]]:
        if plain.sort is BuiltinSort.COLLATION or "signatures" not in table:
            yield place, plain
            return
        for number, text in enumerate(self._strings(place, table, "signatures")):
            where = (*place, "signatures", number)
            signature = parse_signature(text)
            if signature is None:
                self._error(
                    where, "signature", f"{short(text)} is no signature such as '(VARCHAR, ANY...) -> BIGINT'"
                )
            elif (known := self._resolved(where, signature)) is not None:
                yield (
                    where,
                    replace(
                        plain, arguments=known.arguments, is_variadic=known.is_variadic, returns=known.returns
                    ),
                )

    def _resolved(self, where: Spot, signature: Signature) -> Signature | None:
        """Returns a signature with canonical names of types; None where one is not known."""
        arguments = [self._known(where, each) for each in signature.arguments]
        returns = None if signature.returns is None else self._known(where, signature.returns)
        if None in arguments or (signature.returns is not None and returns is None):
            return None
        return Signature(tuple(each for each in arguments if each), signature.is_variadic, returns)

    def _known(self, where: Spot, text: str, behind: Spot = ()) -> str | None:
        head, rest = head_of(text)
        name = self._types.get(head.lower())
        if name is None:
            near = nearest(head.lower(), self._types)
            hint = f": did you mean {self._types[near]!r}?" if near else ": add it to [[types]]"
            self._error((*where, *behind), "unknown-type", f"no type is called {short(head)}{hint}")
            return None
        return name + rest

    def _is_new(self, where: Spot, builtin: Builtin) -> bool:
        """Notes a definition; a second one of the same is a problem where both exist in some version."""
        keys = [builtin.key]
        if builtin.sort is BuiltinSort.TYPE:
            keys += [(builtin.sort, alias.lower()) for alias in builtin.aliases]
        for key in keys:
            windows = self._seen.setdefault(key, [])
            if any(window.overlaps(builtin.window) for window in windows):
                text = f"{builtin.sort.value} {builtin.signature if key == builtin.key else key[1]}"
                self._error(
                    where, "duplicate", f"{text} is defined already, for versions that this is for too"
                )
                return False
            windows.append(builtin.window)
        return True

    # --- parts that all have --------------------------------------------------------

    def _check_keys(self, place: Spot, table: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in table.keys() - {*known}:
            near = nearest(key, known)
            hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
            self._error((*place, key), "unknown-key", f"there is no key {short(key)} here; {hint}")

    def _check_texts(self, place: Spot, table: Mapping[str, Any]) -> None:
        for key in _TEXTS & table.keys():
            if not isinstance(table[key], str):
                self._error((*place, key), "wrong-type", f"'{key}' must be text, not {short(table[key])}")

    def _strings(self, place: Spot, table: Mapping[str, Any], key: str) -> list[str]:
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return value
        self._error((*place, key), "wrong-type", f"'{key}' must be a list of texts")
        return []

    def _window_of(self, place: Spot, table: Mapping[str, Any], inherited: VersionWindow) -> VersionWindow:
        bounds: dict[str, str | None] = {}
        for key, bound in zip(_WINDOW, (inherited.first, inherited.last), strict=True):
            text = table.get(key, bound)
            try:
                bounds[key] = EngineKey.of(None, text).version or None if isinstance(text, str) else None
            except InvalidInputError as error:
                self._error((*place, key), "version", error.message)
                bounds[key] = None
        window = VersionWindow(first=bounds["min_version"], last=bounds["max_version"])
        if window.is_empty:
            self._error(
                (*place, "min_version"),
                "empty-window",
                f"no version is inside: {window.first} > {window.last}",
            )
        return window

    # --- rules ----------------------------------------------------------------------

    def _rules(self, place: Spot, table: dict[str, Any], window: VersionWindow) -> Iterator[EngineRule]:
        rules = table.get("rules", [])
        if not isinstance(rules, list) or not all(isinstance(each, dict) for each in rules):
            self._error((*place, "rules"), "wrong-type", "'rules' must be tables")
            return
        for number, given in enumerate(rules):
            rule = self._rule((*place, "rules", number), given)
            if rule is None:
                continue
            if self.engine is not None and rule.kind != self.engine:
                self._warn(
                    (*place, "rules", number, "kind"),
                    "never-matches",
                    f"the file is for {self.engine}: a rule for {rule.kind} never matches",
                )
            elif not rule.window.overlaps(window):
                self._warn(
                    (*place, "rules", number),
                    "never-matches",
                    f"the rule is for {rule.window}, and its {place[0]} are there in {window}",
                )
            yield rule

    def _rule(self, place: Spot, given: dict[str, Any]) -> EngineRule | None:
        count = len(self._found)
        self._check_keys(place, given, _RULE_KEYS)
        self._check_texts(place, given)
        window = self._window_of(place, given, ANY_VERSION)
        try:
            PayloadType.parse(given.get("payload_type", ""))
        except InvalidInputError as error:
            self._error((*place, "payload_type"), "payload-type", error.message)
        kind = self._kind(place, given.get("kind"))
        properties = given.get("properties", {})
        if not isinstance(properties, dict) or not all(isinstance(each, str) for each in properties.values()):
            self._error((*place, "properties"), "wrong-type", "'properties' must be a table of texts")
        payload = self._payload(place, given.get("payload"))
        if len(self._found) > count:
            return None
        return EngineRule(
            kind=kind,
            window=window,
            payload_type=given["payload_type"],
            payload=payload,
            properties=properties,
        ).inheriting(self.engine)

    def _kind(self, place: Spot, kind: object) -> str | None:
        try:
            return EngineKey.of(kind).kind or None if isinstance(kind, str) else None
        except InvalidInputError as error:
            self._error((*place, "kind"), "engine", error.message)
            return None

    def _payload(self, place: Spot, value: Any) -> bytes | None:
        """Encodes a payload: text as it is, tables and lists as JSON."""
        if value is None:
            return None
        try:
            data = (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).encode()
        except TypeError:
            self._error((*place, "payload"), "wrong-type", "'payload' must be text, or what JSON can say")
            return None
        if len(data) > PAYLOAD_BYTES_MAX:
            self._error(
                (*place, "payload"),
                "oversize-payload",
                f"the payload has {len(data):,} bytes, {PAYLOAD_BYTES_MAX:,} allowed",
            )
        return data
