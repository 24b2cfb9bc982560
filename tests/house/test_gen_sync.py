"""The generator of lakehouse.sync: what it makes of each kind of method, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.source_tree import ROOT, none_of
from tools.gen_sync import Rules, Unclear, generate

HEAD = '''
"""A module."""
import contextlib
import pyarrow as pa
from collections.abc import AsyncGenerator, AsyncIterator
from somewhere import Thing as Other
_Hidden = Other | int
Shown = str
'''


def made_of(body: str, head: str = HEAD, **rules: object) -> str:
    """The twin of a class One with this body; Two has a twin elsewhere."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    given: dict[str, object] = {"attributes": {}, "left_out": {}, "replaced": {}, **rules}
    twins = {"One": "twins.one", "Two": "twins.two"}
    text = f'{head}\nclass One:\n    """One."""\n{lines}\n'
    made = generate("lakehouse/one.py", text, Rules(twins=twins, **given))  # type: ignore[arg-type]
    compile(made, "twin", "exec")
    return made


def test_the_committed_twin_is_fresh() -> None:
    """What is committed is what the generator makes of the async classes now."""
    command = [sys.executable, "tools/gen_sync.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    none_of(done.stdout.splitlines() + done.stderr.splitlines(), "stale modules (make docs writes them):")
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("method", "signature", "result"),
    [
        (
            "async def m(self, a: int, *b: str, c: bool = True, **d: int) -> int:",
            "def m(self, a: int, *b: str, c: bool=True, **d: int) -> int:",
            "self._bridge.call(self._wrapped.m, a, *b, c=c, **d)",
        ),
        ("def m(self, a: int) -> int:", "def m(self, a: int) -> int:", "self._wrapped.m(a)"),
        ("def m(self) -> Two:", "def m(self) -> Two:", "Two(self._wrapped.m(), self._bridge)"),
        (
            "async def m(self) -> One:",
            "def m(self) -> One:",
            "One(self._bridge.call(self._wrapped.m), self._bridge)",
        ),
        (
            "async def m(self, a: int) -> AsyncIterator[int]:",
            "def m(self, a: int) -> Generator[int, None, None]:",
            "self._bridge.iterate(self._wrapped.m, a)",
        ),
        (
            "async def m(self) -> AsyncGenerator[pa.Table, None]:",
            "def m(self) -> Generator[pa.Table, None, None]:",
            "self._bridge.iterate(self._wrapped.m)",
        ),
        (
            "@contextlib.asynccontextmanager\nasync def m(self) -> AsyncIterator[int]:",
            "def m(self) -> AbstractContextManager[int]:",
            "self._bridge.hold(self._wrapped.m)",
        ),
        ("@property\ndef m(self) -> int:", "@property\n    def m(self) -> int:", "self._wrapped.m"),
        (
            "@property\ndef m(self) -> Two:",
            "@property\n    def m(self) -> Two:",
            "Two(self._wrapped.m, self._bridge)",
        ),
    ],
)
def test_a_method_becomes_a_stub(method: str, signature: str, result: str) -> None:
    """Each kind of method is handed to the bridge in the way that fits it."""
    made = made_of(f'{method}\n    """M."""')
    assert f'    {signature}\n        """M."""\n        return {result}\n' in made


def test_an_async_context_becomes_a_context() -> None:
    """A class that is entered is entered through the bridge, and can be closed."""
    made = made_of("async def __aenter__(self) -> int: ...")
    assert "def __enter__(self) -> Self:\n        self._bridge.open()" in made
    assert "def close(self) -> None:" in made


def test_names_are_imported_from_where_they_are() -> None:
    """The twin imports what its signatures name, and writes out private names of types."""
    made = made_of('async def m(self, a: _Hidden, b: Shown, c: Two) -> pa.Table:\n    """M."""')
    assert "import pyarrow as pa" in made
    assert "from somewhere import Thing as Other" in made
    assert "from lakehouse.one import Shown" in made
    assert "from twins.two import Two" in made
    assert "a: Other | int, b: Shown" in made
    assert "contextlib" not in made


def test_private_methods_have_no_twin() -> None:
    """Only what people may use is there."""
    assert "_m" not in made_of("async def _m(self) -> int: ...").replace("_wrapped.m", "")


def test_docstrings_are_translated() -> None:
    """Examples lose their await, by rules that say what becomes what; backslashes stay what they are."""
    body = 'async def m(self) -> None:\n    """M.\n\n    Example::\n\n        await x.m("\\\\n")\n    """'
    made = made_of(body, replaced={r"\bawait ": ""})
    assert '            x.m("\\\\n")' in made


def test_attributes_are_passed_through_or_left_out() -> None:
    """Public attributes become properties, as a rule says, and members with a reason are left out."""
    body = "def __init__(self) -> None:\n    self.a, self._c = 1, 3\n    self.b = 2\ndef d(self) -> int: ..."
    made = made_of(body, attributes={"One.a": ("int", "An a.")}, left_out={"One.b": "no", "One.d": "no"})
    assert 'def a(self) -> int:\n        """An a."""\n        return self._wrapped.a' in made
    assert "def b" not in made
    assert "def d" not in made


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("def m(self) -> int: ...", "no docstring"),
        ('async def m(self):\n    """M."""', "One.m does not say what it returns"),
        ('async def m(self) -> list[Two]:\n    """M."""', "only .* themselves become twins"),
        ('@staticmethod\ndef m() -> int:\n    """M."""', "a method that is staticmethod"),
        ('async def m(self, a: Unheard) -> int:\n    """M."""', "where does the name Unheard come from"),
        ("def __init__(self) -> None:\n    self.a = 1", "attribute One.a"),
    ],
)
def test_what_is_unclear_is_refused(method: str, said: str) -> None:
    """What the rules do not cover is an error that names it."""
    with pytest.raises(Unclear, match=said):
        made_of(method)


def test_a_module_without_a_twin_is_refused() -> None:
    """A source that holds nothing to translate is a mistake in the list of sources."""
    with pytest.raises(Unclear, match="no class that has a twin"):
        generate("lakehouse/x.py", "x = 1", Rules(twins={}, attributes={}, left_out={}, replaced={}))


def test_unused_rules_are_known() -> None:
    """A rule that nothing needed any more is reported."""
    given = Rules(
        twins={"One": "twins.one"},
        attributes={"One.gone": ("int", "Gone.")},
        left_out={"One.m": "no", "One.away": "no"},
        replaced={"await": "", "never": ""},
    )
    generate("lakehouse/one.py", 'class One:\n    """To await."""\n    def m(self) -> int: ...\n', given)
    assert given.unused() == ["One.away", "One.gone", "never"]
