"""The rows of `bench/run --cuda`, with small sizes if BENCH_QUICK=1: name, inputs (cuda_ops.lua
says how they are written), heed's expression, PyTorch's, and what a call moves or computes at the
least: a number and its unit, B (read and written) or FLOP; no unit where that means nothing."""

import os

QUICK = os.environ.get("BENCH_QUICK") == "1"

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 4e-3}


def pick(full, quick):
    return quick if QUICK else full


def moved(name, words, heed, torch, dtype, elements):
    return (f"{name}, {dtype}", f"{dtype} {words}", heed, torch, BYTES[dtype] * elements, "B")


def memory_rows(dtype):
    R, C = pick((8192, 4096), (6, 40))
    N, V = pick((1024, 50257), (5, 70))                     # rows of logits, words
    T, E, W = pick((16384, 50257, 768), (9, 30, 16))        # positions, words, width
    x, logits = f"{R}x{C}", f"{N}x{V}* {N}:{V}"
    yield moved(f"add {x}", f"{x} {x}", "a + b", "a + b", dtype, 3 * R * C)
    yield moved(f"gelu {x}", x, "a:gelu()", "F.gelu(a)", dtype, 2 * R * C)
    yield moved(f"softmax {x}", x, "a:softmax(-1)", "a.softmax(-1)", dtype, 2 * R * C)
    yield moved(f"layer_norm {x}", f"{x} {C} {C}", f"layer_norm(a, {{{C}}}, b, c)",
                f"F.layer_norm(a, ({C},), b, c)", dtype, 2 * R * C)
    yield moved(f"layer_norm {x} + backward", f"{x}* {C}* {C}* {x}",
                f"grad(layer_norm(a, {{{C}}}, b, c), {{a, b, c}}, d)",
                f"grad(F.layer_norm(a, ({C},), b, c), (a, b, c), d)", dtype, 5 * R * C)
    yield moved(f"rms_norm {x}", f"{x} {C}", f"rms_norm(a, {{{C}}}, b)",
                f"F.rms_norm(a, ({C},), b)", dtype, 2 * R * C)
    yield moved(f"cross_entropy {N}x{V} + backward", logits, "grad(cross_entropy(a, b), a)",
                "grad(F.cross_entropy(a, b), a)", dtype, 3 * N * V)
    yield moved(f"embedding {T} of {E}x{W}", f"{T}:{E} {E}x{W}", "embedding(a, b)",
                "F.embedding(a, b)", dtype, 2 * T * W)
    yield moved(f"embedding {T} of {E}x{W} + backward", f"{T}:{E} {E}x{W}* {T}x{W}",
                "grad(embedding(a, b), b, c)", "grad(F.embedding(a, b), b, c)", dtype,
                (3 * T + E) * W)


def adam_rows():
    n, R, C = pick((16, 1024, 1024), (3, 8, 9))
    for factory, which in [("adam", ""), ("adam_fused", ", PyTorch's fused")]:
        yield (f"Adam step, {n} of {R}x{C}{which}", f"float32 {factory}:{n}x{R}x{C}", "a()", "a()",
               7 * 4 * n * R * C, "B")


def matmul_rows():
    for n in pick((512, 2048, 4096), (16, 40, 64)):
        for dtype in BYTES:
            yield (f"matmul {n}x{n}, {dtype}", f"{dtype} {n}x{n} {n}x{n}", "a:matmul(b)",
                   "a.matmul(b)", 2 * n ** 3, "FLOP")


# Modes: the options of heed's call, of PyTorch's, and the factory of the last input.
MODES = {"": ("", "", ""),
         " causal": (", {causal = true}", ", is_causal=True", ""),
         " of lengths": (", {mask = e}", ", e", "lengths")}


def attention_rows(dtype):
    H = pick(16, 2)
    for D in (64, 128):
        for T in pick((512, 2048, 8192), (24, 70)):
            for mode, (heed, torch, mask) in MODES.items():
                B = max(1, pick(4096, 24) // T)
                size = f"{B}x{H}x{T}x{D}"
                flop = 4 * B * H * T * T * D // (2 if mode == " causal" else 1)
                name = f"attention {size}{mode}"
                heed, torch = f"attention(a, b, c{heed})", f"attention(a, b, c{torch})"
                last = f"{size} {mask}:{B}x{T}" if mask else size
                yield (f"{name}, {dtype}", f"{dtype} {size} {size} {size} {last}", heed, torch,
                       flop, "FLOP")
                yield (f"{name} + backward, {dtype}", f"{dtype} {size}* {size}* {size}* {last}",
                       f"grad({heed}, {{a, b, c}}, d)", f"grad({torch}, (a, b, c), d)",
                       7 * flop // 2, "FLOP")


def decode_rows(dtype):
    B, H = pick((8, 32), (2, 4))
    for D in (64, 128):
        for S in pick((4096, 16384), (70, 300)):
            for heads in (H, H // 4):
                q, k = f"{B}x{H}x1x{D}", f"{B}x{heads}x{S}x{D}"
                shared = "" if heads == H else f" on {heads} heads"
                yield moved(f"attention of a query {q} over {S}{shared}", f"{q} {k} {k}",
                            "attention(a, b, c)", "attention(a, b, c, enable_gqa=True)", dtype,
                            2 * B * heads * S * D)


def host_rows():
    yield "host: add 4x4", "float32 host 4x4 4x4", "a + b", "a + b"
    yield "host: add 4x4, gradient recorded", "float32 host 4x4* 4x4", "a + b", "a + b"
    yield "host: softmax 4x4", "float32 host 4x4", "a:softmax(-1)", "a.softmax(-1)"


def training_rows():
    size = pick("4x16x128x256", "1x2x6x16")
    for factory in ["training", "captured"]:
        yield f"{factory} step {size}", f"float32 {factory}:{size}", "a()", "a()"


def gpt2_rows(dtype):
    for factory, how in [("gpt2", "eager"), ("gpt2_compiled", "captured or compiled")]:
        size = pick("8x1024", "1x8x1x50")
        yield f"GPT-2 step {size}, {how}, {dtype}", f"{dtype} {factory}:{size}", "a()", "a()"


def copy_row():
    R, C = pick((8192, 4096), (6, 40))
    yield moved(f"copy {R}x{C}", f"{R}x{C}", "a:clone()", "a.clone()", "float32", 2 * R * C)


ROWS = [*copy_row(), *attention_rows("bfloat16"), *decode_rows("bfloat16"), *memory_rows("float32"),
        *memory_rows("bfloat16"), *adam_rows(), *matmul_rows(), *host_rows(), *training_rows(),
        *gpt2_rows("bfloat16"), *gpt2_rows("float32"), *attention_rows("float32")]
