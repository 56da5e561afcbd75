"""What the call trees of runs tell about which work corresponds, as keys that go before those of names and shapes.

The trees of every run and the baseline are matched (``trees``). Where an operator of the baseline stands at the place
of one of that name with other shapes, and neither is as frequent on both sides (else it has met its like already),
both get the key of the *place*; what is split or fused gets that of its *region*; what is pinned, that of the *pin*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.alike import How, Keys, counted_as, normalise_operator, operator_keys
from chakra_core.analysis.operators import operator_mask
from chakra_core.analysis.pins import NO_PINS, Pins
from chakra_core.analysis.trees import Likeness, TreeMatch, match_traces
from chakra_core.trace import Run, Trace

__all__ = ["hints_of"]

I64 = NDArray[np.int64]

_MOST_RANKS = 8
_LONGEST = 4
"""Names of a region that its key spells out."""


def hints_of(runs: Sequence[Run], baseline: int, keys: Keys, pins: Mapping[int, Pins]) -> list[dict[int, I64]]:
    """Hints for every run, by rank. The trees of at most eight ranks of a run are matched; more differ little.

    Args:
        runs: the runs.
        baseline: which of them the others are matched with.
        keys: numbers of keys, to which those of places, regions and pins are added.
        pins: by run, its pins with the baseline.
    """
    found = [{rank: np.full(len(trace), -1, np.int64) for rank, trace in zip(run.ranks, run.traces, strict=True)}
             for run in runs]  # fmt: skip
    base = runs[baseline]
    for at, run in enumerate(runs):
        if at == baseline:
            continue
        for rank, other in _pairs(base, run):
            traces = base.by_rank(rank), run.by_rank(other)
            pinned = pins.get(at, NO_PINS)
            if all(operator_mask(trace).any() for trace in traces):
                match = match_traces(*traces, pinned, (rank, other))
                _places(traces, match, keys, (found[baseline][rank], found[at][other]))
        _pin(base, run, pins.get(at, NO_PINS), keys, (found[baseline], found[at]))
    return found


def _pairs(base: Run, run: Run) -> list[tuple[int, int]]:
    """Ranks of the baseline and of a run that are matched: those of the same number, else the first with the first."""
    same = [(rank, rank) for rank in run.ranks if rank in base.ranks]
    return same[:_MOST_RANKS] or [(base.ranks[0], run.ranks[0])]


def _places(traces: tuple[Trace, Trace], match: TreeMatch, keys: Keys, hints: tuple[I64, I64]) -> None:
    a, b = traces
    own_a, own_b = operator_keys(a, match.rows_a, keys)[:, 0], operator_keys(b, match.rows_b, keys)[:, 0]
    size = len(keys.texts)
    count_a = np.bincount(operator_keys(a, match.considered_a, keys)[:, 0], minlength=size)
    count_b = np.bincount(operator_keys(b, match.considered_b, keys)[:, 0], minlength=size)
    size = max(len(count_a), len(count_b), len(keys.texts))
    count_a, count_b = (np.pad(count, (0, size - len(count))) for count in (count_a, count_b))
    uneven = count_a != count_b
    placed = np.flatnonzero((own_a != own_b) & (uneven[own_a] | uneven[own_b]) & (match.how == Likeness.NAME))
    used, where = np.unique(own_a[placed], return_inverse=True)
    numbers = np.array([keys.number(How.PLACE, keys.texts[key]) for key in used.tolist()] or [0], np.int64)
    hints[0][match.rows_a[placed]] = hints[1][match.rows_b[placed]] = numbers[where]
    for region in match.regions:
        number = keys.number(How.REGION, _title(a, region.rows_a))
        hints[0][list(region.rows_a)] = hints[1][list(region.rows_b)] = number


def _title(trace: Trace, rows: tuple[int, ...]) -> str:
    names = list(dict.fromkeys(normalise_operator(trace.name_of(row)) for row in rows))
    return " + ".join(names[:_LONGEST]) + (f" + {len(names) - _LONGEST} more" if len(names) > _LONGEST else "")


def _pin(base: Run, run: Run, pins: Pins, keys: Keys, hints: tuple[dict[int, I64], dict[int, I64]]) -> None:
    """Pinned names meet whatever their shapes; pinned nodes alone."""
    targets = {normalise_operator(name) for name in pins.aliases.values()}
    for side, (of, aliases) in enumerate(((base, {}), (run, pins.aliases))):
        for rank, trace in zip(of.ranks, of.traces, strict=True):
            names = [counted_as(name, aliases) for name in trace.names]
            codes = [keys.number(How.PINNED, name) if name in targets else -1 for name in names]
            number = np.array([*codes, -1], np.int64)[trace.columns.name]
            number[~operator_mask(trace)] = -1
            hints[side][rank][number >= 0] = number[number >= 0]
    for pin in pins.nodes:
        a = base.by_rank(pin.rank_a)
        text = f"{normalise_operator(a.name_of(pin.row_a))} #{int(a.columns.id[pin.row_a])}"
        number_of = keys.number(How.PINNED, text)
        hints[0][pin.rank_a][pin.row_a] = hints[1][pin.rank_b][pin.row_b] = number_of
