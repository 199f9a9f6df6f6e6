"""side.lua in Python: code of PyTorch's sides (torch_side.py, jax_side.py, cuda_ops.py). But
`make` reads heed's result and answers with the largest difference, by the largest number of its
own."""

import functools
import gc
import math
import sys

import numpy
import torch
import torch.nn.functional as F

SEED = 7
WINDOW = 0.02                   # seconds that are timed at once at least, if a side has no other
LONG = 0.05                     # seconds of a call that no longer depends on the caches

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


def typed(side, _, name):
    side.dtype = getattr(torch, name)


SHARED = {"adam": adam, "adam_fused": functools.partial(adam, fused=True)}
SHARED.update((name, functools.partial(typed, name=name)) for name in ("bfloat16", "float16"))


def make_input(side, word):
    name, _, rest = word.strip("*").partition(":")
    if name in side.factories:
        return side.factories[name](sizes(rest))
    if name in SHARED:
        return SHARED[name](side, sizes(rest))
    if rest:
        return side.place(torch.randint(1, int(rest) + 1, sizes(name)) - 1)
    return side.place(torch.randn(*sizes(name))).requires_grad_("*" in word)


def numbers(part):
    array = part.detach().float().cpu() if torch.is_tensor(part) else numpy.array(part)
    return torch.as_tensor(array).flatten()


def difference(result, path):
    parts = result if isinstance(result, (list, tuple)) else [result]
    ours = torch.cat([numbers(part) for part in parts])
    heeds = torch.from_numpy(numpy.fromfile(path, "float32"))
    return ((heeds - ours).abs().max() / ours.abs().max().clamp(min=1e-30)).item()


class Answers:
    def __init__(self, side):
        self.side = side

    def prepare(self, words, *expressions):
        self.current = None
        gc.collect()
        torch.manual_seed(SEED)
        self.side.dtype = torch.float32
        inputs = [make_input(self.side, word) for word in words.split()]
        inputs = [x for x in inputs if x is not None]
        names = ", ".join("abcde"[:len(inputs)])
        return [eval(f"lambda {names}: lambda: {expression}", SCOPE)(*inputs)
                for expression in expressions]

    def make(self, words, expression, path, *check):
        functions = self.prepare(words, expression, *check)
        self.current = functions[0]
        gap = difference(functions[-1](), path)
        window = getattr(self.side, "window", WINDOW)
        self.calls = 1
        while (seconds := self.side.seconds(self.current, self.calls)) < window:
            enough = self.calls * window / max(seconds, 1e-9)
            self.calls = max(2 * self.calls, math.ceil(min(16 * self.calls, enough)))
        self.warm = 0 if seconds / self.calls > LONG else self.calls // 8 + 1
        return gap

    def time(self):
        for _ in range(self.warm):      # the caches hold the other side's data
            self.current()
        return self.side.seconds(self.current, self.calls) / self.calls

    def calls_of(self, n):
        for _ in range(int(n)):
            self.current()
        return "called"

    def once(self, words, expression):
        self.current, = self.prepare(words, expression)
        return self.side.seconds(self.current, 1)


def serve(side):
    torch.set_num_threads(int(sys.argv[1]))
    print(side.name, flush=True)
    answers = Answers(side)
    requests = {"make": answers.make, "time": answers.time, "calls": answers.calls_of,
                "once": answers.once}
    for line in sys.stdin:
        word, *rest = line.rstrip("\n").split("\t")
        try:
            answer = requests[word](*rest)
        except Exception as error:
            answer = "error: " + str(error).replace("\n", " ")
        print(answer, flush=True)
