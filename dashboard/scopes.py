"""The scope of all analyses as the browser holds it: a short text in a store and in the URL, and what it means.

``s2-4`` are steps 2 to 4, ``t100-2000`` nanoseconds from the run's start, ``r0,2-5`` ranks, ``lstream%207,main`` lanes
by name, ``n`` the chosen nodes; ``~`` joins them: ``s2-4~r0``. It holds for every open run alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.analysis.steps import find_steps
from chakra_core.trace import Run
from dashboard.library import LoadedRun
from dashboard.nodes import nodes_in
from dashboard.state import Selection, ViewState
from dashboard.words import count, duration

__all__ = ["ScopeChoice", "numbers_text", "scope_in", "scope_of", "sentence", "steps_of"]

_SPAN = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_MOST = 4_096
_MOST_TEXT = 8_000
_MOST_CHOSEN = 50_000


@dataclass(frozen=True, slots=True)
class ScopeChoice:
    """What is chosen; None (False) means no restriction. Times are ns from the run's origin."""

    steps: tuple[int, int] | None = None
    window: tuple[int, int] | None = None
    ranks: frozenset[int] | None = None
    lanes: frozenset[str] | None = None
    chosen: bool = False

    @classmethod
    def parse(cls, text: object) -> ScopeChoice:
        """Read a text; parts that make no sense are left out.

        >>> ScopeChoice.parse("s2-4~r0,2-3").ranks == frozenset({0, 2, 3})
        True
        """
        found: dict[str, Any] = {}
        for part in str(text or "")[:_MOST_TEXT].split("~"):
            kind, rest = part[:1], part[1:]
            if kind == "n" and not rest:
                found["chosen"] = True
            elif kind == "l" and rest:
                found["lanes"] = frozenset(unquote(name) for name in rest.split(",") if name)
            elif kind == "r" and (ranks := _numbers(rest)):
                found["ranks"] = frozenset(ranks)
            elif kind in ("s", "t") and (match := _SPAN.fullmatch(rest)):
                ends = int(match[1]), int(match[2] or match[1])
                if kind == "s" and ends[0] <= ends[1]:
                    found["steps"] = ends
                elif kind == "t" and ends[0] < ends[1]:
                    found["window"] = ends
        return cls(**found)

    @property
    def text(self) -> str:
        """The text that ``parse`` reads back; empty for everything."""
        parts = []
        if self.steps is not None:
            parts.append(f"s{self.steps[0]}-{self.steps[1]}")
        if self.window is not None:
            parts.append(f"t{self.window[0]}-{self.window[1]}")
        if self.ranks is not None:
            parts.append(f"r{numbers_text(self.ranks)}")
        if self.lanes is not None:
            parts.append("l" + ",".join(quote(name, safe="").replace("~", "%7E") for name in sorted(self.lanes)))
        if self.chosen:
            parts.append("n")
        return "~".join(parts)


def numbers_text(numbers: frozenset[int]) -> str:
    """Numbers as ranges.

    >>> numbers_text(frozenset({0, 2, 3, 4}))
    '0,2-4'
    """
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _SPAN.fullmatch(part)
        if match and int(match[2] or match[1]) - int(match[1]) < _MOST:
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def steps_of(loaded: LoadedRun) -> dict[int, tuple[int, int]]:
    """The steps of a run by number: absolute start on the first rank that begins it, end on the last that ends it."""

    def compute(run: Run) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for trace in run.traces:
            for step in find_steps(trace):
                first, last = found.get(step.number, (step.start_ns, step.end_ns))
                found[step.number] = min(first, step.start_ns), max(last, step.end_ns)
        return dict(sorted(found.items()))

    return loaded.result("steps", compute)


def scope_of(choice: ScopeChoice, loaded: LoadedRun, at: int, nodes: object, selection: Selection | None) -> Scope:
    """What a choice means for the view's ``at``-th run.

    Steps and a time range restrict each other; steps that the run does not have leave nothing. The chosen nodes are
    those of ``nodes``, or the selected one where there are none.
    """
    run, window = loaded.run, None
    if choice.window is not None:
        window = choice.window[0] + run.origin_ns, choice.window[1] + run.origin_ns
    if choice.steps is not None:
        low, high = choice.steps
        inside = [span for number, span in steps_of(loaded).items() if low <= number <= high]
        first, last = (min(a for a, _ in inside), max(b for _, b in inside)) if inside else (0, 0)
        window = (first, last) if window is None else (max(first, window[0]), max(min(last, window[1]), first))
    chosen = None
    if choice.chosen:
        by_rank = nodes_in(nodes, at, run)
        pairs = [(rank, row) for rank, rows in by_rank.items() for row in rows[:_MOST_CHOSEN].tolist()]
        if not pairs and selection is not None and selection.run == at:
            pairs = [(selection.rank, selection.row)]
        chosen = frozenset(pairs) if pairs else None
    return Scope(window, choice.ranks, choice.lanes, chosen) if choice.text else WHOLE


def scope_in(state: ViewState, loaded: LoadedRun, at: int) -> Scope:
    """The scope of the view's ``at``-th run, as the state says."""
    return scope_of(ScopeChoice.parse(state.scope), loaded, at, state.nodes, state.selection)


def sentence(choice: ScopeChoice, loaded: LoadedRun, scope: Scope) -> str:
    """What the numbers are for, in words: the steps, 12.3 ms of 40 ms, the ranks."""
    run = loaded.run
    span = run.span_ns
    parts = []
    if choice.steps is not None:
        low, high = choice.steps
        marked = all(step.marked for trace in run.traces[:1] for step in find_steps(trace))
        how = "" if marked else " (detected from repetition)"
        parts.append((f"step {low}" if low == high else f"steps {low}\N{EN DASH}{high}") + how)
    if scope.window is not None:
        inside = max(min(scope.window[1], run.end_ns) - max(scope.window[0], run.origin_ns), 0)
        parts.append(f"{duration(inside)} of {duration(span)}")
    if scope.ranks is not None:
        have = sorted(scope.ranks & set(run.ranks))
        words = f"rank {have[0]}" if len(have) == 1 else f"ranks {numbers_text(frozenset(have))}" if have else "no rank"
        parts.append(f"{words} of {len(run.ranks):,}" if len(run.ranks) > 1 or not have else words)
    if scope.lanes is not None:
        parts.append(next(iter(scope.lanes)) if len(scope.lanes) == 1 else count(len(scope.lanes), "lane"))
    if scope.selection is not None:
        parts.append(f"{count(len(scope.selection), 'chosen node')} and what they launched")
    elif choice.chosen:
        parts.append("chosen nodes, but none is chosen: all of them")
    if not parts:
        return f"Numbers are for the whole run, {duration(span)}." if span else "Numbers are for the whole run."
    return f"Numbers are for {', '.join(parts)}."
