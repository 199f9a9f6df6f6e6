#!/usr/bin/env python3
"""Random calls, in heed and in PyTorch: results, types, shapes and gradients side by side.

    bench/differential.py [--cases N] [--seed S] [--rows PATTERN] [--show N]

What `make differential` runs, in build/venv's Python. A case is drawn from a row of
differential_rows.py or differential_models.py: inputs of random shapes, types and layouts, some
with infinities, NaN and denormals. Both sides get the same bytes and answer with results and with
the gradients of a weighted sum of them. A difference is allowed if one of these files lists it with
a reason.
"""

import argparse
import collections
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F

import differential_models as models
import differential_rows as rows

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 500                     # cases that one process of heed's computes

NAMES = {"bool": ("BOOL", torch.bool), "uint8": ("U8", torch.uint8), "int64": ("I64", torch.int64),
         "float16": ("F16", torch.float16), "bfloat16": ("BF16", torch.bfloat16),
         "float32": ("F32", torch.float32), "float64": ("F64", torch.float64)}
TYPE_OF = {file: dtype for file, dtype in NAMES.values()}

# The largest differences allowed, relative to an element and to its tensor's largest number: a few
# units in the last place each, times a row's slack.
UNIT = {torch.float32: 2.0 ** -23, torch.float64: 2.0 ** -52, torch.float16: 2.0 ** -10,
        torch.bfloat16: 2.0 ** -7}
UNITS = 6
NEARER = "heed is nearer to PyTorch's float64 than PyTorch"
SPECIAL = {"float": [math.inf, -math.inf, math.nan, -0.0, 0.0, 1.0, -1.0, 1e-40, -3e-39, 1e30, -1e30],
           "int64": [2 ** 63 - 1, -2 ** 63, 2 ** 53 + 1, -1, 0]}


# == Files: safetensors, by hand ====================================================

def save(path, tensors):
    header, parts, at = {}, [], 0
    for name, t in tensors.items():
        t = t.detach().contiguous()
        data = bytes(t.reshape(-1).view(torch.uint8).numpy()) if t.numel() else b""
        file = next(f for f, dtype in NAMES.values() if dtype == t.dtype)
        header[name] = {"dtype": file, "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        part = bytearray(data[8 + n + start:8 + n + end])
        dtype = TYPE_OF[entry["dtype"]]
        t = torch.frombuffer(part, dtype=dtype) if part else torch.empty(0, dtype=dtype)
        tensors[name] = t.reshape(entry["shape"])
    return tensors


# == Cases ==========================================================================

def values(r, spec, sizes):
    n = math.prod(sizes)
    if spec.dtype == "bool":
        numbers = [r.random() < 0.6 for _ in range(n)]
    elif spec.dtype in ("int64", "uint8"):
        low, high = (max(spec.low, 0) if spec.dtype == "uint8" else spec.low), spec.high
        numbers = [r.randint(math.ceil(low), math.floor(high)) for _ in range(n)]
    else:
        numbers = [r.uniform(spec.low, spec.high) for _ in range(n)]
    if spec.wild and r.random() < 0.3:
        special = SPECIAL.get(spec.dtype, SPECIAL["float"] if spec.dtype in rows.FLOATS else [0, 1])
        numbers = [r.choice(special) if r.random() < 0.2 else v for v in numbers]
    return torch.tensor(numbers, dtype=torch.float64 if spec.dtype in rows.FLOATS else None).to(
        NAMES[spec.dtype][1]).reshape(sizes)


def lay_out(r, spec):
    """The tensor that is stored, and how heed and PyTorch make the input of it."""
    sizes = spec.shape
    kind = spec.layout or r.choice(["plain", "plain", "transposed", "stepped", "offset", "expanded"])
    if len(sizes) == 0 or kind == "plain" or (kind == "transposed" and len(sizes) < 2):
        return values(r, spec, sizes), "", ""
    if kind == "transposed":
        stored = sizes[:-2] + [sizes[-1], sizes[-2]]
        return values(r, spec, stored), ":transpose(-1, -2)", ".transpose(-1, -2)"
    if kind == "stepped" and sizes[-1] > 0:
        stored = sizes[:-1] + [2 * sizes[-1]]
        return values(r, spec, stored), ":slice(-1, 1, -1, 2)", "[..., ::2]"
    if kind == "offset":
        n = sizes[0]
        return values(r, spec, [n + 1] + sizes[1:]), f":narrow(1, 2, {n})", f".narrow(0, 1, {n})"
    if kind == "expanded":
        d = r.randrange(len(sizes))
        stored = sizes[:d] + [1] + sizes[d + 1:]
        text = ", ".join(map(str, sizes))
        return values(r, spec, stored), f":expand({text})", f".expand({text})"
    return values(r, spec, sizes), "", ""


class Case:
    def __init__(self, seed, number, row):
        r = random.Random(f"{seed} {number}")
        self.number, self.row = number, row
        self.dtype = r.choice(row.dtypes)
        specs, self.names = row.draw(r, self.dtype)
        self.stored, self.heed_view, self.torch_view, self.grad = {}, {}, {}, []
        for letter, spec in zip("abcd", specs):
            if spec is None:
                continue
            t, heed, ours = lay_out(r, spec)
            self.stored[letter] = t
            self.heed_view[letter], self.torch_view[letter] = heed, ours
            if spec.grad:
                self.grad.append(letter)
        self.random = r
        self.heed = row.heed.format(**self.names)
        self.torch = row.torch.format(**self.names)

    def line(self):
        views = " ".join(f"{k}{v.replace(' ', '')}" for k, v in self.heed_view.items())
        return f"{self.number}\t{self.heed}\t{views}\t{' '.join(self.grad)}\n"

    def describe(self):
        inputs = "\n".join(
            f"    {k} = {t.tolist() if t.numel() <= 12 else '...'} {t.dtype} {list(t.shape)}"
            f"{self.heed_view[k]}" for k, t in self.stored.items())
        return f"case {self.number}, {self.row.name}, {self.dtype}: {self.heed}\n{inputs}"


def weighted(case, results):
    """Weights for the sum whose gradient is compared; only a float result has one."""
    return [torch.tensor([case.random.uniform(-1, 1) for _ in range(y.numel())],
                         dtype=torch.float64).reshape(y.shape) if y.is_floating_point() else None
            for y in results]


def ask_torch(case, weights=None):
    """Results and gradients by name; the weights of the results; or a message. With weights from an
    earlier answer, all in float64: what is nearer to that is right."""
    leaves = {k: (t.double() if weights and t.is_floating_point() else t.clone()).requires_grad_(
        k in case.grad) for k, t in case.stored.items()}
    scope = {"torch": torch, "F": F, "math": math, "models": models}
    try:
        for k, t in leaves.items():
            scope[k] = eval("t" + case.torch_view[k], {"t": t})
        y = eval(case.torch, scope)
        ys = [y] if torch.is_tensor(y) else list(y)
        if not torch.is_tensor(y) and hasattr(y, "indices"):
            ys = [y.values, y.indices + 1]
        answer = {f"y{i}": t for i, t in enumerate(ys)}
        weights = weights or weighted(case, ys)
        total = sum((t.double() * w).sum() for t, w in zip(ys, weights)
                    if w is not None and t.requires_grad)
        if torch.is_tensor(total):
            total.backward()
        for k in case.grad:
            answer["g" + k] = leaves[k].grad
        return answer, weights, None
    except (RuntimeError, IndexError, ValueError, NotImplementedError) as problem:
        return {}, [], str(problem).splitlines()[0]


# == Comparing ======================================================================

def wrong_numbers(ours, heeds, units, floor):
    """Where two tensors differ by more than so many units; 'floor' is the size of what was summed."""
    if not ours.is_floating_point():
        return ours != heeds
    unit = UNIT[ours.dtype] * units
    a, b = ours.double(), heeds.double()
    same = (a == b) | (a.isnan() & b.isnan())
    finite = a.isfinite() & b.isfinite()
    largest = max(floor, a[finite].abs().max().item() if finite.any() else 0.0)
    return ~(same | (finite & ((a - b).abs() <= unit * (a.abs() + largest) / 2)))


def size_of_sums(case, name, t, ours):
    """How large the numbers were, about, whose sum an element is: it may be much smaller itself."""
    if not t.is_floating_point():
        return 0
    if name[0] == "y":
        return 1.0 if case.row.slack > 1 else torch.finfo(t.dtype).tiny
    most = max((y.numel() for key, y in ours.items() if key[0] == "y"), default=0)
    return max(1.0, math.sqrt(most / max(1, t.numel())))


def compare(case, ours, why, heeds, refusal):
    """The difference in words, or None."""
    if (why is None) != (refusal is None):
        return f"heed refuses: {refusal}" if refusal else f"heed takes what PyTorch refuses: {why}"
    if why is not None:
        return None
    for name in sorted(set(ours) | set(heeds)):
        a, b = ours.get(name), heeds.get(name)
        if a is None or b is None:                     # no gradient is one of zeros
            other = b if a is None else a
            if name[0] == "y" or (other is not None and other.count_nonzero() > 0):
                return f"{name} is only {'heed' if a is None else 'PyTorch'}'s"
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{name}: PyTorch {a.dtype} {list(a.shape)}, heed {b.dtype} {list(b.shape)}"
        wrong = wrong_numbers(a, b, UNITS * case.row.slack, size_of_sums(case, name, a, ours))
        if wrong.any():
            at = tuple(wrong.nonzero()[0].tolist())
            return f"{name} at {list(at)}: PyTorch {a[at].item()}, heed {b[at].item()}"
    return None


def ask_heed(lua, folder):
    subprocess.run([lua, os.path.join(HERE, "differential.lua"), folder], check=True)
    heeds, refused = collections.defaultdict(dict), {}
    for name, t in load(os.path.join(folder, "out.safetensors")).items():
        number, part = name.split(".")
        heeds[int(number)][part] = t
    with open(os.path.join(folder, "errors.txt"), encoding="utf-8", errors="replace") as file:
        for text in file:
            number, message = text.rstrip("\n").split("\t", 1)
            refused[int(number)] = message
    return heeds, refused


def run_batch(lua, cases, folder):
    """Yields (case, difference or None)."""
    answers, stored = {}, {}
    with open(os.path.join(folder, "cases.txt"), "w", encoding="utf-8") as file:
        for case in cases:
            _, weights, _ = answers[case.number] = ask_torch(case)
            for name, t in case.stored.items():
                stored[f"{case.number}.{name}"] = t
            for i, w in enumerate(weights):
                if w is not None:
                    stored[f"{case.number}.w{i}"] = w
            file.write(case.line())
    save(os.path.join(folder, "in.safetensors"), stored)
    heeds, refused = ask_heed(lua, folder)
    for case in cases:
        ours, weights, why = answers[case.number]
        difference = compare(case, ours, why, heeds[case.number], refused.get(case.number))
        if difference and case.dtype != "float64" and is_nearer(case, ours, heeds[case.number], weights):
            yield case, NEARER
        else:
            yield case, difference


def is_nearer(case, ours, heeds, weights):
    """Is heed at least as near to PyTorch's float64 as PyTorch, wherever they differ?"""
    exact, _, why = ask_torch(case, weights) if weights else ({}, [], "")
    if why is not None or set(exact) != set(ours) or set(heeds) != set(ours):
        return False
    for name, a in ours.items():
        b, truth = heeds[name], exact[name]
        if a is None or truth is None or a.dtype != b.dtype or a.shape != b.shape:
            return False
        wrong = wrong_numbers(a, b, UNITS * case.row.slack, size_of_sums(case, name, a, ours))
        truth = truth.to(a.dtype).double() if a.is_floating_point() else truth
        off = (b.double() - truth).abs()
        if (wrong & ~((off <= (a.double() - truth).abs()) | (b.double() == truth))).any():
            return False
    return True


def reason(case, difference):
    if difference == NEARER:
        return NEARER
    for row, dtype, what, why in rows.ALLOWED + models.ALLOWED:
        if (re.fullmatch(row, case.row.name) and re.fullmatch(dtype, case.dtype)
                and re.search(what, difference)):
            return why
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", default="")
    parser.add_argument("--show", type=int, default=3, help="differences shown for each row")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lua = os.environ.get("LUA", "lua5.4")
    chosen = [row for row in rows.ROWS + models.ROWS if re.search(options.rows, row.name)]
    found, allowed, agreed, refused = collections.defaultdict(list), collections.Counter(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, options.cases, BATCH):
            cases = [Case(options.seed, n, chosen[n % len(chosen)])
                     for n in range(start, min(start + BATCH, options.cases))]
            for case, difference in run_batch(lua, cases, folder):
                why = difference and reason(case, difference)
                if difference is None:
                    agreed += 1
                elif why:
                    allowed[why] += 1
                else:
                    found[case.row.name].append(f"{case.describe()}\n  {difference}")
    for name, list_ in found.items():
        print(f"== {name}: {len(list_)} differ")
        print("\n".join(list_[:options.show]))
    for why, n in allowed.most_common():
        print(f"{n} allowed: {why}")
    differ = sum(map(len, found.values()))
    print(f"{options.cases} cases of {len(chosen)} rows, seed {options.seed}, PyTorch "
          f"{torch.__version__}: {agreed} agree, {sum(allowed.values())} differ as meant, {differ} differ")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
