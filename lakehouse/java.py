"""Java: whether this machine has one that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

__all__ = ["java_problem"]

_JAVA_MIN = 17
_REPORT_S = 20


def java_problem() -> str | None:
    """Returns why Spark cannot run on this machine; None when it can."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)  # io-ok: where a program is
    wanted = f"Spark needs Java {_JAVA_MIN} or newer"
    if java is None:
        return f"{wanted}: there is none in {'JAVA_HOME (' + home + ')' if home else 'PATH'}"
    try:
        asked = subprocess.run(  # noqa: S603 - what Spark runs as well
            [java, "-version"], capture_output=True, text=True, timeout=_REPORT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{wanted}: {java} does not run: {error}"
    version = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    if version is None:
        return f"{wanted}: {java} does not say its version"
    if int(version[1]) < _JAVA_MIN:
        return f"{wanted}: {java} is Java {version[1]}"
    return None
