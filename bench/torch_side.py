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
    def __init__(self, length):
        super().__init__()
        self.options = causal(length)
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.TransformerEncoder(gpt2_layer(), LAYERS, nn.LayerNorm(WIDTH),
                                            enable_nested_tensor=False)
        nn.init.normal_(self.embed.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, ids):
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1]))
        return F.linear(self.blocks(x, **self.options), self.embed.weight)


def gpt2(size):
    model, ids = GPT2(size[0]), torch.randint(1, VOCABULARY + 1, (1, *size)) - 1
    model.eval()
    return torch.no_grad()(lambda: model(ids)[:, -1])


def gpt2_backward(size):
    model, ids = GPT2(size[0]), torch.randint(1, VOCABULARY + 1, (1, size[0] + 1)) - 1

    def step():
        model.zero_grad()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        return loss, model.blocks.layers[0].self_attn.out_proj.weight.grad

    return step


def seconds(f, n):
    began = time.perf_counter()
    for _ in range(n):
        f()
    return time.perf_counter() - began


serve(SimpleNamespace(name=f"PyTorch {torch.__version__}", seconds=seconds,
                      factories={f.__name__: f for f in (counting, gpt2, gpt2_backward, gpt2_block,
                                                         gpt2_block_backward)},
                      place=lambda x: x))
