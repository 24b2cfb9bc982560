"""What ran the benchmark: enough to compare runs, nothing that names the machine or its owner."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["describe"]

_PACKAGES = (
    "aiobotocore",
    "aiohttp",
    "anyio",
    "botocore",
    "cachetools",
    "deltalake",
    "duckdb",
    "fsspec",
    "lakehouse",
    "numpy",
    "obstore",
    "pyarrow",
    "pyiceberg",
    "pypaimon",
    "pyspark",
    "s3fs",
    "slatedb",
    "tantivy",
    "theine",
)


def describe() -> dict[str, Any]:
    """Processor, memory, kernel, Python, packages, commit and load; no host name, no path."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "commit": _commit(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of this checkout; None outside of one."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    here = Path(__file__).parent
    try:
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
