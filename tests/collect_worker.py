"""One rank of a real recording: trains a tiny model with PyTorch on CPU, under gloo where there are several ranks.

Run as ``python collect_worker.py FOLDER [MEETING_FILE]`` with RANK and WORLD_SIZE in the environment.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from chakra_core.collect import record_pytorch

STEPS = 2


def train(folder: str, meeting: str) -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
    if size > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with record_pytorch(folder, warmup=1, active=STEPS) as recorder:
        for _ in range(1 + STEPS):
            model(torch.randn(16, 64)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()
    assert recorder.recorded.rank == rank
    if size > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
