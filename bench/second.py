"""Writes spec/golden/second.safetensors: second derivatives as PyTorch computes them, in float64.

    build/venv/bin/python bench/second.py

Each case is a function y of tensors xs. L is the sum of y's squares; `first` are L's gradients by
xs, and `second` those of the sum of first * directions: L's Hessian times the directions. Each
function below does what its namesake in spec/second_golden_spec.lua does.
"""

import json
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

PATH = "spec/golden/second.safetensors"
CLASSES = torch.tensor([1, 0, -100, 3])                # in Lua: 2, 1, -100, 4


def slope(y, x):
    """y's gradient by x, with a graph."""
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def perceptron(x, w1, b1, w2, b2):
    return F.gelu(x @ w1 + b1) @ w2 + b2


def penalty(x, w1, w2):
    return (slope(torch.tanh(x @ w1) @ w2, x).norm(dim=1) - 1).square().mean()


def attention(q, k, v):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


# name: y, and the shapes of xs
CASES = {
    "softmax": (lambda x: x.softmax(-1), (3, 4)),
    "softmax of the first axis": (lambda x: x.softmax(0), (3, 4)),
    "log_softmax": (lambda x: x.log_softmax(-1), (3, 4)),
    "logsumexp": (lambda x: x.logsumexp(-1), (3, 4)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b, 1e-5), (3, 4), (4,), (4,)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w, 1e-5), (3, 4), (4,)),
    "matmul": (torch.matmul, (2, 3, 4), (4, 2)),
    "einsum": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (2, 2, 3), (2, 3, 2)),
    "cross_entropy": (lambda x: F.cross_entropy(x, CLASSES), (4, 4)),
    "smoothed cross_entropy": (
        lambda x: F.cross_entropy(x, CLASSES, label_smoothing=0.2, reduction="none"), (4, 4)),
    "gelu": (F.gelu, (7,)),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), (7,)),
    "silu": (F.silu, (7,)),
    "a chain of tanh": (lambda x: torch.tanh(2 * torch.tanh(x * torch.tanh(x))), (7,)),
    "cumsum": (lambda x: x.cumsum(-1).sin(), (3, 4)),
    "prod": (lambda x: x.prod(-1), (3, 4)),
    "cumprod": (lambda x: x.cumprod(-1), (3, 4)),
    "var": (lambda x: x.var(-1), (3, 4)),
    "norm": (lambda x: x.norm(dim=-1), (3, 4)),
    "indexed and joined": (
        lambda x, y: torch.cat([x[:, 1:] * y, x[:, :2].exp()], 1).mT, (3, 4), (3, 3)),
    "a perceptron": (perceptron, (3, 2), (2, 4), (4,), (4, 2), (2,)),
    "attention of products": (attention, (3, 4), (5, 4), (5, 2)),
    "a penalty on gradients": (penalty, (3, 2), (2, 4), (4, 1)),
    "a third derivative": (lambda x: slope(x ** 3 * x.sin(), x), (5,)),
}


def derivatives(f, xs, directions):
    first = torch.autograd.grad(f(*xs).square().sum(), xs, create_graph=True)
    along = sum((g * v).sum() for g, v in zip(first, directions))
    return first, torch.autograd.grad(along, xs)


def main():
    torch.manual_seed(25)
    tensors, tree = {}, []
    for name, (f, *shapes) in CASES.items():
        xs = [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shapes]
        directions = [torch.randn(s, dtype=torch.float64) for s in shapes]
        first, second = derivatives(f, xs, directions)
        case = {"name": name}
        for part, list_ in zip(("xs", "directions", "first", "second"),
                               (xs, directions, first, second)):
            case[part] = []
            for i, t in enumerate(list_):
                key = f"{name}/{part}.{i + 1}"
                tensors[key] = t.detach().contiguous()
                case[part].append({"tensor": key})
        tree.append(case)
    about = (f"Second derivatives. Made by bench/second.py with PyTorch {torch.__version__} on the "
             "CPU, in float64.")
    save_file(tensors, PATH, {"about": about, "tree": json.dumps(tree)})


if __name__ == "__main__":
    sys.exit(main())
