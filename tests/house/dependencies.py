"""What the code imports, what pyproject.toml asks for, and what constraints.txt pins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.layers import HEAVY_AT_HOME, third_party_imports
from tests.house.source_tree import PACKAGE, Module

__all__ = ["COMES_WITH", "Declared", "undeclared", "unpinned"]

COMES_WITH = {
    "aiohttp": "aiobotocore",
    "botocore": "aiobotocore",
    "docker": "testcontainers",
    "packaging": "pytest",
    "yarl": "aiobotocore",
}
"""Packages that may be imported without being asked for: another one cannot be there without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What pyproject.toml asks for."""

    always: tuple[Requirement, ...]
    """With every installation."""
    extras: Mapping[str, tuple[Requirement, ...]]
    """With ``aiolakehouse[extra]``."""

    @classmethod
    def parse(cls, project: Mapping[str, object]) -> Declared:
        """From the ``project`` table; the extra that names the others is left out."""
        always: list[str] = project["dependencies"]  # type: ignore[assignment]
        extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
        return cls(
            always=tuple(map(Requirement, always)),
            extras={name: tuple(map(Requirement, of)) for name, of in extras.items() if name != "all"},
        )

    @property
    def everything(self) -> tuple[Requirement, ...]:
        """With ``aiolakehouse[all]``."""
        return self.always + tuple(one for of in self.extras.values() for one in of)


def undeclared(
    modules: Iterable[Module], declared: Declared, homes: Mapping[str, list[str]]
) -> Iterator[str]:
    """Imports of packages that pyproject.toml does not ask for.

    What the library imports when it is loaded must come with every installation, save in
    the parts that are about an optional package, and in the test kit. ``homes`` says which
    distributions a top-level package is in. Benchmarks import peers inside functions, and
    do without those that are not installed.
    """
    always = {canonicalize_name(one.name) for one in declared.always}
    ever = {canonicalize_name(one.name) for one in declared.everything}
    for module in modules:
        folder = module.path.split("/")[0]
        optional = folder != PACKAGE or module.part in {*HEAVY_AT_HOME, "testing"}
        for line, top, lazy in third_party_imports(module):
            if lazy and folder in ("benchmarks", "examples"):
                continue
            names = {canonicalize_name(name) for name in homes.get(top, [top])}
            names |= {canonicalize_name(COMES_WITH[top])} if top in COMES_WITH else set()
            if not names & (ever if lazy or optional else always):
                where = "any extra" if lazy or optional else "dependencies"
                yield f"{module.path}:{line} imports {top}, which is not in {where} of pyproject.toml"


def unpinned(constraints: Iterable[str]) -> Iterator[str]:
    """Lines of a constraints file that do not pin one package to one version."""
    for line in constraints:
        if line.strip() and not line.startswith("#") and not re.fullmatch(r"[\w.\-]+==[\w.+!]+", line):
            yield line
