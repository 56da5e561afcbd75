"""Record the PyTorch samples on CPU: a training step of a small transformer, alone and under DDP on four gloo ranks.

Needs this package and PyTorch (``pip install -e .. torch==2.13.0``). Run from this folder::

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
from torch.profiler import record_function

from chakra_core.collect import Recorded, record_pytorch

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


def record(model: nn.Module, seed: int, folder: str) -> Recorded:
    """Train a few steps and write the host execution trace and the Kineto trace of the recorded ones."""
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    with record_pytorch(folder, wait=1, warmup=SKIPPED - 1, active=RECORDED, write_et=False) as recorder:
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
            recorder.step()
    return recorder.recorded


def single() -> None:
    """One process."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        files = record(Model(), 1, folder)
        write_scrubbed(files.host, HERE / "pytorch_cpu_step" / "host" / "execution_trace.json.gz")
        write_scrubbed(files.kineto, HERE / "pytorch_cpu_step" / "kineto.json.gz")


def rank(number: int, folder: str) -> None:
    """One rank of the DDP run."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=number, world_size=RANKS)
    torch.manual_seed(0)
    files = record(DistributedDataParallel(Model(), bucket_cap_mb=0.25), 1 + number, folder)
    target = HERE / "pytorch_ddp_gloo_4_ranks"
    write_scrubbed(files.host, target / "host" / f"rank{number}.json.gz")
    write_scrubbed(files.kineto, target / "kineto" / f"rank{number}.json.gz")
    dist.barrier()
    dist.destroy_process_group()


def ddp() -> None:
    """Four processes that average their gradients over gloo."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank, args=(folder,), nprocs=RANKS)


if __name__ == "__main__":
    {"single": single, "ddp": ddp}[sys.argv[1]]()
