"""PyTorch's side of the comparison on the CPU: heed_side.lua in Python."""

import time
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from side import serve


def counting(_):
    embed, query = nn.Embedding(10, 5), nn.Parameter(torch.randn(1, 5))
    WK, WV = nn.Linear(5, 5), nn.Linear(5, 50)
    last = nn.Sequential(nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 1), nn.Sigmoid())
    opt = torch.optim.Adam([*nn.Sequential(embed, WK, WV, last).parameters(), query])
    ids, y = torch.randint(1, 10, (100, 10)) - 1, torch.randint(0, 2, (100, 1)).float()

    def step():
        x = embed(ids)
        scores = torch.einsum("ik,bjk->bij", query, WK(x))
        weights = torch.softmax(scores / 5 ** 0.5, -1)
        gathered = torch.einsum("bij,bjk->bik", weights, WV(x))
        loss = F.binary_cross_entropy(last(gathered[:, 0, :]), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    for _ in range(50):
        step()
    return step


def seconds(f, n):
    began = time.perf_counter()
    for _ in range(n):
        f()
    return time.perf_counter() - began


serve(SimpleNamespace(name=f"PyTorch {torch.__version__}", seconds=seconds,
                      factories={"counting": counting}, place=lambda x: x))
