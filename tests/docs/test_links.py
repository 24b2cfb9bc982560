"""Links between the documents lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "README.md"])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
ELSEWHERE = ("http://", "https://", "mailto:")


def anchors(text: str) -> set[str]:
    """Makes the anchors of a page's headings, as GitHub does."""
    heads = [match["text"].lower() for match in HEADING.finditer(FENCE.sub("", text))]
    return {re.sub(r"[^\w\- ]", "", head).strip().replace(" ", "-") for head in heads}


def broken(page: Path, text: str) -> Iterator[str]:
    """Finds relative links of a page that lead nowhere."""
    for match in LINK.finditer(FENCE.sub("", text)):
        target = match["target"]
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if target.startswith(ELSEWHERE):
            continue
        is_there = file.exists() and file.is_relative_to(ROOT)
        if not is_there or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page leads to a file, and to a heading of it where it names one."""
    assert list(broken(page, page.read_text(encoding="utf-8"))) == []


def test_every_page_is_reached_from_the_way_in() -> None:
    """From the index of the documents every document is reached by links."""
    start = ROOT / "docs" / "index.md"
    seen, waiting = {start}, [start]
    while waiting:
        page = waiting.pop()
        for match in LINK.finditer(page.read_text(encoding="utf-8")):
            target = match["target"].partition("#")[0]
            file = (page.parent / target).resolve()
            if target.endswith(".md") and file.is_file() and file not in seen:
                seen.add(file)
                waiting.append(file)
    left = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - seen
    assert sorted(str(page.relative_to(ROOT)) for page in left) == []


@pytest.mark.parametrize("link", ["nowhere.md", "index.md#nowhere", "../../outside.md", "#nowhere"])
def test_a_broken_link_is_found(link: str) -> None:
    """A file, a heading and a place outside of the repository that cannot be linked to are each told."""
    page = ROOT / "docs" / "index.md"
    assert list(broken(page, f"[a](guides/tables.md) [b]({link})")) == [link]
