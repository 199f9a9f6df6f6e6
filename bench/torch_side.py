"""PyTorch's side of the comparison on the CPU: heed_side.lua in Python."""

import time
from types import SimpleNamespace

import torch

import models
from side import serve


def seconds(f, n):
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    began = clock()
    for _ in range(n):
        f()
    return clock() - began


SIDE = SimpleNamespace(
    name=f"PyTorch {torch.__version__}", factories=models.FACTORIES, seconds=seconds, window=0.01,
    place=lambda x: x.to(SIDE.dtype) if x.is_floating_point() else x)

if __name__ == "__main__":
    serve(SIDE)
