"""PyTorch's side of the comparison on a GPU: cuda_ops.lua in Python. With BENCH_QUICK=1 and no
GPU it works on the CPU, which tries the rows, not their speed."""

import functools
import os
import sys
import time
from types import SimpleNamespace

import torch

import models
from side import serve

QUEUED = 256                    # operations that surely fit in a stream's queue

row = SimpleNamespace()         # dtype and seconds of this row

if torch.cuda.is_available():
    DEVICE, NAME = "cuda", torch.cuda.get_device_name()
elif os.environ.get("BENCH_QUICK") == "1":
    DEVICE, NAME = "cpu", "without a GPU"
else:
    sys.exit("bench: PyTorch finds no GPU")


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def gpu_seconds(f, n):
    if DEVICE == "cpu":
        return host_seconds(f, n)
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    for _ in range(n):
        f()
    ended.record()
    ended.synchronize()
    return began.elapsed_time(ended) / 1e3


def host_seconds(f, n):
    total = 0
    for first in range(0, n, QUEUED):
        synchronize()
        began = time.perf_counter()
        for _ in range(first, min(first + QUEUED, n)):
            f()
        total += time.perf_counter() - began
    return total


def place(x):
    return x.to(DEVICE, row.dtype if x.is_floating_point() else x.dtype)


def typed(name):
    def set_row(_):
        row.dtype, row.seconds = getattr(torch, name), gpu_seconds
    return set_row


def host(_):
    row.seconds = host_seconds


def make_training(size):
    return models.make_training(size, DEVICE, fused=True, capturable=DEVICE == "cuda")


def training(size):
    step, x, y = make_training(size)
    for _ in range(2):
        step(x, y)
    return lambda: step(x, y)


def captured(size):
    if DEVICE == "cpu":
        return training(size)
    step, x, y = make_training(size)
    warm_up = torch.cuda.Stream()
    warm_up.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up):
        for _ in range(2):
            step(x, y)
    torch.cuda.current_stream().wait_stream(warm_up)
    graph, given, wanted = torch.cuda.CUDAGraph(), x.clone(), y.clone()
    with torch.cuda.graph(graph):
        loss = step(given, wanted)

    def replay():
        given.copy_(x)
        wanted.copy_(y)
        graph.replay()
        return loss

    return replay


# Steps go ahead, as many as on the other side.
def gpt2(size, compiled=False):
    optimiser = functools.partial(torch.optim.AdamW, fused=DEVICE == "cuda")
    step = models.gpt2_training(size, optimiser, row.dtype, DEVICE, compiled)
    for _ in range(2):
        step()
    return lambda: step()[0]


def gpt2_compiled(size):
    return gpt2(size, DEVICE == "cuda")


def lengths(size):
    B, S = size
    ends = torch.randint(S // 2, S + 1, (B, 1, 1, 1))
    return (torch.arange(S) < ends).to(DEVICE)


FACTORIES = {f.__name__: f for f in (captured, gpt2, gpt2_compiled, host, lengths, training)}
FACTORIES.update((name, typed(name)) for name in ("bfloat16", "float16", "float32"))

serve(SimpleNamespace(name=f"PyTorch {torch.__version__} ({NAME})", factories=FACTORIES,
                      place=place, seconds=lambda f, n: row.seconds(f, n)))
