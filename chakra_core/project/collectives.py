"""How long a collective takes: alpha-beta models, vectorised over nodes.

alpha is the time of one step without data (ns), beta the time of one byte (1/bandwidth). For n ranks and S bytes:

=================  ==========================  ====================  =========================================
operation          bytes sent by each rank     steps                 S is
=================  ==========================  ====================  =========================================
all-reduce         2 (n - 1)/n S               2 (n - 1)             the buffer
reduce-scatter     (n - 1)/n S                 n - 1                 the input of one rank
all-gather         (n - 1) S                   n - 1                 the input of one rank (output is n S)
all-to-all         (n - 1)/n S                 n - 1                 the input of one rank
broadcast, reduce  S                           n - 1                 the buffer
gather, scatter    (n - 1) S, (n - 1)/n S      n - 1                 as all-gather, as reduce-scatter
barrier            0                           2 (n - 1)
send, receive      S                           1                     the message
=================  ==========================  ====================  =========================================

Sources: ring algorithms: R. Thakur, R. Rabenseifner, W. Gropp, *Optimization of collective communication operations
in MPICH* (2005), sections 4.1 to 4.5; step counts and the sum latency + steps x alpha + bytes x beta as NCCL's tuner
takes them (``src/graph/tuning.cc``). Pipelined broadcast and reduce move S once (same, section 4.2, long messages).
S follows Chakra's ``comm_size``, the bytes of a rank's input tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import CommOp

__all__ = ["collective_ns", "ring_steps", "ring_volume"]

F64 = NDArray[np.float64]


def ring_volume(op: Any, members: Any) -> F64:
    """Bytes each rank sends per byte of S, by operation and group size (parallel arrays)."""
    ops, n = np.asarray(op), np.maximum(np.asarray(members, np.float64), 1.0)
    share = (n - 1.0) / n
    volume = np.zeros(np.broadcast(ops, n).shape)
    for value, factor in (
        (CommOp.ALL_REDUCE, 2.0 * share),
        (CommOp.REDUCE_SCATTER, share),
        (CommOp.REDUCE_SCATTER_BLOCK, share),
        (CommOp.SCATTER, share),
        (CommOp.ALL_TO_ALL, share),
        (CommOp.ALL_GATHER, n - 1.0),
        (CommOp.GATHER, n - 1.0),
        (CommOp.BROADCAST, np.where(n > 1.0, 1.0, 0.0)),
        (CommOp.REDUCE, np.where(n > 1.0, 1.0, 0.0)),
        (CommOp.SEND, np.ones_like(n)),
        (CommOp.RECV, np.ones_like(n)),
        (CommOp.UNKNOWN, 2.0 * share),
    ):
        volume = np.where(ops == value, factor, volume)
    return volume


def ring_steps(op: Any, members: Any) -> F64:
    """Steps that each cost one latency, by operation and group size (parallel arrays)."""
    ops, n = np.asarray(op), np.maximum(np.asarray(members, np.float64), 1.0)
    twice = np.isin(ops, [CommOp.ALL_REDUCE, CommOp.BARRIER, CommOp.UNKNOWN])
    single = np.isin(ops, [CommOp.SEND, CommOp.RECV])
    steps = np.where(twice, 2.0 * (n - 1.0), n - 1.0)
    return np.where(single, 1.0, np.where(ops == CommOp.NONE, 0.0, steps))


def collective_ns(op: Any, size: Any, members: Any, bandwidth: Any, latency_ns: Any) -> F64:
    """Time of each operation in ns, by the table of this module.

    Args:
        op: CommOp of each operation; ``UNKNOWN`` is taken for an all-reduce, the dearest.
        size: S in bytes.
        members: ranks in the group; 1 takes no time.
        bandwidth: B/s per direction that one rank can use.
        latency_ns: of one step.
    """
    moved = ring_volume(op, members) * np.maximum(np.asarray(size, np.float64), 0.0)
    transfer: F64 = moved / np.asarray(bandwidth, np.float64) * 1e9
    return transfer + ring_steps(op, members) * np.asarray(latency_ns, np.float64)
