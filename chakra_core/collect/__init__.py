"""Record a run where it happens, and write it as Chakra ``.et``: PyTorch, JAX and TensorFlow.

Each is a context manager around the steps to record; the framework is imported when it is entered, never before::

    from chakra_core.collect import record_pytorch

    with record_pytorch("run", warmup=1, active=2) as recorder:
        for batch in batches:
            train(batch)
            recorder.step()

Every rank does this with the same folder. Afterwards ``run/host`` and ``run/kineto`` hold a host execution trace and a
Kineto trace of the same steps per rank, and ``run/trace.<rank>.et`` the two linked.

FlexFlow and ASTRA-sim are programs that write their own files; nothing has to be wrapped:

- FlexFlow, task graph of the simulated strategy: ``--taskgraph FILE`` (21.03 to 22.07); computation graph with costs:
  ``--compgraph FILE --include-costs-dot-graph``, and keep standard output, which holds the graph with its devices.
- FlexFlow and Legion, measured timeline: ``-lg:prof N -lg:prof_logfile prof_%.gz`` with N the number of processes; open
  the folder of ``prof_*.gz``.
- ASTRA-sim, simulated timeline: ``"trace-enabled": 1`` in the system JSON and ``--logging-folder log``; open
  ``log/log.log``. Without it, save the console output: it holds the totals.
"""

from __future__ import annotations

from chakra_core.collect.pytorch import PyTorchRecorder, Recorded, record_pytorch
from chakra_core.collect.xplane import XPlaneRecorder, record_jax, record_tensorflow

__all__ = ["PyTorchRecorder", "Recorded", "XPlaneRecorder", "record_jax", "record_pytorch", "record_tensorflow"]
