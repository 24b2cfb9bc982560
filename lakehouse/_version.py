"""Name of the distribution and version of the package: the one place that says either."""

__all__ = ["DISTRIBUTION", "__version__", "install_command"]

DISTRIBUTION = "aiolakehouse"
"""Name of the distribution: ``lakehouse``, the name of the import, is another project's on PyPI."""
__version__ = "0.1.0"


def install_command(*extras: str) -> str:
    """The command that installs the package with extras, as messages tell it."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'" if extras else f"pip install {DISTRIBUTION}"
