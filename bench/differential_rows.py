"""The rows of the differential run (differential.py): pairs of expressions, one for heed and one
for PyTorch, each with a function that draws inputs and the numbers that stand in the expressions.

An axis is drawn once: {dim} is PyTorch's number of it, {Dim} heed's, one more unless negative. A
row's inputs are called a, b, c … in both expressions. `ALLOWED` lists the differences that are
meant, each with its reason.
"""

FLOATS = ["float32", "float64", "float16", "bfloat16"]
NUMBERS = FLOATS + ["int64", "uint8"]
ALL = NUMBERS + ["bool"]


class Input:
    """One tensor: its shape, its type, the range of its values, and whether it has a gradient."""

    def __init__(self, shape, dtype, low=-2.0, high=2.0, wild=False, grad=True, layout=None):
        self.shape, self.dtype, self.low, self.high = list(shape), dtype, low, high
        self.wild, self.layout = wild, layout
        self.grad = grad and dtype in FLOATS


class Row:
    def __init__(self, name, heed, torch, draw, dtypes=FLOATS, slack=1):
        self.name, self.heed, self.torch = name, heed, torch
        self.draw, self.dtypes, self.slack = draw, dtypes, slack


def both(dim):
    """An axis in both countings."""
    return {"dim": dim, "Dim": dim + 1 if dim >= 0 else dim}


def shape(r, least=0, most=4):
    if r.random() < 0.05:                               # one that holds nothing
        sizes = [r.randint(1, 4) for _ in range(max(least, 1))]
        sizes[r.randrange(len(sizes))] = 0
        return sizes
    return [r.choice([1, 2, 3, 4, 5, 7]) for _ in range(r.randint(least, most))]


def axis(r, sizes):
    return r.randrange(-len(sizes), len(sizes)) if sizes else 0


def broadcast_with(r, sizes):
    """A shape that broadcasts against another one."""
    other = [1 if r.random() < 0.3 else n for n in sizes]
    return other[r.randint(0, len(other)):] if r.random() < 0.3 else other


# == Elementwise ====================================================================

def one(low=-2.0, high=2.0, wild=True):
    return lambda r, t: ([Input(shape(r), t, low, high, wild)], {})


def two(low=-2.0, high=2.0, wild=True):
    def draw(r, t):
        sizes = shape(r)
        pair = [sizes, broadcast_with(r, sizes)]
        r.shuffle(pair)
        return [Input(s, t, low, high, wild) for s in pair], {}
    return draw


def numbers(r, t):
    inputs, _ = one()(r, t)
    return inputs, {"p": round(r.uniform(0.1, 2.0), 3), "q": round(r.uniform(2.0, 20.0), 3)}


ROWS = []
for _name in """neg abs sign square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log1p sin cos tan
        sinc asin acos atan sinh cosh tanh sigmoid erf relu floor ceil round trunc""".split():
    _types = NUMBERS if _name in "neg abs sign square relu floor ceil round trunc".split() else FLOATS
    ROWS.append(Row(_name, f"a:{_name}()", f"a.{_name}()", one(), _types, 4))
for _name in "isnan isinf isfinite logical_not".split():
    ROWS.append(Row(_name, f"a:{_name}()", f"a.{_name}()", one(), ALL))
for _name in "logsigmoid silu mish".split():
    ROWS.append(Row(_name, f"a:{_name}()", f"F.{_name}(a)", one()))
ROWS += [
    Row("gelu", "a:gelu()", "F.gelu(a)", one()),
    Row("gelu tanh", "a:gelu({{approximate = 'tanh'}})", "F.gelu(a, approximate='tanh')", one()),
    Row("leaky_relu", "a:leaky_relu({p})", "F.leaky_relu(a, {p})", numbers),
    Row("elu", "a:elu({p})", "F.elu(a, {p})", numbers),
    Row("softplus", "a:softplus({p}, {q})", "F.softplus(a, {p}, {q})", numbers),
    Row("hardtanh", "a:hardtanh(-{p}, {p})", "F.hardtanh(a, -{p}, {p})", numbers),
    Row("clamp", "a:clamp(-{p}, {p})", "a.clamp(-{p}, {p})", numbers),
]
for _name in "mul maximum minimum eq ne lt le gt ge".split():
    ROWS.append(Row(_name, f"heed.{_name}(a, b)", f"torch.{_name}(a, b)", two(), ALL))
for _name in "logical_and logical_or logical_xor".split():
    ROWS.append(Row(_name, f"heed.{_name}(a, b)", f"torch.{_name}(a, b)", two(), ALL))
for _name in "add sub div remainder fmod".split():
    ROWS.append(Row(_name, f"heed.{_name}(a, b)", f"torch.{_name}(a, b)", two(), NUMBERS))
ROWS.append(Row("floor_divide", "a:detach():floor_divide(b:detach())",
                "a.detach().floor_divide(b.detach())", two(), NUMBERS))
for _name in "atan2 hypot logaddexp".split():
    ROWS.append(Row(_name, f"heed.{_name}(a, b)", f"torch.{_name}(a, b)", two()))
ROWS += [
    Row("pow", "heed.pow(a, b)", "torch.pow(a, b)", two(0.1, 3.0, False), FLOATS, 8),
    Row("pow wild", "heed.pow(a, b)", "torch.pow(a, b)", two(), FLOATS, 8),
    Row("pow whole", "heed.pow(a, b)", "torch.pow(a, b)", two(0, 5, False), ["int64", "uint8"]),
    Row("pow number", "a ^ {p}", "a ** {p}", numbers),
    Row("isclose", "a:isclose(b, {{rtol = 0.5, equal_nan = true}})",
        "torch.isclose(a, b.to(a.dtype), rtol=0.5, equal_nan=True)", two(), NUMBERS),
    Row("nan_to_num", "a:nan_to_num()", "a.nan_to_num()", one()),
    Row("nan_to_num numbers", "a:nan_to_num({p}, {q}, -{q})", "a.nan_to_num({p}, {q}, -{q})", numbers),
    Row("add alpha", "a:add(b, {{alpha = 3}})", "a.add(b, alpha=3)", two(), NUMBERS),
]


def three(r, t):
    sizes = shape(r)
    c = Input(broadcast_with(r, sizes), "bool", grad=False)
    return [Input(sizes, t, wild=True), Input(broadcast_with(r, sizes), t, wild=True), c], {}


def lerp(r, t):
    sizes = shape(r)
    return [Input(sizes, t), Input(sizes, t), Input(broadcast_with(r, sizes), t, 0, 1)], {}


ROWS += [
    Row("where", "heed.where(c, a, b)", "torch.where(c, a, b)", three, ALL),
    Row("masked_fill", "a:masked_fill(c, 0.5)", "a.masked_fill(c, 0.5)",
        lambda r, t: (lambda i: ([i[0], i[1], Input(broadcast_with(r, i[0].shape), "bool")], {}))(
            three(r, t)[0])),
    Row("lerp", "heed.lerp(a, b, c)", "torch.lerp(a, b, c)", lerp),
]


# == Reductions =====================================================================

def reduced(least=0, wild=False, low=-2.0, high=2.0):
    def draw(r, t):
        sizes = shape(r, least)
        keep = r.random() < 0.5
        return [Input(sizes, t, low, high, wild and r.random() < 0.3)], {
            **both(axis(r, sizes)), "keep": keep, "Keep": str(keep).lower()}
    return draw


def spread(r, t):
    """As `reduced`, but of elements that are not all equal: a deviation of 0 has no derivative."""
    inputs, names = reduced(1)(r, t)
    inputs[0].layout = "plain"
    return inputs, names


for _name in "sum mean logsumexp prod any all argmax argmin".split():
    _types = FLOATS if _name in ("mean", "logsumexp") else ALL
    _types = NUMBERS if _name.startswith("arg") else _types
    ROWS.append(Row(_name + " dim", f"a:{_name}({{Dim}}, {{Keep}})", f"a.{_name}({{dim}}, {{keep}})" + (" + 1" if _name.startswith("arg") else ""),
                    reduced(1, wild=not _name.startswith("arg")), _types, 4))
for _name in "sum mean prod any all argmax argmin max min".split():
    _types = FLOATS if _name == "mean" else NUMBERS
    _one = " + 1" if _name.startswith("arg") else ""
    _heed = f"heed.tensor(a:{_name}())" if _name in ("any", "all") else f"a:{_name}()"
    ROWS.append(Row(_name, _heed, f"a.{_name}(){_one}", reduced(), _types, 4))
for _name in "amax amin".split():
    ROWS.append(Row(_name, f"a:{_name}({{Dim}}, {{Keep}})", f"a.{_name}({{dim}}, {{keep}})",
                    reduced(1, wild=True), ALL))
    ROWS.append(Row(_name + " of all", f"a:{_name}()", f"a.{_name}()", reduced(1), ALL))
for _name in "max min".split():
    ROWS.append(Row(_name + " dim", f"a:{_name}({{Dim}}, {{Keep}})", f"a.{_name}({{dim}}, {{keep}})",
                    reduced(1), NUMBERS, 1))
for _name in "var std".split():
    ROWS.append(Row(_name + " dim", f"a:{_name}({{Dim}}, {{{{keepdim = {{Keep}}}}}})",
                    f"a.{_name}({{dim}}, keepdim={{keep}})", spread, FLOATS, 8))
    ROWS.append(Row(_name + " biased", f"a:{_name}({{Dim}}, {{{{unbiased = false}}}})",
                    f"a.{_name}({{dim}}, unbiased=False)", spread, FLOATS, 8))
for _p in ["1", "2", "0.5", "3", "0", "math.huge"]:
    _q = "float('inf')" if _p == "math.huge" else _p
    ROWS.append(Row(f"norm {_p}", f"a:norm({_p}, {{Dim}}, {{Keep}})",
                    f"a.norm({_q}, {{dim}}, {{keep}})", reduced(1, wild=True), FLOATS, 8))
for _name in "cumsum cumprod softmax log_softmax".split():
    _types = NUMBERS if _name.startswith("cum") else FLOATS
    ROWS.append(Row(_name, f"a:{_name}({{Dim}})", f"a.{_name}({{dim}})", reduced(0, wild=True),
                    _types, 8))


# == Products =======================================================================

def product(r, t):
    n, k, m = r.randint(0, 9), r.randint(0, 9), r.randint(1, 40)
    form = r.randrange(5)
    if form == 0:
        return [Input([k], t), Input([k], t)], {}
    if form == 1:
        return [Input([n, k], t), Input([k], t)], {}
    if form == 2:
        return [Input([k], t), Input([k, m], t)], {}
    batch = shape(r, 1, 2) if form == 4 else []
    return [Input(batch + [n, k], t), Input(broadcast_with(r, batch) + [k, m], t)], {}


def linear(r, t):
    out, k = r.randint(1, 20), r.randint(1, 20)
    return [Input(shape(r, 0, 3) + [k], t), Input([out, k], t), Input([out], t)], {}


def einsum(equation):
    def draw(r, t):
        size = {c: r.randint(1, 5) for c in "bijk"}
        left, _ = equation.split("->")
        return [Input([size[c] for c in part], t) for part in left.split(",")], {}
    return draw


def vectors(same):
    def draw(r, t):
        n, m = r.randint(1, 9), r.randint(1, 9)
        return [Input([n], t), Input([n if same else m], t)], {}
    return draw


def added(batch):
    def draw(r, t):
        b = [r.randint(1, 4)] if batch else []
        n, k, m = r.randint(1, 9), r.randint(0, 9), r.randint(1, 20)
        return [Input(broadcast_with(r, b + [n, m]), t), Input(b + [n, k], t), Input(b + [k, m], t)], {
            "p": r.randint(0, 3), "q": r.randint(-2, 3)}
    return draw


def matrix(r, t):
    return [Input([r.randint(0, 6), r.randint(0, 6)], t)], {"n": r.randint(-4, 4)}


_products = ["float32", "float64", "float16", "bfloat16", "int64"]
ROWS += [
    Row("matmul", "a:matmul(b)", "a.matmul(b)", product, _products, 8),
    Row("linear", "heed.linear(a, b, c)", "F.linear(a, b, c)", linear, FLOATS, 8),
    Row("dot", "a:dot(b)", "a.dot(b)", vectors(True), _products, 8),
    Row("addmm", "heed.addmm(a, b, c, {{beta = {p}, alpha = {q}}})",
        "torch.addmm(a, b, c, beta={p}, alpha={q})", added(False), _products, 16),
    Row("baddbmm", "heed.baddbmm(a, b, c, {p}, {q})", "torch.baddbmm(a, b, c, beta={p}, alpha={q})",
        added(True), _products, 16),
    Row("trace", "a:trace()", "a.trace()", matrix, NUMBERS, 4),
    Row("outer", "a:outer(b)", "a.outer(b)", vectors(False), _products, 8),
]
for _e in ["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "ij->", "bi,bj->bij", "i,i->", "ij,ij->j",
           "bij,kj->bik"]:
    _many = ", ".join("ab"[:_e.count(",") + 1])
    ROWS.append(Row("einsum " + _e, f"heed.einsum('{_e}', {_many})", f"torch.einsum('{_e}', {_many})",
                    (lambda e: lambda r, t: ([Input([3, 3], t)], {}) if e == "ii->i" else
                     einsum(e)(r, t))(_e), ["float32", "float64", "int64"], 8))


# == Views and moves ================================================================

def moved(least=0, **more):
    def draw(r, t):
        sizes = shape(r, least)
        names = both(axis(r, sizes))
        other = both(axis(r, sizes))
        names.update(dim2=other["dim"], Dim2=other["Dim"], n=r.randint(-3, 3))
        n = sizes[names["dim"]] if sizes else 1
        start = r.randint(0, max(0, n - 1))
        names.update(start=start, Start=start + 1, length=r.randint(0, n - start), step=r.randint(1, 3))
        names.update(index=r.randrange(n) if n else 0)
        names["Index"] = names["index"] + 1
        return [Input(sizes, t, wild=more.get("wild", True))], names
    return draw


def permuted(r, t):
    sizes = shape(r, 1)
    order = list(range(len(sizes)))
    r.shuffle(order)
    return [Input(sizes, t, wild=True)], {
        "dims": ", ".join(map(str, order)), "Dims": ", ".join(str(d + 1) for d in order)}


def several(r, t):
    sizes = shape(r, 1)
    d = axis(r, sizes)
    other = list(sizes)
    other[d] = r.randint(0, 4)
    return [Input(sizes, t, wild=True), Input(other, t, wild=True)], both(d)


def equal_shapes(r, t):
    sizes = shape(r, 1, 3)
    return [Input(sizes, t, wild=True), Input(sizes, t, wild=True)], both(axis(r, sizes))


def padded(r, t):
    n = r.randint(3, 7)
    return [Input([r.randint(1, 3), r.randint(1, 3), n], t, wild=True)], {
        "p": r.randint(-1, n - 1), "q": r.randint(-1, n - 2)}


def triangle(r, t):
    return [Input([1], t)], {"n": r.randint(0, 6), "m": r.randint(0, 6), "k": r.randint(-4, 4)}


def several_axes(r, t):
    sizes = shape(r, 1)
    axes = r.sample(range(len(sizes)), r.randint(1, len(sizes)))
    other = r.sample(range(len(sizes)), len(axes))
    shown = lambda list_, more: ", ".join(str(d + more if d >= 0 else d) for d in list_)
    axes = [d - len(sizes) if r.random() < 0.3 else d for d in axes]
    return [Input(sizes, t)], {"dims": shown(axes, 0), "Dims": shown(axes, 1), "to": shown(other, 0),
                               "To": shown(other, 1), "keep": r.random() < 0.5}


def split_axis(r, t):
    sizes, parts = shape(r, 0, 3), [r.randint(1, 3) for _ in range(r.randint(1, 3))]
    d = r.randint(0, len(sizes))
    n = 1
    for part in parts:
        n *= part
    if r.random() < 0.5:
        parts[r.randrange(len(parts))] = -1
    return [Input(sizes[:d] + [n] + sizes[d:], t)], {**both(d), "sizes": ", ".join(map(str, parts))}


def padded_around(r, t):
    sizes = [r.randint(1, 3) for _ in range(r.choice([1, 2]))] + [r.randint(3, 6), r.randint(3, 6)]
    return [Input(sizes, t)], {"p": ", ".join(str(r.randint(-1, 2)) for _ in range(4))}


def widened(r, t):
    sizes = shape(r)
    more = [r.randint(1, 3) for _ in range(r.randint(0, 2))]
    wide = [r.randint(0, 4) if n == 1 and r.random() < 0.6 else n for n in sizes]
    return [Input(sizes, t)], {"sizes": ", ".join(map(str, more + wide)) or "1"}


def other_type(r, t):
    return [Input(shape(r), t, 0), Input([1], r.choice(ALL))], {}


ROWS += [
    Row("amax dims", "a:amax({{{Dims}}}, true)", "a.amax(({dims},), True)", several_axes, NUMBERS),
    Row("amin dims", "a:amin({{{Dims}}})", "a.amin(({dims},))", several_axes, NUMBERS),
    Row("movedim dims", "a:movedim({{{Dims}}}, {{{To}}})", "a.movedim(({dims},), ({to},))", several_axes, ALL),
    Row("unflatten sizes", "a:unflatten({Dim}, {{{sizes}}})", "a.unflatten({dim}, ({sizes},))", split_axis, ALL),
    Row("broadcast_to sizes", "a:broadcast_to({sizes})", "a.broadcast_to({sizes})", widened, ALL),
    Row("type_as", "a:type_as(b)", "a.type_as(b)", other_type, ALL),
    Row("new_zeros", "a:new_zeros(2, 3), a:new_ones({{2}})", "(a.new_zeros(2, 3), a.new_ones(2))",
        other_type, ALL),
    Row("meshgrid xy", "heed.meshgrid({{a, b}}, {{indexing = 'xy'}})[2]",
        "torch.meshgrid(a, b, indexing='xy')[1]", vectors(False), ALL),
    Row("pad around", "a:pad({{{p}}}, {{value = -1}})", "F.pad(a, ({p}), value=-1)", padded_around, FLOATS),
]
for _mode in ["reflect", "replicate", "circular"]:
    ROWS.append(Row(f"pad {_mode} around", f"a:pad({{{{{{p}}}}}}, '{_mode}')", f"F.pad(a, ({{p}}), '{_mode}')",
                    padded_around, FLOATS))
ROWS += [
    Row("transpose", "a:transpose({Dim}, {Dim2})", "a.transpose({dim}, {dim2})", moved(1), ALL),
    Row("permute", "a:permute({Dims})", "a.permute({dims})", permuted, ALL),
    Row("reshape", "a:reshape(-1)", "a.reshape(-1)", moved(0), ALL),
    Row("flatten", "a:flatten()", "a.flatten()", moved(0), ALL),
    Row("unflatten", "a:unflatten({Dim}, -1, 1)", "a.unflatten({dim}, (-1, 1))", moved(1), ALL),
    Row("movedim", "a:movedim({Dim}, {Dim2})", "a.movedim({dim}, {dim2})", moved(1), ALL),
    Row("broadcast_to", "a:broadcast_to(2, -1, -1)", "a.broadcast_to(2, -1, -1)",
        lambda r, t: ([Input(shape(r, 2, 2), t)], {}), ALL),
    Row("diag", "a:diag({n})", "a.diag({n})", matrix, ALL),
    Row("diag of a vector", "a:diag({n})", "a.diag({n})",
        lambda r, t: ([Input([r.randint(0, 5)], t)], {"n": r.randint(-3, 3)}), ALL),
    Row("diag_embed", "a:diag_embed({n})", "a.diag_embed({n})", moved(1), ALL),
    Row("narrow", "a:narrow({Dim}, {Start}, {length})", "a.narrow({dim}, {start}, {length})", moved(1), ALL),
    Row("select", "a:select({Dim}, {Index})", "a.select({dim}, {index})", moved(1), ALL),
    Row("unsqueeze", "a:unsqueeze({Dim})", "a.unsqueeze({dim})", moved(1), ALL),
    Row("squeeze", "a:squeeze()", "a.squeeze()", moved(0), ALL),
    Row("squeeze dim", "a:squeeze({Dim})", "a.squeeze({dim})", moved(1), ALL),
    Row("flip", "a:flip({Dim})", "a.flip({dim})", moved(1), ALL),
    Row("roll", "a:roll({n}, {Dim})", "a.roll({n}, {dim})", moved(1), ALL),
    Row("tril", "a:tril({n})", "a.tril({n})", moved(2), ALL),
    Row("triu", "a:triu({n})", "a.triu({n})", moved(2), ALL),
    Row("diagonal", "a:diagonal({n})", "a.diagonal({n})", moved(2), ALL),
    Row("unfold", "a:unfold({Dim}, {length}, {step})", "a.unfold({dim}, {length}, {step})", moved(1), ALL),
    Row("tile", "a:tile(2, 3)", "a.tile(2, 3)", moved(0), ALL),
    Row("repeat_interleave", "a:repeat_interleave(2, {Dim})", "a.repeat_interleave(2, {dim})", moved(1), ALL),
    Row("pad", "a:pad({{1, 2}}, {{value = 0.5}})", "F.pad(a, (1, 2), value=0.5)", moved(1), FLOATS),
    Row("pad reflect", "a:pad({{{p}, {q}}}, 'reflect')", "F.pad(a, ({p}, {q}), 'reflect')", padded, FLOATS),
    Row("pad replicate", "a:pad({{{p}, {q}}}, 'replicate')", "F.pad(a, ({p}, {q}), 'replicate')", padded,
        FLOATS),
    Row("pad circular", "a:pad({{{p}, {q}}}, 'circular')", "F.pad(a, ({p}, {q}), 'circular')", padded, FLOATS),
    Row("meshgrid", "heed.meshgrid(a, b)[1], heed.meshgrid(a, b)[2]", "torch.meshgrid(a, b, indexing='ij')", vectors(False),
        ALL),
    Row("triu_indices", "heed.triu_indices({n}, {m}, {k})", "torch.triu_indices({n}, {m}, {k}) + 1", triangle),
    Row("tril_indices", "heed.tril_indices({n}, {m}, {k})", "torch.tril_indices({n}, {m}, {k}) + 1", triangle),
    Row("cat", "heed.cat({{a, b}}, {Dim})", "torch.cat((a, b), {dim})", several, ALL),
    Row("stack", "heed.stack({{a, b}}, {Dim})", "torch.stack((a, b), {dim})", equal_shapes, ALL),
    Row("sort", "a:sort({Dim})", "a.sort(dim={dim}, stable=True)", moved(0), NUMBERS),
    Row("sort down", "a:sort({Dim}, true)", "a.sort(dim={dim}, descending=True, stable=True)", moved(0), NUMBERS),
    Row("topk", "a:topk({length}, {Dim})", "a.topk({length}, {dim})", moved(1, wild=False), FLOATS),
    Row("nonzero", "a:nonzero()", "a.nonzero() + 1", moved(0), ALL),
    Row("stepped", "a[{{ {{1, -1, {step}}} }}]", "a[::{step}]", moved(1), ALL),
]


# == Indexing: PyTorch's ids count from 0, heed's from 1 ============================

class Ids(Input):
    """Ids from 1 to n; PyTorch's expression takes 1 off."""

    def __init__(self, sizes, n):
        super().__init__(sizes, "int64", 1, n + 0.999, grad=False)


def gathered(r, t):
    sizes = [max(1, n) for n in shape(r, 1, 3)]
    d = axis(r, sizes)
    index = [r.randint(0, n) for n in sizes]
    index[d] = r.randint(0, 6)
    return [Input(sizes, t, wild=True), Ids(index, sizes[d]), Input(index, t)], both(d)


def selected(r, t):
    sizes = [max(1, n) for n in shape(r, 1, 3)]
    d = axis(r, sizes)
    return [Input(sizes, t, wild=True), Ids([r.randint(0, 6)], sizes[d])], both(d)


def index_added(r, t):
    inputs, names = selected(r, t)
    source = list(inputs[0].shape)
    source[names["dim"]] = inputs[1].shape[0]
    return inputs + [Input(source, t)], names


def gathered_beside(r, t):
    inputs, names = gathered(r, t)
    index = [r.choice([1, n]) for n in inputs[0].shape]
    index[names["dim"]] = r.randint(0, 6)
    return [inputs[0], Ids(index, inputs[0].shape[names["dim"]])], names


def embedded(r, t):
    n = r.randint(1, 9)
    return [Ids(shape(r, 0, 3), n), Input([n, r.randint(1, 6)], t)], {"pad": r.randrange(n)}


ROWS += [
    Row("gather", "a:gather({Dim}, b)", "a.gather({dim}, b - 1)", gathered, ALL),
    Row("scatter_add", "a:scatter_add({Dim}, b, c)", "a.scatter_add({dim}, b - 1, c)", gathered,
        ["float32", "float64", "int64"], 4),
    Row("index_add", "a:index_add({Dim}, b, c, {{alpha = 2}})", "a.index_add({dim}, b - 1, c, alpha=2)",
        index_added, ["float32", "float64", "int64"], 4),
    Row("take_along_dim", "a:take_along_dim(b, {Dim})", "a.take_along_dim(b - 1, {dim})", gathered_beside, ALL),
    Row("unique", "a:unique{{return_inverse = true, return_counts = true}}",
        "(lambda y: (y[0], y[1] + 1, y[2]))(a.detach().unique(return_inverse=True, return_counts=True))",
        lambda r, t: ([Input(shape(r, 0, 2), t, 0, 4, grad=False)], {}), ["int64", "uint8", "bool"]),
    Row("unique dim", "a:unique{{dim = 1, return_inverse = true, return_counts = true}}",
        "(lambda y: (y[0], y[1] + 1, y[2]))(a.unique(dim=0, return_inverse=True, return_counts=True))",
        lambda r, t: ([Input([r.randint(1, 9), r.randint(1, 3)], t, 0, 2.9)], {}), ["int64", "uint8", "bool"]),
    Row("unique of one", "a:unique()", "a.detach().unique()",
        lambda r, t: ([Input(shape(r, 0, 2), t, -2, 2, grad=False)], {}), NUMBERS),
    Row("take_along_dim of all", "a:take_along_dim(b)", "a.take_along_dim(b - 1)",
        lambda r, t: (lambda s: ([Input([max(1, n) for n in s], t), Ids([r.randint(0, 5)], 1)], {}))(
            shape(r, 1, 3)), ALL),
    Row("bincount", "a:bincount{{minlength = 4}}", "(a - 1).bincount(minlength=4)",
        lambda r, t: ([Ids([r.randint(0, 9)], 7)], {}), ["int64"]),
    Row("bincount weights", "a:bincount(b)", "torch.zeros(int(a.max())).to(b).scatter_add(0, a - 1, b)",
        lambda r, t: (lambda n: ([Ids([n], 7), Input([n], t)], {}))(r.randint(1, 9)), ["float32", "float64"], 4),
    Row("index_select", "a:index_select({Dim}, b)", "a.index_select({dim}, b - 1)", selected, ALL),
    Row("index", "a[b]", "a[b - 1]", lambda r, t: (lambda s: ([Input(s, t), Ids([4], s[0])], {}))(
        [r.randint(1, 5), r.randint(1, 3)]), ALL),
    Row("embedding", "heed.embedding(a, b)", "F.embedding(a - 1, b)", embedded),
    Row("masked_select", "a:masked_select(c)", "a.masked_select(c)", three, ALL),
]


# == Norms and losses ===============================================================

def normed(r, t):
    d = r.randint(2, 40)
    x = Input([max(1, n) for n in shape(r, 0, 2)] + [d], t, layout="plain")
    return [x, Input([d], t), Input([d], t)], {
        "d": d, "eps": r.choice(["1e-5", "1e-3"])}


def logits(r, t):
    n, c = r.randint(1, 9), r.randint(2, 12)
    return [Input([n, c], t, -4, 4), Ids([n], c), Input([c], t, 0.1, 2, grad=False)], {
        "s": round(r.uniform(0, 0.3), 2)}


def pair(low=-2.0, high=2.0):
    def draw(r, t):
        sizes = shape(r)
        return [Input(sizes, t, low, high), Input(sizes, t, low, high)], {"p": round(r.uniform(0.1, 2), 3)}
    return draw


def kl(r, t):
    sizes = [r.randint(1, 5), r.randint(1, 5)]
    return [Input(sizes, t, -3, 0), Input(sizes, t, 0, 1, grad=False)], {}


ROWS += [
    Row("normalize", "a:normalize({p}, {Dim})", "F.normalize(a, {p}, {dim})",
        lambda r, t: (lambda i, n: (i, {**n, "p": r.choice([1, 2, 3])}))(*spread(r, t)), FLOATS, 16),
    Row("cosine_similarity", "a:cosine_similarity(b, {Dim})", "F.cosine_similarity(a, b, {dim})",
        lambda r, t: (lambda s: ([Input(s, t, 0.5, 2), Input(s, t, -2, -0.5)], both(axis(r, s))))(
            shape(r, 1, 3)), FLOATS, 32),
    Row("normalize eps", "a:normalize({{eps = 0.5, dim = {Dim}}})", "F.normalize(a, dim={dim}, eps=0.5)",
        spread, FLOATS, 16),
    Row("cosine_similarity wide", "a:cosine_similarity(b, {{dim = -1, eps = 0.1}})",
        "F.cosine_similarity(a, b, -1, 0.1)", two(-2, 2, False), FLOATS, 32),
    Row("cross_entropy ignored", "heed.cross_entropy(a, b, {{ignore_index = 1}})",
        "F.cross_entropy(a, b - 1, ignore_index=0)", logits, FLOATS, 8),
    Row("cross_entropy rows", "heed.cross_entropy(a, b, {{dim = -1, ignore_index = 2}})",
        "F.cross_entropy(a.movedim(-1, 1), b - 1, ignore_index=1)",
        lambda r, t: (lambda n, m, c: ([Input([n, m, c], t, -4, 4), Ids([n, m], c)], {}))(
            r.randint(1, 4), r.randint(1, 4), r.randint(2, 6)), FLOATS, 8),
    Row("layer_norm", "heed.layer_norm(a, {d}, b, c, {{eps = {eps}}})",
        "F.layer_norm(a, ({d},), b, c, {eps})", normed, FLOATS, 64),
    Row("rms_norm", "heed.rms_norm(a, {d}, b, {{eps = {eps}}})", "F.rms_norm(a, ({d},), b, {eps})",
        normed, FLOATS, 64),
]
for _reduction in ["mean", "sum", "none"]:
    _h, _t = f"reduction = '{_reduction}'", f"reduction='{_reduction}'"
    ROWS += [
        Row("cross_entropy " + _reduction, "heed.cross_entropy(a, b, {{weight = c, "
            + _h + ", label_smoothing = {s}}})",
            "F.cross_entropy(a, b - 1, weight=c, " + _t + ", label_smoothing={s})", logits, FLOATS, 8),
        Row("nll_loss " + _reduction, "heed.nll_loss(a:log_softmax(2), b, {{" + _h + "}})",
            "F.nll_loss(a.log_softmax(1), b - 1, " + _t + ")", logits, FLOATS, 8),
        Row("bce " + _reduction, "heed.binary_cross_entropy(a, b, {{" + _h + "}})",
            "F.binary_cross_entropy(a, b, " + _t + ")",
            lambda r, t: (lambda i: ([i[0], Input(i[0].shape, t, 0, 1, grad=False)], {}))(
                pair(0.001, 0.999)(r, t)[0]), ["float32", "float64"], 8),
        Row("bce_with_logits " + _reduction, "heed.bce_with_logits(a, b, {{" + _h + "}})",
            "F.binary_cross_entropy_with_logits(a, b, " + _t + ")",
            lambda r, t: (lambda i: ([i[0], Input(i[0].shape, t, 0, 1, grad=False)], {}))(
                pair(-4, 4)(r, t)[0]), FLOATS, 8),
        Row("kl_div " + _reduction, "heed.kl_div(a, b, {{" + _h + "}})",
            "F.kl_div(a, b, " + _t + ")", kl, FLOATS, 8),
    ]
    ROWS.append(Row("cross_entropy last " + _reduction, "heed.cross_entropy(a:unsqueeze(1), b:unsqueeze(1), "
                    "{{weight = c, dim = -1, label_smoothing = {s}, " + _h + "}})",
                    "F.cross_entropy(a.unsqueeze(0).movedim(-1, 1), (b - 1).unsqueeze(0), weight=c, "
                    "label_smoothing={s}, " + _t + ")", logits, FLOATS, 8))
    ROWS.append(Row("huber_loss delta " + _reduction, "heed.huber_loss(a, b, {{delta = {p}, " + _h + "}})",
                    "F.huber_loss(a, b, delta={p}, " + _t + ")", pair(), FLOATS, 8))
    for _name in ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]:
        ROWS.append(Row(f"{_name} {_reduction}", f"heed.{_name}(a, b, {{{{{_h}}}}})",
                        f"F.{_name}(a, b, {_t})", pair(), FLOATS, 8))


# == Attention ======================================================================

def attended(masked):
    def draw(r, t):
        b, h, n, s, d, e = (r.randint(1, 3), r.choice([1, 2, 4]), r.randint(1, 9), r.randint(1, 9),
                            r.randint(1, 9), r.randint(1, 9))
        hk = r.choice([k for k in (1, 2, 4) if h % k == 0])
        inputs = [Input([b, h, n, d], t), Input([b, hk, s, d], t), Input([b, hk, s, e], t)]
        if masked == "mask":
            inputs.append(Input([r.choice([1, b]), r.choice([1, h]), r.choice([1, n]), r.choice([1, s])], "bool"))
        elif masked == "bias":
            inputs.append(Input([r.choice([1, b]), r.choice([1, h]), r.choice([1, n]), r.choice([1, s])], t))
        return inputs, {"scale": round(r.uniform(0.1, 1), 3)}
    return draw


_sdpa = "F.scaled_dot_product_attention(a, b, c, enable_gqa=True"
ROWS += [
    Row("attention", "heed.attention(a, b, c, {{scale = {scale}}})", _sdpa + ", scale={scale})",
        attended(None), FLOATS, 16),
    Row("attention mask", "heed.attention(a, b, c, {{mask = d}})", _sdpa + ", attn_mask=d)",
        attended("mask"), FLOATS, 16),
    Row("attention bias", "heed.attention(a, b, c, {{bias = d}})", _sdpa + ", attn_mask=d)",
        attended("bias"), FLOATS, 16),
]


# == Differences that are meant =====================================================

# (row, types, what, why): patterns of the row's name, of its type, and of the difference.
ALLOWED = [
    ("(any|all)( dim)?", "uint8", "uint8.*bool", "any and all are bools of uint8 too"),
    ("amax|amin", ".*", "^ga.*PyTorch nan", "a NaN that is found gets the gradient, as max's of all"),
    ("take_along_dim of all", ".*", "refuses: view size", "PyTorch flattens contiguous tensors alone there"),
    ("cosine_similarity wide", ".*", "^g", "PyTorch's gradient goes through norms that eps stands for"),
    ("atan2", ".*", "^g.*heed -?inf", "a derivative beside denormals is beyond the type"),
    ("topk", ".*", "^(y1|ga)", "which of equal elements come first is open"),
    ("gelu( tanh)?", ".*", "PyTorch nan", "gelu's derivative at infinities is its limit"),
    ("sinc", "float64", "^ga", "PyTorch's derivative of sinc cancels near 0"),
    ("asin|acos", "float64", "^ga", "1 - a * a cancels near 1, (1 - a) * (1 + a) does not"),
    ("elu", ".*", "PyTorch nan", "elu's derivative at NaN: PyTorch's paths differ, heed's is 1"),
    ("hardtanh", ".*", "PyTorch 0.0", "hardtanh's derivative at NaN: PyTorch's paths differ, heed's is 1"),
    ("(cum)?prod.*", ".*", "heed nan", "prod's gradient beside infinities: PyTorch's depends on zeros"),
    ("prod.*", ".*", "^ga.*PyTorch nan, heed -?0.0$", "beside a zero all other gradients are 0, infinities or not"),
    ("pow number", "float32", "^ga", "heed rounds the exponent to float32 before it takes off 1"),
    ("pow.*", "float16|bfloat16", "^ga.*heed nan", "PyTorch rounds the exponent less 1 to 16 bits"),
    (".*", "float16|bfloat16", "^g.*PyTorch (-?inf|nan), ", "PyTorch overflows between 16-bit steps"),
    ("norm 0.5", "float32", r"^ga.*PyTorch .*e\+", "the ratio of a denormal to its norm has few bits"),
    ("norm .*", ".*", "^ga.*(PyTorch nan|heed -?inf)", "ratios of norms' elements leave the type"),
    ("remainder", ".*", "PyTorch nan", "PyTorch's remainder by a denormal is NaN"),
]
