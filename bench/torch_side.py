"""PyTorch's side of the comparison: heed_side.lua in Python, but `make` reads heed's result and
tells how far the two lie apart, by the largest number of PyTorch's."""

import gc
import sys
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

SEED = 7
LOOP = 0.02                     # seconds that a sample's loop lasts at least

SCOPE = {"F": F, "torch": torch, "grad": torch.autograd.grad,
         "attention": F.scaled_dot_product_attention}


def counting():
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


def adam():
    xs = []
    for _ in range(4):
        xs.append(torch.randn(768, 768, requires_grad=True))
        xs[-1].grad = torch.randn(768, 768)
    opt = torch.optim.Adam(xs, lr=0.1)

    def step():
        opt.step()
        return xs

    return step


def make_input(word):
    if word.isalpha():
        return globals()[word]()
    size, _, ids = word.strip("*").partition(":")
    size = [int(n) for n in size.split("x")]
    if ids:
        return torch.randint(1, int(ids) + 1, size) - 1
    return torch.randn(*size, requires_grad="*" in word)


def difference(result, path):
    parts = [result] if torch.is_tensor(result) else result
    here = torch.cat([t.detach().flatten() for t in parts])
    there = torch.from_numpy(numpy.fromfile(path, "float32"))
    return ((there - here).abs().max() / here.abs().max().clamp(min=1e-30)).item()


class Answers:
    def seconds(self, n):
        f, began = self.current, time.perf_counter()
        for _ in range(n):
            f()
        return time.perf_counter() - began

    def make(self, words, expression, path):
        self.current = None
        gc.collect()
        torch.manual_seed(SEED)
        inputs = [make_input(word) for word in words.split()]
        names = ", ".join("abcd"[:len(inputs)])
        self.current = eval(f"lambda {names}: lambda: {expression}", SCOPE)(*inputs)
        gap = difference(self.current(), path)
        self.calls = 1
        while self.seconds(self.calls) < LOOP:
            self.calls *= 2
        return gap

    def time(self):
        self.current()
        return self.seconds(self.calls) / self.calls


torch.set_num_threads(int(sys.argv[1]))
print("PyTorch", torch.__version__, flush=True)
answers = Answers()
for line in sys.stdin:
    word, *rest = line.rstrip("\n").split("\t")
    try:
        answer = getattr(answers, word)(*rest)
    except Exception as error:
        answer = "error: " + str(error).replace("\n", " ")
    print(answer, flush=True)
