"""Fulltext bloom indexes: text cut into tokens and built into blobs, megabytes per second of CPU.

Everything here is computation on one core, so rates are taken over CPU time. The peer of the
English tokens is Python's ``re`` on one text after another, which cuts ASCII text the same way;
that of the Chinese ones is jieba alone, without what comes before and after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import rjieba

from benchmarks.model import Goal, Params, Report, Result, Table
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot
from lakehouse.format.index.fulltext_bloom import FulltextBloomBuilder
from lakehouse.format.text.config import Analyzer, FulltextConfig
from lakehouse.format.text.tokens import query_tokens, tokenize

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Fulltext bloom indexes: tokens and blobs"

_OURS = "lakehouse"
_RE, _JIEBA = "re, row by row", "jieba alone"
_BUILD_GOAL = 20.0
_SEED = 29
_ENGLISH = FulltextConfig()
_CHINESE = FulltextConfig(analyzer=Analyzer.CHINESE)


async def run(plan: Plan) -> Report:
    """Cuts and builds logs in three scripts, and cuts queries."""
    megabytes = plan.pick(quick=2, default=16, full=64)
    logs = _logs(megabytes)
    results: list[Result] = []
    for name, texts in logs.items():
        say(f"index_fulltext: {name}")
        config = _CHINESE if name == "Chinese" else _ENGLISH
        sides: dict[str, Callable[[], Any]] = {
            _OURS: lambda texts=texts, config=config: tokenize(texts, config)
        }
        sides |= _peers(name, texts)
        results += await _timed(plan, sides, texts, {"what": "tokens", "text": name})
        sides = {_OURS: lambda texts=texts, config=config: _build(texts, config)}
        results += await _timed(plan, sides, texts, {"what": "build", "text": name})
    results += await _queries(plan)
    return Report(
        name="index_fulltext",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            f"Logs of about {megabytes} MB; 10,240 rows a segment, rate 0.01.",
            "A build is tokens, their hashes and the filters.",
        ),
    )


def _logs(megabytes: int) -> Mapping[str, pa.Array]:
    """Lines of words that follow Zipf's law."""
    random = np.random.default_rng(_SEED)
    lines = megabytes * 8_000
    words = [f"word{number:x}" for number in random.permutation(30_000).tolist()]
    picks = np.minimum(random.zipf(1.3, (lines, 12)), len(words)) - 1
    english = [
        f"2026-11-18T12:03:{row % 60:02} INFO [worker-{row % 16}] GET /api/v1/{words[line[0]]} status=200 "
        + " ".join(words[pick] for pick in line)
        for row, line in enumerate(picks.tolist())
    ]
    mixed = [line + " — naïve café №7 ÜBER" for line in english]
    phrases = [
        "数据库系统的性能测试报告",
        "登录手机号失败请重试",
        "用户身份验证超时",
        "小明硕士毕业于中国科学院计算所",
    ]
    chosen = random.integers(0, len(phrases), (lines // 4, 3)).tolist()
    chinese = ["，".join(phrases[pick] for pick in line) + f" error_code={line[0]}" for line in chosen]
    return {
        "English, ASCII": pa.array(english),
        "English, mixed": pa.array(mixed),
        "Chinese": pa.array(chinese),
    }


def _peers(name: str, texts: pa.Array) -> dict[str, Callable[[], Any]]:
    rows: list[str] = texts.to_pylist()
    if name == "Chinese":
        return {_JIEBA: lambda: [rjieba.cut_for_search(row, True) for row in rows]}
    word = re.compile(r"\w+")
    return {_RE: lambda: [[token.encode() for token in word.findall(row.lower())] for row in rows]}


def _build(texts: pa.Array, config: FulltextConfig) -> bytes:
    builder = FulltextBloomBuilder(config)
    builder.push(texts)
    return builder.finish()


async def _queries(plan: Plan) -> list[Result]:
    say("index_fulltext: queries")
    results: list[Result] = []
    for name, text, config in (
        ("English", "Disk full on host-17", _ENGLISH),
        ("Chinese", "登录手机号失败", _CHINESE),
    ):

        def cut(text: str = text, config: FulltextConfig = config) -> None:
            for _ in range(200):
                query_tokens(text, config)

        results += await compare(
            [Case(side=_OURS, run=cut)],
            work=200,
            unit="queries",
            params={"what": "query", "text": name},
            warmup=plan.warmup,
            repeats=plan.repeats,
        )
    return results


async def _timed(
    plan: Plan, sides: Mapping[str, Callable[[], Any]], texts: pa.Array, params: Params
) -> list[Result]:
    cases = [Case(side=side, run=call) for side, call in sides.items()]
    return await compare(
        cases,
        work=texts.nbytes / 1e6,
        unit="MB",
        params=params,
        warmup=plan.warmup,
        repeats=plan.repeats,
    )


def goals(report: Report) -> list[Goal]:
    """Twenty megabytes of English text a second, from text to blob."""
    built = 1 / report.one(what="build", text="English, ASCII").cpu_per_unit
    return [
        Goal(
            text="MB/s of English text built into a fulltext bloom blob",
            target=f"≥ {_BUILD_GOAL:g}",
            measured=f"{built:.0f}",
            met=built >= _BUILD_GOAL,
        )
    ]


def tables(report: Report) -> list[Table]:
    """Tokens next to their peers, whole builds, and queries."""
    return [
        pivot(
            report.where(what="tokens"),
            title="Tokens: MB per second of CPU",
            rows="text",
            columns="side",
            cell=lambda r: f"{1 / r.cpu_per_unit:.1f}",
        ),
        pivot(
            report.where(what="build"),
            title="Build: MB per second of CPU",
            rows="text",
            columns="side",
            cell=lambda r: f"{1 / r.cpu_per_unit:.1f}",
        ),
        pivot(
            report.where(what="query"),
            title="Cutting a query: microseconds of CPU",
            rows="text",
            columns="side",
            cell=lambda r: f"{1e6 * r.cpu_per_unit:.0f}",
        ),
    ]
