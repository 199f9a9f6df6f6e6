"""side.lua in Python: what PyTorch's sides share (torch_side.py, cuda_ops.py). But `make` reads
heed's result and answers with the largest difference, by the largest number of PyTorch's."""

import functools
import gc
import sys

import numpy
import torch
import torch.nn.functional as F

SEED = 7
LOOP = 0.02                     # seconds that a sample's loop lasts at least

SCOPE = {"F": F, "torch": torch, "grad": torch.autograd.grad,
         "attention": F.scaled_dot_product_attention}


def sizes(word):
    return [int(n) for n in word.split("x") if n]


def adam(side, size, **options):
    n, *shape = size
    xs = []
    for _ in range(n):
        xs.append(side.place(torch.randn(*shape)).requires_grad_())
        xs[-1].grad = side.place(torch.randn(*shape))
    opt = torch.optim.Adam(xs, lr=0.1, **options)

    def step():
        opt.step()
        return xs

    return step


SHARED = {"adam": adam, "adam_fused": functools.partial(adam, fused=True)}


def make_input(side, word):
    name, _, rest = word.strip("*").partition(":")
    if name in SHARED:
        return SHARED[name](side, sizes(rest))
    if name[0].isalpha():
        return side.factories[name](sizes(rest))
    if rest:
        return side.place(torch.randint(1, int(rest) + 1, sizes(name)) - 1)
    return side.place(torch.randn(*sizes(name))).requires_grad_("*" in word)


def difference(result, path):
    parts = [result] if torch.is_tensor(result) else result
    ours = torch.cat([t.detach().flatten().float().cpu() for t in parts])
    heeds = torch.from_numpy(numpy.fromfile(path, "float32"))
    return ((heeds - ours).abs().max() / ours.abs().max().clamp(min=1e-30)).item()


class Answers:
    def __init__(self, side):
        self.side = side

    def make(self, words, expression, path):
        self.current = None
        gc.collect()
        torch.manual_seed(SEED)
        inputs = [make_input(self.side, word) for word in words.split()]
        inputs = [x for x in inputs if x is not None]
        names = ", ".join("abcd"[:len(inputs)])
        self.current = eval(f"lambda {names}: lambda: {expression}", SCOPE)(*inputs)
        gap = difference(self.current(), path)
        self.calls = 1
        while self.side.seconds(self.current, self.calls) < LOOP:
            self.calls *= 2
        return gap

    def time(self):
        self.current()
        return self.side.seconds(self.current, self.calls) / self.calls


def serve(side):
    torch.set_num_threads(int(sys.argv[1]))
    print(side.name, flush=True)
    answers = Answers(side)
    for line in sys.stdin:
        word, *rest = line.rstrip("\n").split("\t")
        try:
            answer = getattr(answers, word)(*rest)
        except Exception as error:
            answer = "error: " + str(error).replace("\n", " ")
        print(answer, flush=True)
