"""Results as tables of text, for people: formats of figures, the default table, and grids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from benchmarks.model import Goal, Report, Result, Spread, Table, ratio

__all__ = ["default_table", "goal_table", "markdown", "pivot", "ratio_text", "seconds_text"]

_VERDICT = {True: "met", False: "missed", None: "—"}


def seconds_text(seconds: float) -> str:
    """Three figures and the unit that fits."""
    factor, unit = (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    value = seconds * factor
    return f"{value:.{max(0, 3 - len(str(int(value))))}f} {unit}"


def ratio_text(spread: Spread) -> str:
    """The median of the rounds, and how far off half of them are."""
    return f"{spread.median:.2f} ± {spread.mad:.2f}"


def default_table(report: Report) -> Table:
    """One row per result: parameters, side, time, spread, rate, CPU, requests, bytes and ratio."""
    names = list(dict.fromkeys(name for result in report.results for name in result.params))
    header = [*names, "side", "wall", "± MAD", "per second", "client CPU", "requests", "bytes"]
    rows = [[*_params(result, names), result.side, *_figures(result)] for result in report.results]
    if report.baseline:
        header.append(f"× {report.baseline}")
        for row, result in zip(rows, report.results, strict=True):
            peer = report.baseline_of(result)
            row.append("1" if peer is None else ratio_text(ratio(result, peer)))
    if not any(result.requests for result in report.results):
        keep = [at for at, name in enumerate(header) if name not in ("requests", "bytes")]
        header = [header[at] for at in keep]
        rows = [[row[at] for at in keep] for row in rows]
    return Table(title="Results", header=tuple(header), rows=tuple(tuple(row) for row in rows))


def _params(result: Result, names: Iterable[str]) -> list[str]:
    return [str(result.params.get(name, "")) for name in names]


def _figures(result: Result) -> list[str]:
    wall = result.wall
    return [
        seconds_text(wall.median),
        seconds_text(wall.mad),
        f"{result.rate:,.0f} {result.unit}",
        f"{seconds_text(result.cpu_per_unit)} each",
        _requests(result.requests, result.work),
        _bytes((result.bytes_read + result.bytes_written) / result.work),
    ]


def _requests(requests: Mapping[str, float], work: float) -> str:
    each = ((kind, count / work) for kind, count in sorted(requests.items()))
    return ", ".join(f"{count:.3g} {kind}" for kind, count in each)


def _bytes(count: float) -> str:
    return f"{count:,.0f} B" if count else ""


def pivot(
    results: Iterable[Result],
    *,
    title: str,
    rows: str,
    columns: str,
    cell: Callable[[Result], str],
    note: str = "",
) -> Table:
    """A grid of two parameters (or ``side``)."""
    placed = {(_value(r, rows), _value(r, columns)): cell(r) for r in results}
    across = list(dict.fromkeys(column for _, column in placed))
    down = list(dict.fromkeys(row for row, _ in placed))
    return Table(
        title=title,
        header=(f"{rows} \\ {columns}", *map(str, across)),
        rows=tuple((str(row), *(placed.get((row, column), "") for column in across)) for row in down),
        note=note,
    )


def _value(result: Result, name: str) -> object:
    return result.side if name == "side" else result.params.get(name)


def goal_table(goals: Iterable[Goal]) -> Table:
    """Promised and measured."""
    return Table(
        title="Goals",
        header=("goal", "target", "measured", ""),
        rows=tuple((g.text, g.target, g.measured, _VERDICT[g.met]) for g in goals),
    )


def markdown(table: Table) -> str:
    """The table in Markdown; figures to the right."""
    align = ["---" if at == 0 else "---:" for at in range(len(table.header))]
    lines = [f"### {table.title}", ""]
    lines += ["| " + " | ".join(row) + " |" for row in (table.header, align, *table.rows)]
    if table.note:
        lines += ["", table.note]
    return "\n".join([*lines, ""])
