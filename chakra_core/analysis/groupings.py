"""Other ways to say what work of one run corresponds to: its step, its module, its layer, its node's name or id."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.align import Work
from chakra_core.analysis.alike import How, Keys
from chakra_core.analysis.steps import find_steps
from chakra_core.schema import NO_TIME, Category, Domain
from chakra_core.trace import Trace

__all__ = ["GROUPINGS", "regroup"]

I64 = NDArray[np.int64]

GROUPINGS: dict[str, str] = {
    "operator": "operator and shapes",
    "step": "step, the first with the first",
    "module": "annotation or module around it",
    "layer": "name, numbers folded: all layers of a kind as one",
    "name": "node name",
    "id": "node id",
}
"""What work can be known by, with words for each."""

_DIGITS = re.compile(r"\d+")
_MOST_IDS = 200_000


def regroup(trace: Trace, part: Work, by: str, keys: Keys) -> Work:
    """The same work of one trace with other keys; ``by`` is one of ``GROUPINGS`` other than *operator*.

    Step: the one in which the work was launched. Module: the innermost annotation around the operator that has a
    counterpart. Name and layer: of the innermost operator, of the work itself where it has none.
    """
    pieces = np.arange(len(part), dtype=np.int64)
    first = np.searchsorted(part.piece, pieces, side="left")
    inner = part.row[first]
    last = np.searchsorted(part.piece, pieces, side="right") - 1
    own = part.row[last] if part.on_device else inner
    if by == "module":
        return _modules(trace, part, own, keys)
    if by == "step":
        numbers = _steps(trace, own, keys)
    elif by == "id":
        numbers = np.array([keys.number(How.GROUP, f"#{node}") for node in trace.columns.id[own].tolist()], np.int64)
    else:
        numbers = _names(trace, own if by == "name" else inner, keys, fold=by == "layer")
    return _one_link(part, pieces, numbers, own if by in ("name", "id") else inner)


def _one_link(part: Work, piece: I64, key: I64, row: I64) -> Work:
    at = part.trace[:1] if len(part.trace) else np.zeros(1, np.int64)
    return replace(part, piece=piece, key=key, row=row, trace=np.full(len(piece), at[0], np.int64))


def _names(trace: Trace, rows: I64, keys: Keys, *, fold: bool) -> I64:
    used, where = np.unique(trace.columns.name[rows], return_inverse=True)
    texts = [trace.names[code] for code in used.tolist()]
    numbers = [keys.number(How.GROUP, _DIGITS.sub("#", text) if fold else text) for text in texts]
    return np.array(numbers, np.int64)[where] if numbers else np.zeros(0, np.int64)


def _steps(trace: Trace, rows: I64, keys: Keys) -> I64:
    """The n-th step of every run is the same one, whatever number it bears."""
    c = trace.columns
    launch = c.parent[rows]
    start = np.where(launch >= 0, c.start_ns[launch], NO_TIME)
    start = np.where(start == NO_TIME, c.start_ns[rows], start)
    steps = find_steps(trace)
    begin = np.array([step.start_ns for step in steps], np.int64)
    end = np.array([step.end_ns for step in steps], np.int64)
    at = np.searchsorted(begin, start, side="right") - 1
    inside = at >= 0
    inside[inside] = start[inside] < end[at[inside]]
    numbers = np.array(
        [keys.number(How.GROUP, f"step {place + 1}") for place in range(len(steps))]
        + [keys.number(How.GROUP, "outside all steps")],
        np.int64,
    )
    return numbers[np.where(inside, at, len(steps))]


def _modules(trace: Trace, part: Work, own: I64, keys: Keys) -> Work:
    """Annotations and modules around each piece, innermost first; those of steps are left out."""
    from chakra_core.analysis._climb import chains

    c = trace.columns
    chosen = np.array([name.startswith("nn.Module: ") for name in trace.names] + [False], np.bool_)
    marked = (c.domain == Domain.HOST) & (
        (c.category == Category.ANNOTATION) | ((c.category == Category.PYTHON) & chosen[c.name])
    )
    marked &= ~_step_annotations(trace)[c.name] if len(trace.names) else marked
    piece, row = chains(own, c.parent, marked)
    everything = np.arange(len(own), dtype=np.int64)
    number = np.r_[
        _names(trace, row, keys, fold=False),
        np.full(len(own), keys.number(How.GROUP, "in no annotation")),
    ]
    order = np.argsort(np.r_[piece, everything], kind="stable")
    return _one_link(part, np.r_[piece, everything][order], number[order], np.r_[row, own][order])


def _step_annotations(trace: Trace) -> NDArray[np.bool_]:
    step = re.compile(r"^(?:ProfilerStep|Iteration|iteration|train_step|step)[\s#_:]*\d+$")
    return np.array([bool(step.match(name)) for name in trace.names], np.bool_)
