"""Problems in builtins' files: what is wrong, and on which line."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["BuiltinProblem", "Severity"]


class Severity(enum.StrEnum):
    """Severity of a problem."""

    ERROR = "error"
    """The file is refused."""
    WARNING = "warning"
    """The file is read, and part of it has no effect or cannot be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinProblem:
    """Something that is wrong in a file."""

    file: str
    line: int
    """From 1."""
    severity: Severity
    code: str
    """Stable word for programs, such as ``duplicate``."""
    message: str

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.severity.value}: {self.message} [{self.code}]"
