"""Which of several opened traces are host and device side of one rank, and linking them."""

from __future__ import annotations

from collections.abc import Sequence

from chakra_core.link.combine import link
from chakra_core.link.match import LinkRefused
from chakra_core.schema import NO_TIME, Severity
from chakra_core.trace import HealthFinding, Trace

__all__ = ["is_device_side", "is_host_side", "link_traces"]


def is_host_side(trace: Trace) -> bool:
    """Whether a trace is a host execution trace without times of its own."""
    return trace.meta.format == "pytorch-et" and not bool((trace.columns.start_ns != NO_TIME).any())


def is_device_side(trace: Trace) -> bool:
    """Whether a trace is a PyTorch profile."""
    return trace.meta.format in ("kineto", "chrome")


def link_traces(traces: Sequence[Trace]) -> tuple[list[Trace], list[HealthFinding]]:
    """Link every host trace with the profile of its rank; the others stay as they are.

    Ranks are those that the files state or are named by; where that leaves one of each, they are a pair. Of a pair
    that is refused the profile is kept, and the finding holds the evidence.
    """
    hosts = [trace for trace in traces if is_host_side(trace)]
    devices = [trace for trace in traces if is_device_side(trace)]
    if not hosts or not devices:
        return list(traces), []
    partner = _partners(hosts, devices)
    done: list[Trace] = []
    findings: list[HealthFinding] = []
    used: set[int] = set()
    for trace in traces:
        mate = partner.get(id(trace))
        if is_device_side(trace) and mate is not None:
            used.add(id(mate))
            try:
                done.append(link(mate, trace))
            except LinkRefused as error:
                done.append(trace)
                findings.append(
                    HealthFinding("link-refused", Severity.ERROR, 1, str(error), "The profile is shown alone.")
                )
        elif not is_host_side(trace):
            done.append(trace)
    left = [trace for trace in hosts if id(trace) not in used]
    if left:
        text = f"{len(left)} host traces have no profile of their rank and are left out ({left[0].meta.path})."
        findings.append(
            HealthFinding("link-alone", Severity.WARNING, len(left), text, "Add the profiles of these ranks.")
        )
    return done, findings


def _partners(hosts: Sequence[Trace], devices: Sequence[Trace]) -> dict[int, Trace]:
    """The host trace of each profile, by the profile's identity."""
    if len(hosts) == len(devices) == 1:
        return {id(devices[0]): hosts[0]}
    by_rank: dict[int, Trace] = {}
    for at, host in enumerate(hosts):
        by_rank.setdefault(host.meta.rank if host.meta.rank >= 0 else -1 - at, host)
    found = {id(device): by_rank[device.meta.rank] for device in devices if device.meta.rank in by_rank}
    if not found and len(hosts) == len(devices):
        return {id(device): host for device, host in zip(devices, hosts, strict=True)}
    return found
