"""Turns a report into a page and a plot: ``python -m benchmarks.render [names]`` redoes docs/benchmarks.

A bench module may say how its results are shown, with ``goals(report)``,
``tables(report)`` and ``plot(report, figure)``; without them there is one table of
everything, and bars. Rendering needs the JSON alone: nothing is measured here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.model import Report
from benchmarks.registry import bench
from benchmarks.tables import default_table, goal_table, markdown

__all__ = ["COMMITTED", "load", "page", "save"]

COMMITTED = Path(__file__).parents[1] / "docs" / "benchmarks"
"""Where the results that the documentation shows are kept."""


def page(report: Report, module: ModuleType, *, plotted: bool = False) -> str:
    """The report in Markdown."""
    parts = [f"# {report.title}", "", (module.__doc__ or "").strip(), ""]
    if hasattr(module, "goals"):
        parts.append(markdown(goal_table(module.goals(report))))
    if plotted:
        parts += [f"![{report.title}]({report.name}.png)", ""]
    shown = module.tables(report) if hasattr(module, "tables") else [default_table(report)]
    parts += [markdown(table) for table in shown]
    parts += ["### How it was measured", "", *(f"- {note}" for note in report.notes), *_machine(report), ""]
    return "\n".join(parts)


def _machine(report: Report) -> list[str]:
    machine = report.machine
    if not machine:
        return []
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    store = report.facts.get("object_store")
    samples = max((len(result.seconds) for result in report.results), default=0)
    return [
        f"- Sides take turns within every round; medians of up to {samples} samples (`--{report.scale}`)."
        if report.scale != "default"
        else f"- Sides take turns within every round; medians of up to {samples} samples.",
        f"- {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"{machine['python']}; load average before the run {machine['load_before']}"
        + (f"; object store: {store}." if store else "."),
        f"- {packages}; commit {machine['commit']}.",
    ]


def save(report: Report, module: ModuleType, out: Path) -> None:
    """Writes ``{name}.json``, ``.md`` and ``.png`` into the directory."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
    (out / f"{report.name}.json").write_text(text + "\n")
    report = Report.from_json(json.loads(text))  # the page follows from what can be read again
    _plot(report, module, out / f"{report.name}.png")
    (out / f"{report.name}.md").write_text(page(report, module, plotted=True))


def load(name: str, out: Path = COMMITTED) -> Report:
    """A report that :func:`save` wrote."""
    return Report.from_json(json.loads((out / f"{name}.json").read_text()))


def _plot(report: Report, module: ModuleType, path: Path) -> None:
    # Slow to import, and wanted by nothing else.
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    getattr(module, "plot", _bars)(report, figure)
    figure.suptitle(report.title)
    figure.savefig(path, dpi=90)


def _bars(report: Report, figure: Any) -> None:
    """Units per second, a group of bars per set of parameters."""
    axes = figure.subplots()
    labels = list(dict.fromkeys(_label(result.params) for result in report.results))
    sides = report.values("side")
    for at, side in enumerate(sides):
        rates = {_label(r.params): r.rate for r in report.where(side=side)}
        places = [place + at / (len(sides) + 1) for place in range(len(labels))]
        axes.bar(places, [rates.get(label, 0) for label in labels], 1 / (len(sides) + 1), label=side)
    middle = (len(sides) - 1) / (len(sides) + 1) / 2
    axes.set_xticks([place + middle for place in range(len(labels))], labels)
    axes.tick_params("x", rotation=30 if len(labels) > 4 else 0, labelsize="small")
    units = dict.fromkeys(result.unit for result in report.results)
    axes.set_ylabel(f"{' / '.join(units)} per second")
    axes.legend()


def _label(params: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in params.items())


def main(names: Sequence[str]) -> None:
    """Renders the committed reports again, all or the named ones."""
    for name in names or sorted(path.stem for path in COMMITTED.glob("*.json")):
        save(load(name), bench(name), COMMITTED)


if __name__ == "__main__":
    main(sys.argv[1:])
