"""Rows of the differential run (differential.py) that need more than an expression: layers and
their weights' gradients, optimisers, first weights, sampling, beams, types in mixed precision.

Each function below does what its namesake in differential_models.lua does, from the same seed and
options. Options are drawn once, and written down in both languages.
"""

import contextlib
import itertools
import logging
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from differential_rows import FLOATS, Ids, Input, Row, ROWS as OPERATIONS

WHOLE = ["float32", "float64"]
logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)


# == PyTorch's side =================================================================

def stirred(m, o, dtype):
    torch.manual_seed(o["seed"] + 1)
    state = m.state_dict()
    for name in sorted(state):
        noise = (torch.rand(state[name].shape) - 0.5) * 0.75           # exact, unlike randn
        state[name] = noise if o.get("memory") else state[name] + noise
    m.load_state_dict(state)
    return m.to(dtype)


def with_gradients(m, y, *more):
    names, parameters = zip(*sorted(m.named_parameters()))
    gradients = torch.autograd.grad(y.sin().sum(), parameters, retain_graph=True)
    return y, torch.cat([g.flatten() for g in gradients]), *more


def with_first(t):
    return None if t is None else t | (torch.arange(t.shape[-1]) == 0)


def causal(length, keys):
    return torch.ones(length, keys, dtype=torch.bool).tril(keys - length)


def attention(o, x, context=None, keys=None, mask=None):
    torch.manual_seed(o["seed"])
    source = x if context is None else context
    dim, heads, (rows, length) = x.shape[-1], o["heads"], x.shape[:2]
    m = nn.MultiheadAttention(dim, heads, bias=o["bias"], kdim=source.shape[-1], batch_first=True,
                              vdim=o.get("vdim") or source.shape[-1],
                              add_bias_kv=bool(o.get("memory")))
    m = stirred(m, o, x.dtype)
    values = source[..., :o["vdim"]] * 2 if o.get("vdim") else source
    form, many = o["form"], source.shape[1]
    may = None
    if form == "bias":
        may = mask.expand(rows, heads, length, many)
    elif form is not None:
        may = with_first(mask)
        may = may.unsqueeze(0) if form == "heads" else may.unsqueeze(1) if form == "rows" else may
        may = may.expand(rows, heads, length, many)
    if o["causal"]:
        open_ = causal(length, many)
        may = (open_ if may is None else may.masked_fill(~open_, -math.inf) if form == "bias"
               else may & open_)
        may = may.expand(rows, heads, length, many)
    there = None
    if o["padding"] == "keys":
        there = with_first(keys)
    elif o["padding"] == "lengths":
        there = torch.arange(many) < keys.sum(1).clamp(min=1).unsqueeze(1)
    if form == "bias" and there is not None:            # one kind of mask for both
        may, there = may.masked_fill(~there[:, None, None], -math.inf), None
    if may is not None:
        may = (may if form == "bias" else ~may).flatten(0, 1)
    y, weights = m(x, source, values, key_padding_mask=None if there is None else ~there,
                   attn_mask=may, need_weights=True, average_attn_weights=False)
    if o.get("memory"):
        weights = weights[..., :many]
    return with_gradients(m, y, *([weights] if o["weights"] else []))


def transformer(o, x, context=None, keys=None, mask=None):
    torch.manual_seed(o["seed"])
    dim, kind = x.shape[-1], o["kind"]
    given = {"dim_feedforward": o["hidden"], "dropout": 0.0, "activation": o["activation"],
             "layer_norm_eps": o["eps"], "batch_first": True, "norm_first": o["first"],
             "bias": o["bias"]}
    if kind == "Transformer":
        m = nn.Transformer(dim, o["heads"], o["layers"], o["layers2"], **given)
    else:
        one = nn.TransformerEncoderLayer if "Encoder" in kind else nn.TransformerDecoderLayer
        m = one(dim, o["heads"], **given)
        if "Layer" not in kind:
            norm = nn.LayerNorm(dim, o["eps"], bias=o["bias"]) if o["final"] else None
            m = (nn.TransformerEncoder(m, o["layers"], norm, enable_nested_tensor=False)
                 if kind == "Encoder" else nn.TransformerDecoder(m, o["layers"], norm))
    m = stirred(m, o, x.dtype)
    may, there = with_first(mask), with_first(keys)
    if o["causal"]:
        open_ = causal(x.shape[1], x.shape[1])
        may = open_ if may is None else may & open_
    may, there = (None if t is None else ~t for t in (may, there))
    if "Encoder" in kind:
        y = m(x, may, src_key_padding_mask=there)
    elif kind == "Transformer":
        y = m(context, x, tgt_mask=may, src_key_padding_mask=there, memory_key_padding_mask=there)
    else:
        y = m(x, context, tgt_mask=may, memory_key_padding_mask=there)
    return with_gradients(m, y)


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay,
                                  "maximize": maximize})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (first, second), rate = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = -p.grad if group["maximize"] else p.grad
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                way = (first * mean + (1 - first) * g).sign()
                p.copy_(p - rate * (way + group["weight_decay"] * p))
                mean.copy_(second * mean + (1 - second) * g)


def optimised(o, a, b):
    leaves = [t.detach().clone().requires_grad_() for t in (a, b)]
    groups = [{"params": [leaves[0]]}, {"params": [leaves[1]], **(o["group"] or {})}]
    opt = (Lion if o["kind"] == "Lion" else getattr(torch.optim, o["kind"]))(groups, **o["options"])
    norm = None
    for i in range(1, 6):
        opt.zero_grad()
        loss = (leaves[0] * 3).sin().sum()
        if i != o["without"]:
            loss = loss + ((leaves[1] - 0.3) ** 2 * i).sum()
        loss.backward()
        if o["clip"] is not None:
            norm = torch.nn.utils.clip_grad_norm_(leaves, o["clip"], o["norm"])
        opt.step()
        if i == 3:
            for group in opt.param_groups[:1 if o["group"] else 2]:
                group["lr"] /= 2
    return [t.detach() for t in leaves] + ([] if norm is None else [norm])


def first_weights(o, like):
    torch.manual_seed(o["seed"])
    t = torch.empty(o["size"], dtype=like.dtype)
    return getattr(nn.init, o["name"])(t, **o["options"]), torch.rand(3)


def sampled(o, logits, history=None):
    if logits.dtype != torch.float64:
        logits = logits.float()
    if o["penalty"]:
        ids = history - 1
        there = logits.gather(1, ids)
        changed = torch.where(there < 0, there * o["penalty"], there / o["penalty"])
        logits = logits.scatter(1, ids, changed)
    if o["temperature"] == 0:
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    logits = logits / (o["temperature"] or 1)
    if o["top_k"]:
        least = logits.topk(min(o["top_k"], logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    if o["top_p"]:                                     # transformers' TopPLogitsWarper
        up, places = logits.sort(descending=False)
        drop = up.softmax(-1).cumsum(-1) <= 1 - o["top_p"]
        drop[:, -1:] = False
        logits = logits.masked_fill(drop.scatter(1, places, drop), -math.inf)
    if o["min_p"]:
        p = logits.softmax(-1)
        logits = logits.masked_fill(p < o["min_p"] * p.max(-1, keepdim=True).values, -math.inf)
    return logits.softmax(-1)


def searched(o, last, before):
    """All sequences that end, by brute force; or what a search with fewer beams finds, by
    transformers' rules."""
    def log_p(ids):
        y = last[ids[-1] - 1]
        if len(ids) > 1:
            y = y + before[ids[-2] - 1]
        return y.float().log_softmax(-1).double() if y.dtype != torch.float64 else y.log_softmax(-1)

    prompt, most, width = o["prompt"], o["max"], o["beams"]
    size, found = last.shape[1], []
    beams = [(0.0, [])]
    for n in range(1, most + 1):
        grown = [(score + p, ids + [i + 1]) for score, ids in beams
                 for i, p in enumerate(log_p(prompt + ids).tolist())]
        grown.sort(key=lambda beam: -beam[0])
        beams = []
        for rank, (score, ids) in enumerate(grown):
            if n == most or ids[-1] == o["stop"]:
                if rank < width:
                    found.append((score / n ** o["penalty"], ids))
            elif len(beams) < width:
                beams.append((score, ids))
        found.sort(key=lambda beam: -beam[0])
        found = found[:width]
        if len(found) == width and (o["early"] or not beams or beams[0][0] / n ** o["penalty"] <= found[-1][0]):
            break
    if o["all"]:
        found = []
        for n in range(1, most + 1):
            for ids in itertools.product(range(1, size + 1), repeat=n):
                if o["stop"] in ids[:-1] or (n < most and ids[-1] != o["stop"]):
                    continue
                score = sum(log_p(prompt + list(ids[:k]))[ids[k] - 1].item() for k in range(n))
                found.append((score / n ** o["penalty"], list(ids)))
        found.sort(key=lambda beam: -beam[0])
    found = found[:o["show"]]
    ids = [ids + [0] * (most - len(ids)) for _, ids in found]
    return torch.tensor(ids), torch.tensor([score for score, _ in found], dtype=torch.float64)


def turned(o, x, positions=None):
    """Su et al. 2021, 3.2: pairs of columns, turned by position times frequency."""
    at = torch.arange(x.shape[-2]) + (o["offset"] or 0) if positions is None else positions
    n = int(x.shape[-1] * o["fraction"])
    angles = at.double().unsqueeze(-1) * o["base"] ** (torch.arange(0, n, 2).double() / -n)
    if at.dim() == 2 and x.dim() == 4:
        angles = angles.unsqueeze(1)
    way = torch.polar(torch.ones_like(angles), angles)
    part = x[..., :n].to(torch.float64)
    pairs = (part.unflatten(-1, (n // 2, 2)) if o["interleaved"]
             else part.unflatten(-1, (2, n // 2)).transpose(-1, -2))
    new = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * way)
    new = new if o["interleaved"] else new.transpose(-1, -2)
    return torch.cat([new.flatten(-2).to(x.dtype), x[..., n:]], -1)


def sinusoidal(o, like):
    angles = ((torch.arange(o["T"]).double() + o["offset"]).unsqueeze(1)
              / o["base"] ** (torch.arange(0, o["D"], 2).double() / o["D"]))
    table = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[:, :o["D"]]
    return table.to(like.dtype)


CODES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64]


@contextlib.contextmanager
def autocast_of_a_gpu(dtype):
    """torch.autocast("cuda", dtype), which does nothing where there is no GPU."""
    torch.set_autocast_dtype("cuda", dtype)
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.clear_autocast_cache()


def mixed(dtype, f, **inputs):
    """On a GPU, whose lists heed has: its tensors hold nothing here, but they have types."""
    with FakeTensorMode(allow_non_fake_inputs=True), autocast_of_a_gpu(getattr(torch, dtype)):
        fakes = {k: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda")
                 for k, t in inputs.items()}
        y = f(**fakes)
        ys = [y] if torch.is_tensor(y) else list(y)
        codes = [CODES.index(t.dtype) + 1 for t in ys]
    return torch.tensor(codes)


# == Options in two languages =======================================================

def lua(value):
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'"
    if value == math.inf:
        return "math.huge"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {lua(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "{" + ", ".join(map(lua, value)) + "}"
    return repr(value)


def written(o):
    return {"o": repr(o).replace("inf", "math.inf"), "O": lua(o)}


def row(name, function, letters, draw, dtypes=WHOLE, slack=512):
    """Letters in brackets may be missing: 'none' stands for them."""
    def drawn(r, t):
        inputs, o = draw(r, t)
        there = "".join(letter for letter, i in zip("abcd", inputs) if i is not None)
        names = written(o)
        names["args"] = ", ".join(k if k in there else "None" for k in letters)
        names["Args"] = ", ".join(k if k in there else "nil" for k in letters)
        return inputs, names
    return Row(name, "models." + function + "({O}, {Args})", "models." + function + "({o}, {args})",
               drawn, dtypes, slack)


def heads_and_dim(r):
    heads = r.choice([1, 2, 3, 4])
    return heads, heads * r.choice([1, 2, 4, 5])


def attention_case(context):
    def draw(r, t):
        heads, dim = heads_and_dim(r)
        b, n, s = r.randint(1, 3), r.randint(1, 6), r.randint(1, 7)
        wide = r.choice([dim, r.randint(1, 9)])
        s = s if context else n
        form = r.choice([None, "plain", "heads", "rows", "bias"])
        mask = {"plain": [n, s], "heads": [heads, n, s], "rows": [b, n, s], "bias": [n, s]}.get(form)
        padding = r.choice([None, "keys", "lengths"])
        o = {"seed": r.randint(0, 10 ** 6), "heads": heads, "bias": r.random() < 0.7, "form": form,
             "padding": padding, "causal": r.random() < 0.3 and (not context or s >= n),
             "weights": r.random() < 0.6, "vdim": None, "memory": r.random() < 0.2}
        if context and r.random() < 0.3:
            o["vdim"] = r.randint(1, wide)
        if padding and o["causal"]:
            o["padding"] = padding = "lengths"
        return [Input([b, n, dim], t), Input([b, s, wide], t) if context else None,
                Input([b, s], "bool", layout="plain") if padding else None,
                Input(mask, "bool" if form != "bias" else t) if form else None], o
    return draw


def transformer_case(kind):
    def draw(r, t):
        heads, dim = heads_and_dim(r)
        dim = max(dim, 2)
        heads = heads if dim % heads == 0 else 1
        b, n, s = r.randint(1, 3), r.randint(1, 5), r.randint(1, 6)
        s = n if "Encoder" in kind else s
        o = {"kind": kind, "seed": r.randint(0, 10 ** 6), "heads": heads, "hidden": r.randint(1, 9),
             "first": r.random() < 0.5, "activation": r.choice(["relu", "gelu"]),
             "bias": r.random() < 0.7, "eps": r.choice([1e-5, 1e-3]), "layers": r.randint(1, 3),
             "layers2": r.randint(1, 2), "final": r.random() < 0.5, "causal": r.random() < 0.5}
        return [Input([b, n, dim], t, layout="plain"),           # no variance is 0
                None if "Encoder" in kind else Input([b, s, dim], t, layout="plain"),
                Input([b, s], "bool") if r.random() < 0.5 else None,
                Input([n, n], "bool") if r.random() < 0.4 else None], o
    return draw


RATES = [1e-3, 0.03, 0.3]


def optimiser_case(kind):
    def options(r):
        o = {"lr": r.choice(RATES), "weight_decay": r.choice([0.0, 0.1]),
             "maximize": r.random() < 0.2}
        if kind == "SGD":
            o["momentum"] = r.choice([0.0, 0.9])
            o["nesterov"] = o["momentum"] > 0 and r.random() < 0.4
            if not o["nesterov"]:
                o["dampening"] = r.choice([0.0, 0.5])
        else:
            o["betas"] = r.choice([[0.9, 0.99], [0.5, 0.7]])
        if kind.startswith("Adam"):
            o["eps"], o["amsgrad"] = r.choice([1e-8, 1e-3]), r.random() < 0.4
        return o

    def draw(r, t):
        group = None
        if r.random() < 0.6:
            group = options(r)
            for name in list(group):
                if r.random() < 0.5 or name in ("nesterov", "dampening", "momentum"):
                    del group[name]
        o = {"kind": kind, "options": options(r), "group": group or None, "without": r.choice([0, 1, 2, 4]),
             "clip": r.choice([None, 0.5, 2.0, 100.0]), "norm": r.choice([1.0, 2.0, 3.0, math.inf])}
        return [Input([r.randint(1, 4), r.randint(1, 5)], t, grad=False),
                Input([r.randint(1, 9)], t, grad=False)], o
    return draw


def init_case(name):
    def draw(r, t):
        least = 1 if name in ("uniform_", "normal_", "constant_", "zeros_", "ones_",
                              "trunc_normal_") else 2
        most = 2 if name == "eye_" else 4
        size = [r.randint(1, 9) for _ in range(r.randint(least, most))]
        p, q = round(r.uniform(-1, 1), 2), round(r.uniform(0.1, 2), 2)
        o = {"uniform_": {"a": p, "b": p + q}, "normal_": {"mean": p, "std": q},
             "constant_": {"val": p}, "zeros_": {}, "ones_": {}, "eye_": {},
             "xavier_uniform_": {"gain": q}, "xavier_normal_": {"gain": q},
             "kaiming_uniform_": {"a": q, "mode": r.choice(["fan_in", "fan_out"])},
             "kaiming_normal_": {"nonlinearity": r.choice(["relu", "tanh", "linear", "leaky_relu",
                                                           "selu", "sigmoid"])},
             "trunc_normal_": {"mean": p, "std": q, "a": min(-2 * q, p + 4 * q),
                               "b": max(p, min(-2 * q, p + 4 * q)) + 3 * q},
             "orthogonal_": {"gain": q}}[name]
        return [Input([1], t, grad=False)], {"name": name, "size": size, "options": o,
                                             "seed": r.randint(0, 10 ** 6)}
    return draw


def sample_case(r, t):
    rows, size = r.randint(1, 4), r.randint(1, 12)
    def some(values):
        return r.choice([None, None] + values)
    o = {"temperature": some([0, 0.3, 0.7, 1.5]), "top_k": some([1, 2, 3, 5, 50]),
         "top_p": some([0.1, 0.5, 0.9, 0.99]), "min_p": some([0.05, 0.2, 0.8]),
         "penalty": some([0.8, 1.2, 2.0])}
    return [Input([rows, size], t, -4, 4, grad=False, layout="plain"), Ids([rows, r.randint(1, 5)], size)], o


def search_case(every):
    def draw(r, t):
        size, most = r.randint(2, 4), r.randint(1, 4)
        o = {"prompt": [r.randint(1, size) for _ in range(r.randint(1, 3))], "max": most,
             "stop": r.randint(1, size), "all": every, "early": False,
             "penalty": r.choice([0.0, 0.7, 1.0, 2.0])}
        if every:
            o["beams"], o["show"] = size ** most, 3
            o["penalty"] = r.choice([0.0, 1.0])
        else:
            o["beams"] = o["show"] = r.randint(1, 4)
            o["early"] = r.random() < 0.4
        return [Input([size, size], t, -3, 3, grad=False, layout="plain") for _ in range(2)], o
    return draw


def turned_case(r, t):
    sizes = [r.randint(1, 3) for _ in range(r.randint(0, 2))] + [r.randint(1, 6), 2 * r.randint(1, 6)]
    own = r.random() < 0.5
    o = {"base": r.choice([10000, 500.0]), "fraction": r.choice([1, 1, 0.5]),
         "interleaved": r.random() < 0.5,
         "offset": None if own else r.choice([None, 0, 3, 1000, 100000])}
    if sizes[-1] * o["fraction"] % 2 != 0:
        o["fraction"] = 1
    rows = [sizes[0]] if len(sizes) > 2 and r.random() < 0.5 else []
    ids = Ids(rows + [sizes[-2]], 5000)
    return [Input(sizes, t), ids if own else None], o


def table_case(r, t):
    return [Input([1], t, grad=False)], {"T": r.randint(0, 9), "D": r.randint(1, 9),
                                         "base": r.choice([10000, 100.0]),
                                         "offset": r.choice([0, 3, 5000])}


ROWS = [
    row("rope", "turned", "ab", turned_case, ["float32", "float16", "bfloat16"], 2),
    row("rope in doubles", "turned", "ab", turned_case, ["float64"], 2 ** 16),   # of angles to 1e5
    row("sinusoidal", "sinusoidal", "a", table_case, ["float32"], 2),
    row("MultiHeadAttention", "attention", "abcd", attention_case(False)),
    row("MultiHeadAttention context", "attention", "abcd", attention_case(True)),
]
for _kind in ["EncoderLayer", "DecoderLayer", "Encoder", "Decoder", "Transformer"]:
    ROWS.append(row(_kind, "transformer", "abcd", transformer_case(_kind)))
for _kind in ["SGD", "Adam", "AdamW", "Lion"]:
    ROWS.append(row(_kind, "optimised", "ab", optimiser_case(_kind), slack=32))
for _name in """uniform_ normal_ constant_ zeros_ ones_ eye_ xavier_uniform_ xavier_normal_
        kaiming_uniform_ kaiming_normal_ trunc_normal_ orthogonal_""".split():
    ROWS.append(row("init " + _name, "first_weights", "a", init_case(_name), slack=16))
ROWS += [
    row("sample", "sampled", "ab", sample_case, FLOATS, 16),
    row("beams", "searched", "ab", search_case(False), ["float64"], 16),
    row("beams, all", "searched", "ab", search_case(True), ["float64"], 16),
]

def in_a_half(draw):
    def drawn(r, t):
        inputs, names = draw(r, t)
        return inputs, {**names, "low": r.choice(["bfloat16", "float16"])}
    return drawn


# Rows without a result of known shape, and rows that PyTorch refuses for fake tensors alone.
_UNKNOWN = {"nonzero", "masked_select", "unique", "unique dim", "unique of one", "bincount",
            "bincount weights", "repeat_interleave", "triu_indices", "tril_indices", "max", "min", "max dim",
            "min dim", "amax of all", "amin of all", "argmax", "argmin", "take_along_dim of all"}
for _row in OPERATIONS:
    if "float32" in _row.dtypes and _row.name not in _UNKNOWN:
        ROWS.append(Row(
            "autocast " + _row.name,
            f"models.mixed('{{low}}', function(a, b, c, d) return {_row.heed} end, a, b, c, d)",
            f"models.mixed('{{low}}', lambda a=None, b=None, c=None, d=None: {_row.torch}, "
            "**{{k: v for k, v in globals().items() if k in ('a', 'b', 'c', 'd')}})",
            in_a_half(_row.draw), FLOATS))

ALLOWED = [
    ("autocast trace", ".*", "heed 6", "a trace is a sum to heed: in float32"),
    ("autocast bce .*", ".*", "unsafe to autocast", "heed has binary_cross_entropy in float32"),
    ("autocast .*", ".*", "at::autocast::prioritize", "heed takes both halves beside one another"),
    ("sample", "float16|bfloat16", "^y0", "which of equal logits top_p keeps is open"),
]
