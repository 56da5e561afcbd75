"""Dependencies in Legion profiler logs: which operation's end an event stands for, through mergers and triggers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._legion_format import LegionLog

__all__ = ["EventGraph"]

I64 = NDArray[np.int64]

_PRECONDITIONS = {
    "EventMergerInfo": ("pre0", "pre1", "pre2", "pre3"),
    "CompletionQueueInfo": ("pre0", "pre1", "pre2", "pre3"),
    "EventTriggerInfo": ("precondition",),
    "BarrierArrivalInfo": ("precondition",),
    "ReservationAcquireInfo": ("precondition",),
    "InstanceReadyInfo": ("precondition",),
    "InstanceRedistrictInfo": ("precondition",),
}
"""Records that say an event happens after others, and their fields that name those."""

_ROUNDS = 64
_MOST_PAIRS = 50_000_000


class EventGraph:
    """Maps events to the rows whose end they stand for."""

    def __init__(self, log: LegionLog, finish: I64, rows: I64) -> None:
        """Take the finish events of rows; those that name no event (0) are left out.

        Args:
            log: the log, for its mergers and triggers.
            finish: event at the end of each row.
            rows: the rows, parallel to ``finish``.
        """
        named = finish != 0
        order = np.argsort(finish[named], kind="stable")
        self._finish, self._rows = finish[named][order], rows[named][order]
        results, before = [], []
        for record, fields in _PRECONDITIONS.items():
            result = log.numbers(record, "result")
            columns = [log.numbers(record, field) for field in fields]
            if record == "EventTriggerInfo":  # without a precondition, who triggered it
                columns[0] = np.where(columns[0] == 0, log.numbers(record, "fevent"), columns[0])
            for column in columns:
                kept = (column != 0) & (column != result)
                results.append(result[kept])
                before.append(column[kept])
        result, pre = np.concatenate(results), np.concatenate(before)
        order = np.argsort(result, kind="stable")
        self._result, self._pre = result[order], pre[order]

    def row_of(self, events: I64) -> I64:
        """Row that ends with each event; -1 where none does."""
        if not len(self._finish):
            return np.full(len(events), -1, np.int64)
        at = np.minimum(np.searchsorted(self._finish, events), len(self._finish) - 1)
        return np.where((self._finish[at] == events) & (events != 0), self._rows[at], -1)

    def resolve(self, targets: I64, events: I64) -> tuple[I64, I64, int]:
        """Rows that must end before ``events`` happen, as pairs (source row, target row), and what led nowhere.

        Args:
            targets: rows that wait.
            events: the event each of them waits for; 0 where it waits for none.
        """
        kept = events != 0
        target, event = targets[kept], events[kept]
        sources: list[I64] = []
        waiting: list[I64] = []
        resolved = [np.zeros(0, np.int64)]
        for _ in range(_ROUNDS):
            row = self.row_of(event)
            found = row >= 0
            sources.append(row[found])
            waiting.append(target[found])
            resolved.append(target[found])
            target, event = self._expand(target[~found], event[~found])
            if not len(target):
                break
        asked = np.unique(targets[kept])
        lost = int(len(asked) - np.isin(asked, np.concatenate(resolved)).sum())
        return np.concatenate(sources), np.concatenate(waiting), lost

    def _expand(self, target: I64, event: I64) -> tuple[I64, I64]:
        """The events before those given, once per target."""
        first, last = np.searchsorted(self._result, event), np.searchsorted(self._result, event, "right")
        count = last - first
        if not count.sum() or count.sum() > _MOST_PAIRS:
            return target[:0], event[:0]
        at = np.repeat(first - np.concatenate(([0], np.cumsum(count)[:-1])), count) + np.arange(count.sum())
        target, event = np.repeat(target, count), self._pre[at]
        order = np.lexsort((event, target))
        target, event = target[order], event[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (target[1:] != target[:-1]) | (event[1:] != event[:-1])
        return target[new], event[new]
