"""System objects: information_schema, builtins of engines, and how they stand beside what users made.

Words: *builtin* (type, function, operator, cast, collation or aggregate of an engine) → *file* (builtins of
one engine as TOML, with windows of versions) → *overlay* (what an engine of some version sees) → *relation*
(rows that the catalog computes, such as ``information_schema.tables``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.system.definitions import Builtin, BuiltinSort, CastContext
    from lakehouse.catalog.system.files import BuiltinFile, read_builtins
    from lakehouse.catalog.system.information_schema import RelationFilter, SystemScan, SystemWarning
    from lakehouse.catalog.system.listing import ListedNamespace, RelationListing
    from lakehouse.catalog.system.objects import SYSTEM_ACCOUNT, BuiltinNode, SystemObjects
    from lakehouse.catalog.system.packaged import PACKAGED, packaged_file
    from lakehouse.catalog.system.paging import MergedPage, PagePlan, UserPage, merged_page, plan_page
    from lakehouse.catalog.system.problems import BuiltinProblem, Severity
    from lakehouse.catalog.system.registry import Overlay, SystemRegistry
    from lakehouse.catalog.system.relations import system_namespace, system_relations
    from lakehouse.catalog.system.validation import BuiltinReport, validate_builtins

__all__ = [
    "PACKAGED", "SYSTEM_ACCOUNT", "Builtin", "BuiltinFile", "BuiltinNode", "BuiltinProblem", "BuiltinReport",
    "BuiltinSort",
    "CastContext", "ListedNamespace", "MergedPage", "Overlay", "PagePlan", "RelationFilter",
    "RelationListing", "Severity", "SystemObjects", "SystemRegistry", "SystemScan", "SystemWarning",
    "UserPage", "merged_page", "packaged_file", "plan_page", "read_builtins", "system_namespace",
    "system_relations", "validate_builtins",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "definitions": "Builtin BuiltinSort CastContext",
        "files": "BuiltinFile read_builtins",
        "information_schema": "RelationFilter SystemScan SystemWarning",
        "listing": "ListedNamespace RelationListing",
        "objects": "SYSTEM_ACCOUNT BuiltinNode SystemObjects",
        "packaged": "PACKAGED packaged_file",
        "paging": "MergedPage PagePlan UserPage merged_page plan_page",
        "problems": "BuiltinProblem Severity",
        "registry": "Overlay SystemRegistry",
        "relations": "system_namespace system_relations",
        "validation": "BuiltinReport validate_builtins",
    },
)
