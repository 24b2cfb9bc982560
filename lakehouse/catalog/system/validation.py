"""Validation of builtins' files together: types of one file are known in the others of its engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.catalog.system.files import read_builtins
from lakehouse.catalog.system.packaged import PACKAGED, packaged_file
from lakehouse.catalog.system.problems import BuiltinProblem, Severity

__all__ = ["BuiltinReport", "validate_builtins"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinReport:
    """Problems of some files, and how much is in them."""

    files: int
    builtins: int
    problems: tuple[BuiltinProblem, ...]
    """In the order of files and lines."""

    def is_good(self, *, strict: bool = False) -> bool:
        """Returns whether the files may be used; strictly, warnings count too."""
        return not any(strict or each.severity is Severity.ERROR for each in self.problems)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        problems = [each.as_dict() for each in self.problems]
        return {"files": self.files, "builtins": self.builtins, "problems": problems}

    def __str__(self) -> str:
        counts = [
            sum(each.severity is severity for each in self.problems)
            for severity in (Severity.ERROR, Severity.WARNING)
        ]
        found = f"{counts[0]:,} errors, {counts[1]:,} warnings"
        return f"{self.files:,} files with {self.builtins:,} builtins: {found}"


def validate_builtins(files: Mapping[str, bytes]) -> BuiltinReport:
    """Validates files, by name, that are to be laid over those of the package."""
    types: dict[str | None, dict[str, str]] = {kind: packaged_file(kind).type_names for kind in PACKAGED}
    # Once for what they define, and once with what all of them define.
    alone = [read_builtins(data, name=name) for name, data in files.items()]
    for file in alone:
        types[file.engine] = types.get(file.engine, {}) | file.type_names
    read = [
        read_builtins(data, name=file.name, types=types.get(None, {}) | types[file.engine])
        for file, data in zip(alone, files.values(), strict=True)
    ]
    return BuiltinReport(
        files=len(read),
        builtins=sum(len(file.builtins) for file in read),
        problems=tuple(problem for file in read for problem in file.problems),
    )
