"""Process groups laid over the levels of the target's network otherwise than their ranks' order gives.

A mapping is pairs of a group's name and a place: ``inside``, each group packed into as few scale-up domains as hold
it, or ``across``, every member in a domain of its own. A name stands for groups that bear it, or whose description
does (``tp`` finds ``mesh_tp``); ``all`` for those that hold every rank.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import AnalysisError
from chakra_core.schema import CommOp
from chakra_core.trace import ProcessGroup, Run, Trace

__all__ = ["PLACES", "Mapping", "check_mapping", "group_labels", "map_spread", "mapping_text", "parse_mapping"]

I64 = NDArray[np.int64]
Mapping = tuple[tuple[str, str], ...]

PLACES: tuple[str, ...] = ("inside", "across")
"""Where groups may be put."""

_EVERYONE = "all"
_MOST = 64


def parse_mapping(text: str) -> Mapping:
    """The mapping that a text such as ``tp=inside,dp=across`` states.

    >>> parse_mapping("tp=inside, dp=across")
    (('tp', 'inside'), ('dp', 'across'))

    Raises:
        ValueError: it is not of that form.
    """
    pairs = []
    for entry in text.split(",") if text.strip() else ():
        name, found, place = (part.strip() for part in entry.rpartition("="))
        if not found or not name or place not in PLACES:
            raise ValueError(f"a mapping reads GROUP=inside,GROUP=across, not {text[:80]!r}")
        pairs.append((name, place))
    if len(pairs) > _MOST:
        raise ValueError(f"a mapping names at most {_MOST} groups")
    return tuple(pairs)


def mapping_text(mapping: Mapping) -> str:
    """The text that :func:`parse_mapping` reads."""
    return ",".join(f"{name}={place}" for name, place in mapping)


def group_labels(run: Run) -> tuple[str, ...]:
    """Names under which a run's groups can be mapped: their descriptions, else their names; sorted, each once."""
    groups = [*run.groups, *(group for trace in run.traces for group in trace.meta.groups)]
    labels = {(group.description or group.name).strip() for group in groups}
    return tuple(sorted(label for label in labels if label and not set(label) & set("=,")))


def check_mapping(run: Run, mapping: Mapping) -> None:
    """Refuse names that stand for no group.

    Raises:
        AnalysisError: one does; the message lists what there is.
    """
    for name, _ in mapping:
        if name == _EVERYONE or any(_stands_for(name, group) for trace in run.traces for group in trace.meta.groups):
            continue
        known = ", ".join(group_labels(run)[:12]) or "none is named"
        raise AnalysisError(f"no process group {name!r} in {run.label}; its groups: {known}")


def map_spread(trace: Trace, sizes: I64, spread: I64, domain: int, mapping: Mapping) -> I64:
    """Scale-up domains of each row's group (int64) with a mapping applied.

    Args:
        trace: whose rows.
        sizes: ranks in each row's group.
        spread: domains without the mapping.
        domain: devices in one.
        mapping: the last pair that stands for a group counts.
    """
    if not mapping:
        return spread
    groups = (*trace.meta.groups, ProcessGroup(""))
    place = np.full(len(groups), -1, np.int8)
    for name, where in mapping:
        for at, one in enumerate(groups):
            everyone = at == len(groups) - 1 or len(one.ranks) == trace.meta.world_size > 0
            if (name == _EVERYONE and everyone) or _stands_for(name, one):
                place[at] = PLACES.index(where)
    group = trace.columns.comm_group
    chosen = place[np.where((group >= 0) & (group < len(groups) - 1), group, len(groups) - 1)]
    chosen = np.where(np.isin(trace.columns.comm_op, (CommOp.SEND, CommOp.RECV)) & (group < 0), -1, chosen)
    inside = np.maximum(-(-sizes // max(domain, 1)), 1)
    return np.where(chosen == 0, inside, np.where(chosen == 1, sizes, spread)).astype(np.int64)


def _stands_for(name: str, group: ProcessGroup) -> bool:
    wanted = name.casefold()
    if wanted in (group.name.casefold(), group.description.casefold()):
        return True
    return bool(re.search(rf"(?<![a-z0-9]){re.escape(wanted)}(?![a-z0-9])", group.description.casefold()))
