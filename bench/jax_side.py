"""JAX's side of the counting notebook's training step: the whole step compiled by jax.jit, from
PyTorch's numbers. side.py has the protocol."""

import os
import sys
import time
from types import SimpleNamespace

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])])   # its threads

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit("bench: no JAX is here (pip install jax)")

import models
from side import serve

RATE, FIRST, SECOND, SMALL = 1e-3, 0.9, 0.999, 1e-8     # Adam's


def array(x):
    return jnp.array(x.detach().numpy())


def linear(layer):
    return array(layer.weight.T), array(layer.bias)


def loss_of(p, ids, y):
    def apply(x, name):
        weight, bias = p[name]
        return x @ weight + bias

    x = p["embed"][ids]
    scores = jnp.einsum("ik,bjk->bij", p["query"], apply(x, "WK"))
    weights = jax.nn.softmax(scores / 5 ** 0.5, -1)
    gathered = jnp.einsum("bij,bjk->bik", weights, apply(x, "WV"))[:, 0]
    z = jax.nn.sigmoid(apply(jax.nn.relu(apply(gathered, "first")), "second"))
    return -jnp.mean(y * jnp.log(z) + (1 - y) * jnp.log(1 - z))


def step_of(p, m, v, t, ids, y):
    loss, g = jax.value_and_grad(loss_of)(p, ids, y)
    t = t + 1
    m = jax.tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, m, g)
    v = jax.tree.map(lambda v, g: SECOND * v + (1 - SECOND) * g * g, v, g)
    p = jax.tree.map(lambda p, m, v: p - RATE * (m / (1 - FIRST ** t)) /
                     (jnp.sqrt(v / (1 - SECOND ** t)) + SMALL), p, m, v)
    return p, m, v, t, loss


def counting(_):
    parts = models.counting_parts()
    p = {"embed": array(parts.embed.weight), "query": array(parts.query),
         "WK": linear(parts.WK), "WV": linear(parts.WV),
         "first": linear(parts.last[0]), "second": linear(parts.last[2])}
    ids, y = (array(x) for x in models.counting_data())
    state = p, jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), jnp.zeros(())
    compiled = jax.jit(step_of, donate_argnums=(0, 1, 2, 3))

    def step():
        nonlocal state
        *state, loss = compiled(*state, ids, y)
        return loss

    for _ in range(50):
        step()
    return step


def seconds(f, n):
    began = time.process_time()
    for _ in range(n):
        last = f()
    last.block_until_ready()
    return time.process_time() - began


serve(SimpleNamespace(name=f"JAX {jax.__version__}", factories={"counting": counting},
                      seconds=seconds, window=0.01, place=lambda x: x))
