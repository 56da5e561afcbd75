"""How far projections were from the same model measured on the other device: checked in the tests, said beside results.

Three public PyTorch models, each profiled on an H100 and on an MI300X, are projected from one to the other and back.
Peaks alone say that an MI300X runs these kernels faster than an H100; measured, it ran them slower: the software
reached a smaller share of its peaks there, which no projection from the other side can know. The two small models are
bound by their launches, so that their span is off by less.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MEASURED", "PairError", "stated_error"]


@dataclass(frozen=True, slots=True)
class PairError:
    """A projection beside the measurement: projected over measured, minus 1.

    Attributes:
        model: what ran.
        source: device that it was measured on.
        target: device that it was projected onto, and measured on too.
        kernels: error of the sum of kernel times.
        span: error of the time from the first to the last work of the device.
    """

    model: str
    source: str
    target: str
    kernels: float
    span: float


MEASURED: tuple[PairError, ...] = (
    PairError("nsfw_image_detection (ViT)", "H100 SXM", "MI300X", -0.479, 0.101),
    PairError("Qwen1.5-0.5B-Chat", "H100 SXM", "MI300X", -0.282, -0.090),
    PairError("bert-small-uncased", "H100 SXM", "MI300X", -0.422, 0.115),
    PairError("nsfw_image_detection (ViT)", "MI300X", "H100 SXM", 0.929, -0.091),
    PairError("Qwen1.5-0.5B-Chat", "MI300X", "H100 SXM", 0.363, 0.324),
    PairError("bert-small-uncased", "MI300X", "H100 SXM", 0.755, -0.102),
)
"""Errors of the current models, to a percentage point."""


def stated_error(source: str, target: str) -> str:
    """The range of errors found between two devices, as a sentence; empty where no pair was measured."""
    found = [pair for pair in MEASURED if (pair.source, pair.target) == (source, target)]
    if not found:
        return ""
    spans, kernels = [pair.span for pair in found], [pair.kernels for pair in found]
    return (
        f"of {len(found)} models measured on both, such projections missed the device time by {min(spans):+.0%} to "
        f"{max(spans):+.0%} and the sum of kernel times by {min(kernels):+.0%} to {max(kernels):+.0%}"
    )
