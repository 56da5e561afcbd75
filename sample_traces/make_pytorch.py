"""Record the PyTorch samples on CPU: a training step of a small transformer, alone and under DDP on four gloo ranks.

Needs PyTorch (``pip install torch==2.13.0 numpy``). Run from this folder::

    python make_pytorch.py single
    python make_pytorch.py ddp

Weights and data are seeded; times are whatever the machine took. Host names and paths are scrubbed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from scrub import write_scrubbed
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function, schedule

HERE = Path(__file__).resolve().parent
RANKS = 4
LAYERS, HIDDEN, HEADS, VOCABULARY = 2, 128, 4, 1000
BATCH, SEQUENCE = 4, 64
SKIPPED, RECORDED = 2, 2


class Model(nn.Module):
    """A small language model: embedding, transformer layers with a causal mask, linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, 4 * HIDDEN, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(HIDDEN, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(SEQUENCE))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits (batch, sequence, vocabulary) for tokens (batch, sequence)."""
        return self.head(self.layers(self.embedding(tokens), mask=self.mask, is_causal=True))


def record(model: nn.Module, seed: int, host: Path, device: Path) -> None:
    """Train a few steps and write the host execution trace and the Kineto trace of the recorded ones."""
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    observer = ExecutionTraceObserver()
    observer.register_callback(str(host))
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=SKIPPED - 1, active=RECORDED, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(device)),
        record_shapes=True,
        with_flops=True,
        execution_trace_observer=observer,
    ) as profiler:
        for _ in range(SKIPPED + RECORDED):
            tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
            targets = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
            with record_function("## forward ##"):
                loss = loss_of(model(tokens).flatten(0, 1), targets.flatten())
            with record_function("## backward ##"):
                loss.backward()
            with record_function("## optimizer ##"):
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()
    observer.unregister_callback()


def single() -> None:
    """One process."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        host, device = Path(folder, "host.json"), Path(folder, "device.json")
        record(Model(), 1, host, device)
        write_scrubbed(host, HERE / "pytorch_cpu_step" / "host" / "execution_trace.json.gz")
        write_scrubbed(device, HERE / "pytorch_cpu_step" / "kineto.json.gz")


def rank(number: int, folder: str) -> None:
    """One rank of the DDP run."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=number, world_size=RANKS)
    torch.manual_seed(0)
    model = DistributedDataParallel(Model(), bucket_cap_mb=0.25)
    record(model, 1 + number, Path(folder, f"host{number}.json"), Path(folder, f"device{number}.json"))
    dist.barrier()
    dist.destroy_process_group()


def ddp() -> None:
    """Four processes that average their gradients over gloo."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank, args=(folder,), nprocs=RANKS)
        for number in range(RANKS):
            target = HERE / "pytorch_ddp_gloo_4_ranks"
            write_scrubbed(Path(folder, f"host{number}.json"), target / "host" / f"rank{number}.json.gz")
            write_scrubbed(Path(folder, f"device{number}.json"), target / "kineto" / f"rank{number}.json.gz")


if __name__ == "__main__":
    {"single": single, "ddp": ddp}[sys.argv[1]]()
