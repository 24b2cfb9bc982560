"""Writes the files of builtins, ``lakehouse/catalog/system/builtins``, from what engines say of themselves.

::

    python tools/gen_builtins.py duckdb [--also 1.4=/path/to/site-packages …]
    python tools/gen_builtins.py spark
    python tools/gen_builtins.py postgres --repository /path/to/postgres.git

DuckDB is asked by its own functions, each version in a process of its own; Spark by its registry of
functions, which says since when each is there; of PostgreSQL the catalog files of each stable branch are
read. A fact that was there in some versions and not in others gets a window.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "lakehouse" / "catalog" / "system" / "builtins"
BANNER = "# Made by tools/gen_builtins.py: change that, not this."


class Fact(NamedTuple):
    """Something that one version of an engine has."""

    section: str
    name: str
    category: str = ""
    signature: str = ""
    """For casts the context, for types their other names with ``|`` between them."""


class Bounds(NamedTuple):
    """First and last version of a fact; None = that of the file, or the newest."""

    first: str | None = None
    last: str | None = None


Facts = Mapping[Fact, Sequence[Bounds]]


def windows(found: Mapping[str, Iterable[Fact]]) -> Facts:
    """Returns the windows of facts that were found in versions, given from the first to the newest."""
    versions = [*found]
    seen: defaultdict[Fact, list[int]] = defaultdict(list)
    for number, version in enumerate(versions):
        for fact in set(found[version]):
            seen[fact].append(number)
    return {fact: [*_bounds(numbers, versions)] for fact, numbers in seen.items()}


def _bounds(numbers: Sequence[int], versions: Sequence[str]) -> Iterator[Bounds]:
    """Yields a window for each run of neighbouring versions."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    for first, last in runs:
        yield Bounds(
            versions[first] if first else None,
            f"{versions[last]}.999" if last + 1 < len(versions) else None,
        )


def document(engine: str, source: str, facts: Facts, *, first: str | None, note: Sequence[str] = ()) -> str:
    """Returns a file's text."""
    lines = [BANNER, *(f"# {line}" for line in note), "format = 1", f"engine = {quoted(engine)}"]
    lines += [f"source = {quoted(source)}"]
    if first is not None:
        lines += [f"min_version = {quoted(first)}"]
    grouped: defaultdict[tuple[str, str, str, Bounds], list[str]] = defaultdict(list)
    for fact, listed in facts.items():
        for each in listed:
            grouped[fact.section, fact.name, fact.category, each].append(fact.signature)
    order = ("types", "functions", "operators", "aggregates", "casts", "collations")
    for (section, name, category, bounds), texts in sorted(
        grouped.items(), key=lambda item: (order.index(item[0][0]), *item[0][1:3], str(item[0][3]))
    ):
        lines += ["", f"[[{section}]]", *_body(section, name, sorted(set(texts)))]
        lines += [f"category = {quoted(category)}"] if category else []
        for key, bound in zip(("min_version", "max_version"), bounds, strict=True):
            lines += [f"{key} = {quoted(bound)}"] if bound is not None else []
    return "\n".join(lines) + "\n"


def _body(section: str, name: str, texts: Sequence[str]) -> Iterator[str]:
    if section == "casts":
        source, _, target = name.partition(" -> ")
        yield from (f"from = {quoted(source)}", f"to = {quoted(target)}", f"context = {quoted(texts[0])}")
        return
    yield f"name = {quoted(name)}"
    if section == "types" and texts[0]:
        yield f"aliases = [{', '.join(quoted(each) for each in texts[0].split('|'))}]"
    if section in ("functions", "operators", "aggregates") and texts != [""]:
        yield "signatures = ["
        yield from (f"    {quoted(text)}," for text in texts)
        yield "]"


def quoted(text: str) -> str:
    """Returns text as TOML says it."""
    return f"'{text}'" if '"' in text and "'" not in text else json.dumps(text, ensure_ascii=False)


# --- DuckDB -----------------------------------------------------------------------------

_SORTS = {"scalar": "functions", "macro": "functions", "aggregate": "aggregates"}
_OTHER_TYPES = ["ANY", "INVALID", "LAMBDA", "TABLE", "TYPE", "TUPLE", "T", "K", "V"]


def duckdb_facts() -> list[Fact]:
    """Returns what the DuckDB of this process has."""
    import duckdb

    rows = duckdb.connect().execute(
        "SELECT function_name, function_type, return_type, parameter_types, parameters, varargs FROM "
        "duckdb_functions() WHERE function_type IN ('scalar', 'macro', 'aggregate') AND schema_name = 'main'"
    )
    facts = []
    for name, sort, returns, types, parameters, rest in rows.fetchall():
        given = [kind or "ANY" for kind in (types or ["ANY"] * len(parameters or ()))]
        listed = ", ".join([*given, f"{rest}..."] if rest else given)
        result = f" -> {returns}" if returns and returns not in ("INVALID", '"NULL"', "NULL") else ""
        section = "operators" if not re.match(r"\w", name) and sort != "aggregate" else _SORTS[sort]
        facts.append(Fact(section, name, "", f"({listed}){result}"))
    return [*facts, *_duckdb_types(facts), *_duckdb_collations()]


def _duckdb_types(functions: Sequence[Fact]) -> Iterator[Fact]:
    import duckdb

    rows = duckdb.connect().execute(
        "SELECT logical_type, type_category, type_name FROM duckdb_types() WHERE internal"
    )
    names: defaultdict[str, set[str]] = defaultdict(set)
    categories: dict[str, str] = {}
    for logical, category, name in rows.fetchall():
        # JSON is text that knows its format, listed as another name of VARCHAR; functions tell the two apart.
        logical = "JSON" if name.lower() == "json" else logical
        names[logical].add(name)
        categories[logical] = (category or "").lower()
    known = {name.lower() for each in names for name in (each, *names[each])}
    used = set(
        re.findall(
            r"[(,>\s]\s*(\"?[A-Z][A-Z_0-9]*(?: WITH TIME ZONE)?\"?)", " ".join(f.signature for f in functions)
        )
    )
    for name in sorted(used | {*_OTHER_TYPES}):
        if name.lower() not in known:
            yield Fact("types", name, "pseudo" if name in _OTHER_TYPES or name[0] == '"' else "other")
    taken: set[str] = set()
    for logical in sorted(names):
        aliases = sorted({n for n in names[logical] if n.lower() != logical.lower()} - taken)
        taken |= {*aliases}
        yield Fact("types", logical, categories[logical], "|".join(aliases))


def _duckdb_collations() -> Iterator[Fact]:
    import duckdb

    for (name,) in duckdb.connect().execute("SELECT collname FROM pragma_collations()").fetchall():
        yield Fact("collations", name)


def duckdb_document(also: Sequence[str]) -> str:
    """Asks each version in a process of its own."""
    found: dict[str, list[Fact]] = {}
    for word in [*also, ""]:
        version, _, folder = word.partition("=")
        env = {**os.environ, **({"PYTHONPATH": folder} if folder else {})}
        output = subprocess.run(
            [sys.executable, __file__, "duckdb", "--facts"],
            env=env,
            check=True,
            capture_output=True,
            text=True,
        )
        answer = json.loads(output.stdout)
        version = version or ".".join(answer["version"].split(".")[:2])
        found[version] = [Fact(*fact) for fact in answer["facts"]]
    source = (
        f"duckdb_functions(), duckdb_types() and pragma_collations() of the Python wheels "
        f"{', '.join(found)}, with the extensions in them; table functions, pragmas and casts are left out"
    )
    return document("duckdb", source, windows(found), first=next(iter(found)))


# --- Spark ------------------------------------------------------------------------------

_SPARK_TYPES = (
    Fact("types", "TINYINT", "numeric", "BYTE"), Fact("types", "SMALLINT", "numeric", "SHORT"),
    Fact("types", "INT", "numeric", "INTEGER"), Fact("types", "BIGINT", "numeric", "LONG"),
    Fact("types", "FLOAT", "numeric", "REAL"), Fact("types", "DOUBLE", "numeric"),
    Fact("types", "DECIMAL", "numeric", "DEC|NUMERIC"), Fact("types", "STRING", "string"),
    Fact("types", "CHAR", "string", "CHARACTER"), Fact("types", "VARCHAR", "string"),
    Fact("types", "BINARY", "binary"), Fact("types", "BOOLEAN", "boolean"), Fact("types", "DATE", "datetime"),
    Fact("types", "TIMESTAMP", "datetime", "TIMESTAMP_LTZ"), Fact("types", "INTERVAL", "interval"),
    Fact("types", "ARRAY", "complex"), Fact("types", "MAP", "complex"), Fact("types", "STRUCT", "complex"),
    Fact("types", "VOID", "other"),
)  # fmt: skip
"""Types of the page "Data Types" of Spark's SQL reference."""
_SPARK_SINCE = {"TIMESTAMP_NTZ": ("datetime", "3.4.0"), "VARIANT": ("other", "4.0.0")}


def spark_document() -> str:
    """Asks the Spark that is installed."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        registry = session._jvm.org.apache.spark.sql.api.python.PythonSQLUtils
        infos = [(i.getName(), i.getGroup(), i.getSince()) for i in registry.listBuiltinFunctionInfos()]
        version = session.version
    finally:
        session.stop()
    facts: dict[Fact, list[Bounds]] = {fact: [Bounds()] for fact in _SPARK_TYPES}
    for name, (category, since) in _SPARK_SINCE.items():
        facts[Fact("types", name, category)] = [Bounds(since)]
    for name, group, since in sorted(set(infos)):
        section = "operators" if not re.search(r"\w", name) else "functions"
        section = "aggregates" if group == "agg_funcs" else section
        facts[Fact(section, name, group.removesuffix("_funcs"))] = [Bounds(since or None)]
    source = (
        f"functions: the registry of Spark {version}, which says since when each is there and not which "
        "types it takes; types: 'Data Types' of Spark's SQL reference"
    )
    return document("spark", source, facts, first=None)


# --- PostgreSQL -------------------------------------------------------------------------

_PG_TYPES = {
    "bool": "boolean", "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real",
    "float8": "double precision", "numeric": "numeric", "text": "text", "varchar": "character varying",
    "bpchar": "character", "bytea": "bytea", "date": "date", "time": "time without time zone",
    "timetz": "time with time zone", "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone", "interval": "interval", "uuid": "uuid", "json": "json",
    "jsonb": "jsonb", "name": "name", "oid": "oid", "regclass": "regclass", "any": '"any"',
    "anyelement": "anyelement", "anyarray": "anyarray", "anynonarray": "anynonarray", "anyenum": "anyenum",
    "anycompatible": "anycompatible", "anycompatiblearray": "anycompatiblearray",
    "anycompatiblenonarray": "anycompatiblenonarray",
}  # fmt: skip
"""Types whose functions are listed, with their names in SQL."""
_PG_ELEMENTS = {"anyarray": "anyelement", "anycompatiblearray": "anycompatible"}
_PG_CONTEXTS = {"i": "implicit", "a": "assignment", "e": "explicit"}
_PG_INNER = re.compile(
    r"^$|I/O|transition|final function|combine function|serial|(planner|sort|range|skip) support|internal|"
    r"less-equal-greater|equal image|^hash$|implementation of|trigger|^statistics: |selectivity"
)
"""Descriptions of functions that nobody calls by name."""
_PG_ENTRY = re.compile(r"\{((?:[^{}']|'(?:[^'\\]|\\.)*')*)\}")
_PG_FIELD = re.compile(r"(\w+)\s*=>\s*'((?:[^'\\]|\\.)*)'")


def _pg_entries(text: str) -> Iterator[dict[str, str]]:
    """Yields the rows of a catalog file."""
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for entry in _PG_ENTRY.finditer(plain):
        yield {key: re.sub(r"\\(.)", r"\1", value) for key, value in _PG_FIELD.findall(entry[1])}


def _pg_type(name: str) -> str | None:
    """Returns the name in SQL of a type of the subset, None for others."""
    if name.startswith("_"):
        element = _PG_TYPES.get(name[1:])
        return f"{element}[]" if element is not None else None
    return _PG_TYPES.get(name)


def _pg_arguments(row: Mapping[str, str]) -> list[str] | None:
    words = row.get("proargtypes", "").split()
    given = [_pg_type(word) for word in words]
    if None in given:
        return None
    types = [each for each in given if each is not None]
    if row.get("provariadic", "0") != "0" and types:
        last = types[-1]
        types[-1] = _PG_ELEMENTS.get(last, last.removesuffix("[]")) + "..."
    return types


def postgres_facts(files: Mapping[str, str]) -> Iterator[Fact]:
    """Yields what the catalog files of a branch say."""
    yield from (Fact("types", sql, "pseudo" if name.startswith("any") else "base",
                     name if name != sql.strip('"') else "") for name, sql in _PG_TYPES.items())  # fmt: skip
    for row in _pg_entries(files["pg_proc"]):
        section = {"f": "functions", "a": "aggregates"}.get(row.get("prokind", "f"))
        arguments, returns = _pg_arguments(row), _pg_type(row["prorettype"])
        if section is None or arguments is None or returns is None or row.get("proretset") == "t":
            continue
        if (
            row["proname"] in _PG_TYPES
            or row["proname"].startswith(("pg_", "has_", "_", "binary_upgrade"))
            or _PG_INNER.search(row.get("descr", ""))
        ):
            continue
        yield Fact(section, row["proname"], "", f"({', '.join(arguments)}) -> {returns}")
    for row in _pg_entries(files["pg_operator"]):
        sides = [row[key] for key in ("oprleft", "oprright") if row.get(key, "0") != "0"]
        types, returns = [_pg_type(side) for side in sides], _pg_type(row["oprresult"])
        if None not in types and returns is not None:
            yield Fact("operators", row["oprname"], "", f"({', '.join(filter(None, types))}) -> {returns}")
    for row in _pg_entries(files["pg_cast"]):
        source, target = _pg_type(row["castsource"]), _pg_type(row["casttarget"])
        if source is not None and target is not None:
            yield Fact("casts", f"{source} -> {target}", "", _PG_CONTEXTS[row["castcontext"]])
    for row in _pg_entries(files["pg_collation"]):
        yield Fact("collations", row["collname"])


def postgres_document(repository: str, branches: Sequence[str]) -> str:
    """Reads the stable branches of a clone."""
    found: dict[str, list[Fact]] = {}
    for branch in branches:
        files = {
            name: _shown(repository, f"REL_{branch}_STABLE:src/include/catalog/{name}.dat")
            for name in ("pg_proc", "pg_operator", "pg_cast", "pg_collation")
        }
        found[branch] = [*postgres_facts(files)]
    source = (
        f"src/include/catalog/*.dat of PostgreSQL's branches REL_{branches[0]}_STABLE to "
        f"REL_{branches[-1]}_STABLE: functions that return no sets, over common types; casts that have an "
        "entry in pg_cast"
    )
    return document("postgres", source, windows(found), first=branches[0])


def _shown(repository: str, path: str) -> str:
    output = subprocess.run(
        ["git", "-C", repository, "show", path],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return output.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the file of one engine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=("duckdb", "spark", "postgres"))
    parser.add_argument("--also", action="append", default=[], metavar="VERSION=FOLDER")
    parser.add_argument("--facts", action="store_true", help="print DuckDB's facts as JSON")
    parser.add_argument("--repository", default=".", help="clone of PostgreSQL")
    parser.add_argument("--branches", default="12,13,14,15,16,17,18")
    given = parser.parse_args(arguments)
    if given.facts:
        import duckdb

        print(json.dumps({"version": duckdb.__version__, "facts": duckdb_facts()}))
        return 0
    if given.engine == "duckdb":
        text = duckdb_document(given.also)
    elif given.engine == "spark":
        text = spark_document()
    else:
        text = postgres_document(given.repository, given.branches.split(","))
    path = FOLDER / f"{given.engine}.toml"
    path.write_text(text)
    print(f"{path}: {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
