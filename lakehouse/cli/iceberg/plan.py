"""``lakehouse iceberg plan``: the data files that a scan would read, and why it would not read the others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse import iceberg
from lakehouse.cli import tables
from lakehouse.cli.arguments import SnapshotOption, Tag, Timestamp, Where, moment
from lakehouse.cli.frame import Outcome, on_iceberg
from lakehouse.cli.output import complain, human_bytes, print_json, print_table, say

if TYPE_CHECKING:
    from lakehouse.iceberg import Explanation, IcebergPlan, IcebergTable

__all__ = ["plan"]

_RuntimeFilters = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime-filter",
        help="Condition on one column, such as 'id in (1, 2)' or 'day between 3 and 9', as the other side of "
        "a join would give it; may be repeated.",
        metavar="CONDITION",
    ),
]
_Ref = Annotated[str | None, typer.Option(help="The snapshot of this branch or tag.")]
_Explain = Annotated[
    bool, typer.Option("--explain", help="Say also what excludes each manifest and file that is left out.")
]
_Limit = Annotated[int, typer.Option(help="Most manifests and files left out that are listed.", min=0)]


@on_iceberg
async def plan(
    table: IcebergTable,
    where: Where = None,
    runtime_filters: _RuntimeFilters = None,
    snapshot: SnapshotOption = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    ref: _Ref = None,
    explain: _Explain = False,
    limit: _Limit = 1000,
) -> Outcome:
    """Show the data files that a scan would read, with the deletes that apply to them."""
    made = await table.plan(
        where,
        runtime_filters=[iceberg.RuntimeFilter.predicate(text) for text in runtime_filters or ()],
        snapshot=snapshot,
        timestamp=moment(timestamp),
        tag=tag,
        ref=ref,
    )
    told = made.explain(limit=limit)
    return Outcome(partial(_print, made, told, explain), lambda: print_json(_document(made, told)))


def _document(made: IcebergPlan, told: Explanation) -> dict[str, Any]:
    files = [
        {
            "path": row["path"],
            "spec_id": row["spec_id"],
            "partition": _plain(row["partition"]),
            "rows": row["rows"],
            "bytes": row["size"],
            "deletes": row["deletes"],
            "residual": row["residual"],
        }
        for row in made.files().to_pylist()
    ]
    pruned = told.manifests_pruned
    return {
        "snapshot": told.snapshot,
        "manifests": {"total": told.manifests, "scanned": told.manifests - pruned, "pruned": pruned},
        "files": files,
        "files_pruned": told.files_pruned,
        "filters": [effect.as_dict() for effect in told.filters],
        "pruned": [one.as_dict() for one in told.pruned],
        "cost": told.cost.as_dict(),
    }


def _plain(partition: dict[str, Any] | None) -> dict[str, Any]:
    return {name: tables.plain(value) for name, value in (partition or {}).items()}


def _print(made: IcebergPlan, told: Explanation, explained: bool) -> None:
    rows = made.files().to_pylist()
    shown = [
        (
            row["path"],
            row["spec_id"],
            tables.cell(_plain(row["partition"])),
            row["rows"],
            human_bytes(row["size"]),
            len(row["deletes"] or ()),
            row["residual"] or "",
        )
        for row in rows
    ]
    names = ("path", "spec", "partition", "rows", "bytes", "deletes", "residual")
    if rows:
        print_table(names, shown, right=("spec", "rows", "bytes", "deletes"))
    else:
        complain("no files")
    say(
        f"{told.files:,} files, {human_bytes(told.bytes)}; {told.files_pruned:,} files and "
        f"{told.manifests_pruned:,} of {told.manifests:,} manifests left out; {told.cost}"
    )
    if explained:
        _print_explained(told)


def _print_explained(told: Explanation) -> None:
    effects = [
        (effect.kind, effect.filter, effect.manifests, effect.files, human_bytes(effect.bytes))
        for effect in told.filters
    ]
    if effects:
        names = ("kind", "filter", "manifests", "files", "bytes")
        print_table(names, effects, right=names[2:], title="excluded by each filter alone")
    if told.pruned:
        rows = [(one.what, one.path, one.by, one.why) for one in told.pruned]
        print_table(("what", "path", "by", "why"), rows, title="left out")
    listed = told.manifests_pruned + told.files_pruned
    if listed > len(told.pruned):
        complain(f"… and {listed - len(told.pruned):,} more that are left out; --limit lists more of them")
