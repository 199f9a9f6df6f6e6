"""models.lua in PyTorch's words."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

import directories


def counting_parts():
    parts = SimpleNamespace(embed=nn.Embedding(10, 5), query=nn.Parameter(torch.randn(1, 5)),
                            WK=nn.Linear(5, 5), WV=nn.Linear(5, 50))
    parts.last = nn.Sequential(nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 1), nn.Sigmoid())
    modules = nn.Sequential(parts.embed, parts.WK, parts.WV, parts.last)
    parts.parameters = [*modules.parameters(), parts.query]
    return parts


def counting_data():
    ids = torch.randint(1, 10, (100, 10)) - 1
    return ids, torch.randint(0, 2, (100, 1)).float()


def counting(_, **options):
    m = counting_parts()
    opt = torch.optim.Adam(m.parameters, **options)
    ids, y = counting_data()

    def step():
        x = m.embed(ids)
        scores = torch.einsum("ik,bjk->bij", m.query, m.WK(x))
        weights = torch.softmax(scores / 5 ** 0.5, -1)
        gathered = torch.einsum("bij,bjk->bik", weights, m.WV(x))
        loss = F.binary_cross_entropy(m.last(gathered[:, 0, :]), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    for _ in range(50):
        step()
    return step


def counting_fused(size):
    return counting(size, fused=True)


def counting_captured(size):            # PyTorch captures on GPUs alone; four steps for capturing
    step = counting(size)
    for _ in range(4):
        step()
    return step


# A small GPT -----------------------------------------------------------------

WORDS, SMALL_HEADS = 256, 4


def split(y):
    B, T, _ = y.shape
    return y.view(B, T, SMALL_HEADS, -1).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, store=None):
        h = self.norm(x)
        q, k, v = split(self.query(h)), split(self.key(h)), split(self.value(h))
        if store:
            store[0][:, :, -1:] = k
            store[1][:, :, -1:] = v
            k, v = store
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not store)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def small_gpt(layers, width):
    return nn.Sequential(nn.Embedding(WORDS, width), *(Block(width) for _ in range(layers)),
                         nn.LayerNorm(width), nn.Linear(width, WORDS))


def make_training(size, device="cpu", **options):
    layers, B, T, width = size
    model = small_gpt(layers, width).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, **options)
    ids = (torch.randint(1, WORDS + 1, (B, T + 1)) - 1).to(device)

    def step(given, wanted):
        opt.zero_grad()
        loss = F.cross_entropy(model(given).view(-1, WORDS), wanted.view(-1))
        loss.backward()
        opt.step()
        return loss

    return step, ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def training(size, **options):
    step, x, y = make_training(size, **options)
    for _ in range(2):
        step(x, y)
    return lambda: step(x, y)


def training_fused(size):
    return training(size, fused=True)


def decoding(size):
    layers, width, length = size
    embed, *blocks, norm, head = small_gpt(layers, width)
    ids, shape = torch.randint(1, WORDS + 1, (1, 1)) - 1, (1, SMALL_HEADS, length,
                                                           width // SMALL_HEADS)
    stores = [(torch.randn(shape), torch.randn(shape)) for _ in range(layers)]

    def step():
        x = embed(ids)
        for block, store in zip(blocks, stores):
            x = block(x, store)
        return head(norm(x))

    return torch.no_grad()(step)


WIDTH, HEADS, LAYERS = 768, 12, 12                                      # GPT-2, the small one
VOCABULARY, LENGTH = 50257, 1024


def gpt2_layer():
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0, activation="gelu",
                                      batch_first=True, norm_first=True)


def causal(length):
    return {"mask": nn.Transformer.generate_square_subsequent_mask(length), "is_causal": True}


def block_and_input(length):
    block, options = gpt2_layer(), causal(length)
    return block, torch.randn(1, length, WIDTH), {"src_mask": options["mask"], "is_causal": True}


def gpt2_block(size):
    block, x, options = block_and_input(*size)
    block.eval()
    return torch.no_grad()(lambda: block(x, **options))


def gpt2_block_backward(size):
    block, x, options = block_and_input(*size)
    g = torch.randn(1, *size, WIDTH)
    x.requires_grad_()

    def step():
        block.zero_grad()
        x.grad = None
        block(x, **options).backward(g)
        return x.grad, block.self_attn.out_proj.weight.grad

    return step


class GPT2(nn.Module):
    def __init__(self, length, layers=LAYERS, words=VOCABULARY):
        super().__init__()
        self.mask = nn.Buffer(causal(length)["mask"])
        self.embed = nn.Embedding(words, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.TransformerEncoder(gpt2_layer(), layers, nn.LayerNorm(WIDTH),
                                            enable_nested_tensor=False)
        nn.init.normal_(self.embed.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, ids):
        at = torch.arange(ids.shape[1], device=ids.device)
        x = self.embed(ids) + self.position(at)
        return F.linear(self.blocks(x, mask=self.mask, is_causal=True), self.embed.weight)


def gpt2(size):
    model, ids = GPT2(size[0]), torch.randint(1, VOCABULARY + 1, (1, *size)) - 1
    model.eval()
    return torch.no_grad()(lambda: model(ids)[:, -1])


def gpt2_training(size, make_optimiser=None, dtype=torch.float32, device="cpu", compiled=False):
    B, length, layers, words = *size, *(LAYERS, VOCABULARY)[len(size) - 2:]
    model = GPT2(length, layers, words).to(device, dtype)
    ids = (torch.randint(1, words + 1, (B, length + 1)) - 1).to(device)
    opt = make_optimiser and make_optimiser(model.parameters())
    logits = torch.compile(model) if compiled else model

    def step():
        model.zero_grad()
        loss = F.cross_entropy(logits(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        if opt:
            opt.step()
        return loss, model.blocks.layers[0].self_attn.out_proj.weight.grad

    return step


def gpt2_backward(size):
    return gpt2_training([1, *size])


def gpt2_step(size):
    return gpt2_training([1, *size], torch.optim.AdamW)


def gpt2_build(_):
    def build():
        model = GPT2(LENGTH)
        return model.embed.weight[0], model.blocks.layers[LAYERS - 1].self_attn.out_proj.weight

    return build


def clip(size):
    n, *shape = size
    xs = [torch.zeros(shape, requires_grad=True) for _ in range(n)]
    for x in xs:
        x.grad = torch.randn(shape)

    def step():
        nn.utils.clip_grad_norm_(xs, 1)
        return xs[0].grad

    return step


def window(size):
    length, width = size
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() & ones.triu(1 - width)


def minilm(size):
    model = directories.load("minilm")
    ids = torch.randint(1, directories.WORDS + 1, size) - 1
    return torch.inference_mode()(lambda: model(ids).last_hidden_state)


FACTORIES = {f.__name__: f for f in (
    clip, counting, counting_captured, counting_fused, decoding, gpt2, gpt2_backward, gpt2_block,
    gpt2_block_backward, gpt2_build, gpt2_step, minilm, training, training_fused, window)}
FACTORIES["decoding_captured"] = decoding
