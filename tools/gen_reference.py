"""Writes the pages and blocks of docs/ that are made from the code; ``--check`` only compares.

Run it with ``make docs``. What it writes is committed, so that readers need not run
anything; a test in tests/house runs ``--check``.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import sys
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from lakehouse import config, errors, reports
from lakehouse.config import SettingInfo, Settings
from lakehouse.format.schema.table_options import OptionInfo, TableOptions
from lakehouse.io.backends.s3_spellings import ALLOW_HTTP, BUCKET, REFUSED, SPELLINGS
from lakehouse.io.work.report import field_names

__all__ = ["main", "pages"]

ROOT = Path(__file__).resolve().parents[1]
BANNER = "<!-- Made by tools/gen_reference.py from the code: edit the code, then run `make docs`. -->"
BEGIN, END = "<!-- parts: begin (make docs) -->", "<!-- parts: end -->"
SETTINGS, OPTIONS, STORAGE, ERRORS, REPORTS, ARCHITECTURE = (
    "docs/reference/settings.md",
    "docs/reference/table-options.md",
    "docs/reference/storage-options.md",
    "docs/reference/errors.md",
    "docs/reference/reports.md",
    "docs/architecture.md",
)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    head = list(head)
    yield from ("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows))


def summary(docstring: str | None) -> str:
    """A docstring's first sentence on one line."""
    return " ".join((docstring or "").split("\n\n")[0].split())


def settings_page() -> str:
    """Every setting, by group."""
    infos = list(Settings.describe())
    first = infos[0]
    lines = [
        BANNER,
        "# Settings",
        "",
        "Every number that bounds the engine is a setting. A value comes from the first of these",
        "that has one:",
        "",
        f'1. arguments: `settings={{"{first.name}": {first.default}}}`;',
        f"2. the environment: `{first.env}={first.default}`; a variable set to nothing counts as not set;",
        "3. a TOML file that `LAKEHOUSE_CONFIG` names:",
        "",
        "   ```toml",
        f"   [{first.group}]",
        f"   {first.field} = {first.default}",
        "   ```",
        "",
        "4. the default.",
        "",
        "Text is parsed wherever it comes from; for booleans that is `true`, `1`, `yes`, `on` and `false`,",
        "`0`, `no`, `off`, and a number of bytes may have a unit: `b`, `KB`, `MB` or `GB`, which count in",
        "steps of 1,024. A name nobody knows and a value out of bounds are errors that say where they came",
        "from. Credentials are not settings: they are storage options.",
        "",
        f"Variables that begin with `{config.ENV_PREFIX}` and are not settings: "
        + ", ".join(f"`{name}{'*' if name.endswith('_') else ''}`" for name in config.RESERVED_ENV)
        + ". The last three are what Kubernetes sets beside a Service called `lakehouse`.",
    ]
    for group in dict.fromkeys(info.group for info in infos):
        lines += ["", f"## {group}", "", about_group(group), ""]
        lines += table(
            ("setting", "environment", "type", "default", "accepted", "meaning"),
            (setting_row(info) for info in infos if info.group == group),
        )
    return "\n".join(lines) + "\n"


def about_group(group: str) -> str:
    """What a group of settings is about; layers of caches say it themselves."""
    outer, _, name = group.rpartition(".")
    holder = attrgetter(outer)(Settings()) if outer else Settings()
    said = {field.name: field.metadata.get("meaning", "") for field in dataclasses.fields(holder)}[name]
    return said or summary(type(getattr(holder, name)).__doc__)


def setting_row(info: SettingInfo) -> tuple[str, ...]:
    """Cells of one setting."""
    default = plain(info.default, info.field)
    return f"`{info.name}`", f"`{info.env}`", info.type, default, accepted(info), info.doc


def accepted(info: SettingInfo | OptionInfo) -> str:
    """Which values are accepted."""
    bounds = [f"≥ {plain(info.low, info.field)}"] if info.low is not None else []
    bounds += [f"≤ {plain(info.high, info.field)}"] if info.high is not None else []
    return ", ".join(f"`{choice}`" for choice in info.choices) or ", ".join(bounds)


def options_page() -> str:
    """Every option of tables."""
    infos = list(TableOptions.describe())
    lines = [
        BANNER,
        "# Table options",
        "",
        "Options belong to a table and are part of its schema, as text. They are given when a table is",
        "created and may change later, but for those marked *fixed*: these lay its rows out. An option",
        "nobody knows and a value out of bounds are errors.",
        "",
        "A number of bytes may have a unit: `b`, `KB`, `MB` or `GB`, which count in steps of 1,024.",
        "",
        *table(
            ("option", "type", "default", "accepted", "meaning"),
            (
                (
                    f"`{info.name}`",
                    info.type,
                    plain(info.default, info.field),
                    accepted(info),
                    info.doc + (" *Fixed.*" if info.fixed else ""),
                )
                for info in infos
            ),
        ),
    ]
    return "\n".join(lines) + "\n"


def plain(value: object, field: str = "") -> str:
    """A value as people write it; bytes in binary units where they come out even."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and field.endswith("bytes"):
        for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
            if value and value % size == 0:
                return f"{value} ({value // size} {unit})"
    return str(value)


def storage_page() -> str:
    """The storage options of S3 stores, in every spelling, and the rules of all stores."""
    spellings: dict[str, list[str]] = {}
    for name, (path, _) in SPELLINGS.items():
        if not name.startswith("aws_"):
            shown = {ALLOW_HTTP: "none: an endpoint may be http://", BUCKET: "none: the URL names the bucket"}
            spellings.setdefault(shown.get(path, f"`{'.'.join(path)}`"), []).append(f"`{name}`")
    reasons: dict[str, list[str]] = {}
    for name, why in REFUSED.items():
        if not name.startswith("aws_"):
            reasons.setdefault(why, []).append(f"`{name}`")
    lines = [
        BANNER,
        "# Storage options",
        "",
        "`storage_options` of `connect` and `open_store`, `-o NAME=VALUE` on the command line, and in Spark",
        '`storage_options=` and `.option("storage.<name>", …)` all follow the same rules:',
        "",
        "- Names are fsspec's: for `s3://` the parameters of `s3fs.S3FileSystem`, with `client_kwargs`,",
        "  `config_kwargs` and `s3_additional_kwargs` as botocore takes them; for other schemes those of the",
        "  file system's class. On the command line a mapping is a JSON object.",
        "- For `s3://` the names of delta-rs, polars and object_store (in any case, with or without `AWS_`)",
        "  and of pyiceberg mean the same, as the table says.",
        "- A name that nobody knows is an error that says which was probably meant. So are two names that",
        "  say different things, and an option that would have no effect.",
        "- What is not given comes from the environment (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, …), from",
        "  profiles and from the role of the machine, as botocore finds it.",
        "- Values that are secret show as `***` wherever options are printed.",
        "",
        "## Other programs' names for S3",
        "",
        *table(
            ("option of s3fs", "also understood"),
            ((option, ", ".join(names)) for option, names in spellings.items()),
        ),
        "",
        "Each name of the right column that has no dot may have `AWS_` in front.",
        "",
        "## Refused, because they would have no effect",
        "",
        *table(
            ("names", "instead"),
            ((", ".join(names), why) for why, names in reasons.items()),
        ),
        "",
        "Options of s3fs that tune its own buffers, listings and retries are refused for the same reason;",
        "the error names the setting that does it here.",
    ]
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """The error tree, its classes and its kinds."""
    tree = (errors.__doc__ or "").split("::\n\n")[1].split("\n\nA class exists")[0]
    classes = [getattr(errors, name) for name in sorted(errors.__all__) if name.endswith("Error")]
    lines = [
        BANNER,
        "# Errors",
        "",
        "Every error lakehouse raises is a `LakehouseError`. Classes are grouped by what a caller does about",
        "them; everything finer is `error.kind`, a stable word. The message is for people and may change;",
        'facts for programs are in `error.context`, such as `error.context["key"]`. Errors survive `pickle`.',
        "",
        "```",
        *(line.removeprefix("    ") for line in tree.splitlines()),
        "```",
        "",
        "## Classes",
        "",
        *table(
            ("class", "kind unless said otherwise", "also a", "meaning"),
            (
                (f"`{c.__name__}`", f"`{c.default_kind}`", builtin_base(c), summary(c.__doc__))
                for c in classes
            ),
        ),
        "",
        "## Kinds",
        "",
        "Kinds are only ever added. None is renamed or removed.",
        "",
        *table(("kind", "meaning"), ((f"`{kind}`", meaning) for kind, meaning in errors.KINDS.items())),
    ]
    return "\n".join(lines) + "\n"


def builtin_base(cls: type) -> str:
    """The builtin a handler may catch instead, if there is one."""
    builtin = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    return "" if builtin is Exception else f"`{builtin.__name__}`"


def reports_page() -> str:
    """What calls return, with the fields of each."""
    found = {name: getattr(reports, name) for name in reports.__all__}
    classes = {name: one for name, one in found.items() if isinstance(one, type)}
    lines = [
        BANNER,
        "# Reports",
        "",
        "What calls on tables return. For annotations they are imported from `lakehouse.reports`:",
        "`from lakehouse.reports import CompactResult`. Results and reports of calls have `as_dict()`: plain",
        "data for JSON.",
        "",
        *table(
            ("name", "what it is", "fields"),
            (
                (f"`{name}`", summary(one.__doc__), ", ".join(f"`{field}`" for field in fields_of(one)))
                for name, one in classes.items()
            ),
        ),
        "",
        "Types: " + ", ".join(f"`{name}`" for name in found if name not in classes) + ".",
    ]
    return "\n".join(lines) + "\n"


def fields_of(cls: type) -> list[str]:
    """The fields of a dataclass, or the words of an enumeration."""
    if issubclass(cls, enum.Enum):
        return [str(one.value) for one in cls]
    return field_names(cls) if dataclasses.is_dataclass(cls) else []


def parts_block() -> str:
    """Parts and rooms that exist, with the first line of what they say of themselves."""
    package = ROOT / "lakehouse"
    modules = [path for path in package.glob("*.py") if not path.name.startswith("_")]
    packages = [path for path in package.rglob("__init__.py") if path.parent != package]
    parts, rooms = [], []
    for path in sorted([*modules, *packages]):
        says = summary(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))
        shown = path.relative_to(ROOT).as_posix().removesuffix("__init__.py")
        (rooms if shown.rstrip("/").count("/") > 1 else parts).append((f"`{shown}`", says))
    tables = [*table(("part", "what it is"), parts), "", *table(("room", "what it is"), rooms)]
    return "\n".join([BEGIN, *tables, END])


def architecture_page() -> str:
    """The page as it is, with a fresh block of parts."""
    before, _, rest = current(ARCHITECTURE).partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + parts_block() + after


def current(path: str) -> str:
    """A page as it is now; empty when there is none."""
    return (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""


def pages() -> dict[str, str]:
    """Path and text of every page that is made here."""
    return {
        SETTINGS: settings_page(),
        OPTIONS: options_page(),
        STORAGE: storage_page(),
        ERRORS: errors_page(),
        REPORTS: reports_page(),
        ARCHITECTURE: architecture_page(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Writes what is stale, or with ``--check`` says so and fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something is stale")
    check = parser.parse_args(arguments).check
    stale = {path: text for path, text in pages().items() if current(path) != text}
    for path, text in stale.items():
        if not check:
            (ROOT / path).write_text(text, encoding="utf-8")
        print(f"{path}: {'stale, run make docs' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
