"""Make the synthetic samples: one transformer training step on eight ranks, simulated for two catalogue devices.

Needs this package only. Run from this folder::

    python make_synthetic.py

The result is the same byte for byte every time.
"""

from __future__ import annotations

from pathlib import Path

from chakra_core.hardware import get_device
from chakra_core.project.simulate import simulate_run
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.writers.chakra_et import write_et

HERE = Path(__file__).resolve().parent

CONFIG = TransformerConfig(
    layers=16,
    hidden=8192,
    heads=64,
    sequence=2048,
    vocabulary=32_000,
    batches=(4, 3),
    tp=4,
    micro_batches=2,
)
"""A decoder of 13.4e9 parameters. The second replica gets a smaller batch: its ranks wait for the first's."""

DEVICES = {"h100": "H100 SXM", "mi300x": "MI300X"}


def main(target: Path = HERE) -> None:
    """Write one folder for each device under ``target``."""
    run = transformer_run(CONFIG, "transformer dp2 tp4")
    for short, name in DEVICES.items():
        simulated = simulate_run(run, get_device(name))
        folder = target / f"transformer_dp2_tp4_simulated_{short}"
        folder.mkdir(exist_ok=True)
        for trace in simulated.traces:
            file = folder / f"transformer.{trace.meta.rank}.et"
            write_et(trace, file, compress=True, assumptions=simulated.assumptions)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{folder.name}: {simulated.span_ns / 1e6:.1f} ms, {size:,} bytes")
        for words in simulated.assumptions:
            print(f"  {words}")


if __name__ == "__main__":
    main()
