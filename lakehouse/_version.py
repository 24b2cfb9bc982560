"""Name of the distribution and version of the package: the one place that defines either."""

__all__ = ["DISTRIBUTION", "__version__", "install_command"]

DISTRIBUTION = "aiolakehouse"
"""Name of the distribution: on PyPI, ``lakehouse``, the name of the import, is another project's."""
__version__ = "0.1.0"


def install_command(*extras: str) -> str:
    """Returns the command that installs the package with extras, for messages."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'" if extras else f"pip install {DISTRIBUTION}"
