"""The rows of `bench/run`, the most important first, for runs that are ended early."""

from typing import NamedTuple


class Row(NamedTuple):
    name: str
    inputs: str             # side.lua says how they are written
    heed: str               # an expression, and the other side's
    other: str
    amount: float = 0       # the least work of a call, in the unit:
    unit: str = ""          # FLOP; bytes of a plain "read" or "copy", or of "text"; on a GPU, "B"
                            # moved; "tokens"
    check: tuple = ()       # compared instead, if a row's own numbers are random
    rival: str = "PyTorch"  # or another of sides.py, or "heed" for two ways of its own
    tolerance: float = 1e-4     # of a difference, by the largest number of the other's result


def small_rows():
    yield Row("add 4x4", "4x4 4x4", "a + b", "a + b")
    yield Row("add 4x4, recorded", "4x4* 4x4", "a + b", "a + b")
    yield Row("add 4x4 + backward", "4x4* 4x4* 4x4", "grad(a + b, {a, b}, c)",
              "grad(a + b, (a, b), c)")
    yield Row("mul 4x4 + backward", "4x4* 4x4* 4x4", "grad(a * b, {a, b}, c)",
              "grad(a * b, (a, b), c)")
    yield Row("matmul 4x4", "4x4 4x4", "a:matmul(b)", "a.matmul(b)")
    yield Row("matmul 4x4 + backward", "4x4* 4x4* 4x4", "grad(a:matmul(b), {a, b}, c)",
              "grad(a.matmul(b), (a, b), c)")
    yield Row("(a b + c) a, of 4x4, + backward", "4x4* 4x4* 4x4* 4x4",
              "grad((a:matmul(b) + c) * a, {a, b, c}, d)",
              "grad((a.matmul(b) + c) * a, (a, b, c), d)")
    yield Row("softmax 4x4", "4x4", "a:softmax(-1)", "a.softmax(-1)")


def step_rows():
    yield Row("counting step", "counting", "a()", "a()")
    yield Row("counting step, PyTorch's fused Adam", "counting_fused", "a()", "a()")
    yield Row("counting step, JAX's jit", "counting", "a()", "a()", rival="JAX")
    yield Row("counting step, captured", "counting_captured", "a()", "a()")
    yield Row("char-GPT step", "training:2x16x64x64", "a()", "a()")
    yield Row("char-GPT step, PyTorch's fused Adam", "training_fused:2x16x64x64", "a()", "a()")
    yield Row("char-GPT step, in a profile; heed without",
              "training:2x16x64x64 training_profiled:2x16x64x64", "b()", "a()", rival="heed")
    yield Row("decoding step, 4 layers of 64", "decoding:4x64x64", "a()", "a()")
    yield Row("decoding step, captured", "decoding_captured:4x64x64", "a()", "a()")
    yield Row("decoding step, captured; heed op by op",
              "decoding:4x64x64 decoding_captured:4x64x64", "b()", "a()", rival="heed")


def both(name, inputs, heed, other, flop, last, check=()):
    """Attention, and with its gradients; the last word has the sizes of its results."""
    q, k, v, *more = inputs.split()
    yield Row(name, inputs, heed, other, flop, "FLOP", check)
    g = "abcde"[3 + len(more)]
    yield Row(name + " + backward", " ".join([q + "*", k + "*", v + "*", *more, last]),
              f"grad({heed}, {{a, b, c}}, {g})", f"grad({other}, (a, b, c), {g})",
              3.5 * flop, "FLOP",
              tuple(f"grad({one}, {three}, {g})" for one, three in
                    zip(check, ("{a, b, c}", "(a, b, c)"))))


def attention(size, causal=False):
    B, H, L, D = (int(n) for n in size.split("x"))
    flop = 4 * B * H * L * L * D
    if causal:
        return both(f"attention {size} causal", f"{size} {size} {size}",
                    "attention(a, b, c, {causal = true})", "attention(a, b, c, is_causal=True)",
                    flop * (L + 1) / (2 * L), size)
    return both(f"attention {size}", f"{size} {size} {size}", "attention(a, b, c)",
                "attention(a, b, c)", flop, size)


def attention_rows():
    for size in ["100x1x10x5", "32x4x32x32", "16x8x32x64", "16x4x64x32", "8x8x64x64",
                 "8x8x128x32", "8x8x128x64"]:
        yield from attention(size)
    for size in ["8x8x128x64", "2x12x256x64", "2x12x512x64", "1x12x1024x64"]:
        yield from attention(size, causal=True)
    for size in ["2x12x256x64", "2x12x512x64", "1x12x1024x64", "1x12x2048x64", "1x1x2048x64"]:
        yield from attention(size)


def long_attention_rows():
    for size in ["1x4x4096x64", "1x8x1024x128"]:
        yield from attention(size)
    yield from attention("1x4x4096x64", causal=True)


def masked_attention_rows():
    """PyTorch's mask, made for each call if a model would make it for each call."""
    size = "8x8x128x64"
    yield from both(f"attention {size}, lengths", f"{size} {size} {size} 8:128",
                    "attention(a, b, c, {lengths = d})",
                    "attention(a, b, c, (torch.arange(128) <= d[:, None])[:, None, None])",
                    0, size)
    size, flop = "2x12x256x64", 4 * 2 * 12 * 256 * 256 * 64
    yield from both(f"attention {size}, bias", f"{size} {size} {size} 1x12x256x256",
                    "attention(a, b, c, {bias = d})", "attention(a, b, c, d)", flop, size)
    yield from both(f"attention {size}, dropout", f"{size} {size} {size}",
                    "attention(a, b, c, {dropout = 0.1})", "attention(a, b, c, dropout_p=0.1)",
                    flop, size, ("attention(a, b, c)", "attention(a, b, c)"))
    size = "1x12x2048x64"
    yield from both(f"attention {size}, window of 256", f"{size} {size} {size} window:2048x256",
                    "attention(a, b, c, {mask = d})", "attention(a, b, c, d)",
                    4 * 12 * 64 * (256 * 2048 - 255 * 128), size)
    size, few = "1x12x512x64", "1x3x512x64"
    yield from both(f"attention {size} causal, 3 heads of keys", f"{size} {few} {few}",
                    "attention(a, b, c, {causal = true})",
                    "attention(a, b, c, is_causal=True, enable_gqa=True)",
                    2 * 12 * 512 * 513 * 64, size)


def token_attention_rows():
    """One token behind others, which reads all keys and values."""
    for keys, heads in [(512, 12), (4096, 12), (16384, 12), (4096, 3)]:
        many, more = f"1x{heads}x{keys}x64", "" if heads == 12 else ", enable_gqa=True"
        yield Row(f"attention 1x12x1x64, {keys} keys, {heads} heads", f"1x12x1x64 {many} {many}",
                  "attention(a, b, c, {causal = true})", f"attention(a, b, c{more})",
                  2 * 4 * heads * keys * 64, "read")


def product(M, K, N):
    work = (4 * K * max(M, N), "read") if min(M, N) == 1 else (2 * M * K * N, "FLOP")
    return Row(f"matmul {M}x{K} by {K}x{N}", f"{M}x{K} {K}x{N}", "a:matmul(b)", "a.matmul(b)",
               *work)


def transposed(M, K, N):
    return Row(f"linear {M}x{K} by ({N}x{K})T", f"{M}x{K} {N}x{K}", "linear(a, b)",
               "F.linear(a, b)", 2 * M * K * N, "FLOP")


def product_rows():
    for n in [8, 16, 32, 64, 128, 256, 512, 1024]:
        yield product(n, n, n)
    for sizes in [(512, 768, 3072), (512, 3072, 768), (1000, 5, 50), (100, 50, 200)]:
        yield product(*sizes)
    for sizes in [(100, 200, 1), (512, 768, 1), (512, 768, 4), (512, 768, 8)]:    # few columns
        yield product(*sizes)
    for sizes in [(1, 768, 768), (2, 768, 3072), (4, 768, 3072), (8, 768, 3072)]:     # few rows
        yield product(*sizes)
    for sizes in [(64, 64, 64), (1000, 5, 50), (4, 768, 3072), (512, 768, 4), (256, 768, 768),
                  (512, 768, 3072)]:
        yield transposed(*sizes)


def vector_rows():
    """A matrix times a vector, which reads the matrix."""
    for dtype, size in [("float32", 4), ("bfloat16", 2), ("float16", 2)]:
        before = "" if dtype == "float32" else dtype + " "
        yield Row(f"linear 1x2048 by (4096x2048)T, {dtype}", f"{before}1x2048 4096x2048",
                  "linear(a, b)", "F.linear(a, b)", size * 2048 * 4096, "read")
        yield Row(f"matmul 1x2048 by 2048x4096, {dtype}", f"{before}1x2048 2048x4096",
                  "a:matmul(b)", "a.matmul(b)", size * 2048 * 4096, "read")
    yield Row("linear 1x768 by (3072x768)T, bfloat16", "bfloat16 1x768 3072x768",
              "linear(a, b)", "F.linear(a, b)", 2 * 768 * 3072, "read")
    yield Row("linear 64x768 by (3072x768)T, bfloat16", "bfloat16 64x768 3072x768",
              "linear(a, b)", "F.linear(a, b)", 2 * 64 * 768 * 3072, "FLOP")


def moved(name, inputs, heed, other, elements):
    return Row(name, inputs, heed, other, 4 * elements, "copy")


def map_rows():
    R, C = 512, 768
    n, x, inputs = R * C, f"{R}x{C}", f"{R}x{C} {C} {C}"
    norm, torch_norm = f"layer_norm(a, {{{C}}}, b, c)", f"F.layer_norm(a, ({C},), b, c)"
    rms, torch_rms = f"rms_norm(a, {{{C}}}, b)", f"F.rms_norm(a, ({C},), b)"
    yield moved(f"softmax {x}", x, "a:softmax(-1)", "a.softmax(-1)", 2 * n)
    yield moved("softmax 1000x10", "1000x10", "a:softmax(-1)", "a.softmax(-1)", 2 * 1000 * 10)
    yield moved(f"softmax {x} + backward", f"{x}* {x}", "grad(a:softmax(-1), {a}, b)",
                "grad(a.softmax(-1), (a,), b)", 5 * n)
    yield moved(f"log_softmax {x}", x, "a:log_softmax(-1)", "a.log_softmax(-1)", 2 * n)
    yield moved(f"layer_norm {x}", inputs, norm, torch_norm, 2 * n)
    yield moved(f"layer_norm {x} + backward", f"{x}* {C}* {C}* {x}",
                f"grad({norm}, {{a, b, c}}, d)", f"grad({torch_norm}, (a, b, c), d)", 5 * n)
    yield moved(f"rms_norm {x}", f"{x} {C}", rms, torch_rms, 2 * n)
    yield moved(f"rms_norm {x} + backward", f"{x}* {C}* {x}", f"grad({rms}, {{a, b}}, c)",
                f"grad({torch_rms}, (a, b), c)", 5 * n)
    n, x = 512 * 3072, "512x3072"
    yield moved(f"gelu {x}", x, "a:gelu()", "F.gelu(a)", 2 * n)
    yield moved(f"gelu {x} + backward", f"{x}* {x}", "grad(a:gelu(), {a}, b)",
                "grad(F.gelu(a), (a,), b)", 5 * n)
    yield moved(f"tanh {x}", x, "a:tanh()", "a.tanh()", 2 * n)
    yield moved(f"add {x}", f"{x} {x}", "a + b", "a + b", 3 * n)
    yield moved(f"add {x}, bias", f"{x} 3072", "a + b", "a + b", 2 * n)
    yield Row("sum 1024x1024", "1024x1024", "a:sum()", "a.sum()", 4 * 1024 * 1024, "read")
    yield Row("sum 1024x1024 over rows", "1024x1024", "a:sum(1)", "a.sum(0)", 4 * 1024 * 1024,
              "read")


def embedding_rows():
    for count, words, width in [(1000, 10, 5), (1024, 50257, 768)]:
        name, inputs = f"embedding {count} of {words}x{width}", f"{count}:{words} {words}x{width}"
        yield Row(name, inputs, "embedding(a, b)", "F.embedding(a, b)")
        yield Row(name + " + backward", f"{inputs}* {count}x{width}",
                  "grad(embedding(a, b), {b}, c)", "grad(F.embedding(a, b), (b,), c)")


def loss_rows():
    yield moved("cross_entropy 256x50257 + backward", "256x50257* 256:50257",
                "grad(cross_entropy(a, b), a)", "grad(F.cross_entropy(a, b), a)",
                3 * 256 * 50257)
    yield moved("cross_entropy 1024x65 + backward", "1024x65* 1024:65",
                "grad(cross_entropy(a, b), a)", "grad(F.cross_entropy(a, b), a)", 3 * 1024 * 65)


def optimiser_rows():
    yield Row("Adam step, 4 of 768x768", "adam:4x768x768", "a()", "a()")
    yield Row("Adam step, 4 of 768x768, PyTorch's fused", "adam_fused:4x768x768", "a()", "a()")
    yield Row("clip_grad_norm, 148 of 64x64", "clip:148x64x64", "a()", "a()")
    yield Row("clip_grad_norm, 12 of 768x768", "clip:12x768x768", "a()", "a()")


WIDTH, LAYERS, VOCABULARY = 768, 12, 50257              # GPT-2's


def block_flop(T, backward):
    """Of products with weights, and of causal attention."""
    products, scores = 2 * 12 * WIDTH * WIDTH * T, 2 * WIDTH * T * (T + 1)
    return 3 * products + 3.5 * scores if backward else products + scores


def gpt2_row(name, factory, T, backward):
    flop = block_flop(T, backward)
    if "block" not in factory:
        flop = LAYERS * flop + 2 * T * WIDTH * VOCABULARY * (3 if backward else 1)
    return Row(f"{name}, {T} ids{' + backward' if backward else ''}", f"{factory}:{T}", "a()",
               "a()", flop, "FLOP")


def block_rows():
    for T in [64, 256, 1024]:
        yield gpt2_row("GPT-2 block", "gpt2_block", T, False)
        yield gpt2_row("GPT-2 block", "gpt2_block_backward", T, True)
    yield Row("making GPT-2, 124M parameters", "gpt2_build", "a()", "a()")


DECODERS = {"float32": ("", 5e-3), "bfloat16": ("_bfloat16", 5e-2), "q8_0": ("_q8_0", 5e-2),
            "q4_0": ("_q4_0", 5e-2)}                    # endings of factories, and tolerances
LARGE = {"bfloat16": ("_large_bfloat16", 5e-2), "q8_0": ("_large_q8_0", 0.1),
         "q4_0": ("_large_q4_0", 0.1)}
READINGS = ("tokens", "tokens_called", "tokens_generated", "tokens_packed", "prompt")
PUBLISHED = ["minilm", "minilm_q8_0", *(word + end for word in READINGS
                                        for end, _ in (*DECODERS.values(), *LARGE.values()))]


def published_rows():
    """Shapes of published models, whose weights lie in a directory."""
    for B in [1, 32]:
        for rival in ["PyTorch", "ONNX Runtime", "CTranslate2"]:
            yield Row(f"MiniLM, {B}x32 ids, {rival}", f"minilm:{B}x32", "a()", "a()", rival=rival)
        for rival in ["ONNX Runtime", "CTranslate2"]:
            yield Row(f"MiniLM in 8 bits, {B}x32 ids, {rival}", f"minilm_q8_0:{B}x32", "a()",
                      "a()", rival=rival, tolerance=5e-2)
    for dtype, (end, tolerance) in DECODERS.items():
        for what, inputs, n in [("64 ids, step captured", f"tokens{end}:64", 64),
                                ("64 ids, step by step", f"tokens_called{end}:64", 64),
                                ("64 ids, generated", f"tokens_generated{end}:64", 64),
                                ("prompt of 512", f"prompt{end}:512", 512)]:
            yield Row(f"decoder of 135M, {what}, {dtype}", inputs, "a()", "a()", n, "tokens",
                      rival="llama.cpp", tolerance=tolerance)
        if dtype in ("q8_0", "q4_0"):
            yield Row(f"decoder of 135M, 64 ids, generated, packed, {dtype}",
                      f"tokens_packed{end}:64", "a()", "a()", 64, "tokens", rival="llama.cpp",
                      tolerance=tolerance)
    for dtype, (end, tolerance) in LARGE.items():
        for what, inputs, n in [("32 ids, generated", f"tokens_generated{end}:32", 32),
                                ("prompt of 128", f"prompt{end}:128", 128)]:
            yield Row(f"decoder of 1.2B, {what}, {dtype}", inputs, "a()", "a()", n, "tokens",
                      rival="llama.cpp", tolerance=tolerance)


TEXT = 900000               # bytes of a text that is cut into tokens
LARGE_KINDS = ("bpe", "unigram")        # of the made files of 10 MB that are opened
TOKENIZERS = {"bpe": ("byte-level BPE", ("tiktoken", "tokenizers")),
              "wordpiece": ("WordPiece", ("tokenizers",)), "unigram": ("Unigram", ("tokenizers",))}


def text_rows():
    """Tokenizers of 30,000 tokens on texts in pieces of 4 KB. Ids of heed are from 1."""
    for language in ("english", "code"):
        for kind, (name, rivals) in TOKENIZERS.items():
            for rival in rivals:
                yield Row(f"tokens of {language}, {name}, {rival}", f"encode_{kind}_{language}:1",
                          "a()", "a()", TEXT, "text", rival=rival, tolerance=0,
                          check=("a()", "[[i + 1 for i in ids] for ids in a()]"))
        for rival in TOKENIZERS["bpe"][1]:
            yield Row(f"text of tokens, {language}, byte-level BPE, {rival}",
                      f"decode_bpe_{language}:1", "a()", "a()", TEXT, "text", rival=rival,
                      tolerance=0, check=("tensor{#a()}", "[len(a().encode())]"))
    for kind in LARGE_KINDS:
        yield Row(f"opening a tokenizer.json of 10 MB, {TOKENIZERS[kind][0]}", f"open_{kind}:1",
                  "a()", "a()", rival="tokenizers", tolerance=0,
                  check=("tensor{#a()}", "[a().get_vocab_size()]"))


def model_rows():
    for T in [64, 256, 1024]:
        yield gpt2_row("GPT-2", "gpt2", T, False)
        yield gpt2_row("GPT-2", "gpt2_backward", T, True)
    yield Row("GPT-2, training step, 256 ids", "gpt2_step:256", "a()", "a()")


ROWS = [*small_rows(), *step_rows(), *attention_rows(), *product_rows(), *map_rows(),
        *embedding_rows(), *loss_rows(), *vector_rows(), *block_rows(), *token_attention_rows(),
        *masked_attention_rows(), *optimiser_rows(), *long_attention_rows(), *model_rows(),
        *published_rows(), *text_rows()]

# The rows of `make bench-quick`.
QUICK = [
    "add 4x4", "add 4x4 + backward", "matmul 4x4 + backward", "counting step",
    "counting step, JAX's jit", "counting step, captured", "char-GPT step",
    "attention 100x1x10x5 + backward", "attention 32x4x32x32 + backward", "attention 8x8x128x64",
    "attention 1x12x1024x64 causal", "attention 1x12x1024x64 causal + backward",
    "attention 1x12x1024x64", "attention 1x1x2048x64 + backward", "matmul 64x64 by 64x64",
    "matmul 512x768 by 768x3072", "matmul 512x768 by 768x4", "softmax 512x768",
    "layer_norm 512x768", "gelu 512x3072", "embedding 1000 of 10x5 + backward",
    "cross_entropy 256x50257 + backward", "linear 1x2048 by (4096x2048)T, float32",
    "linear 1x2048 by (4096x2048)T, bfloat16", "GPT-2 block, 64 ids + backward",
    "GPT-2 block, 256 ids + backward",
]

# The rows of the README, and their names there.
FEW = {
    "add 4x4": "add two tensors of 4x4",
    "(a b + c) a, of 4x4, + backward": "`(a:matmul(b) + c) * a` of 4x4, and its gradients",
    "counting step": "training step of a small attention model",
    "char-GPT step": "training step of a character GPT, 2 layers of 64",
    "attention 100x1x10x5 + backward": "attention 100x1x10x5, forward and backward",
    "attention 1x12x1024x64 causal + backward": "causal attention 1x12x1024x64, and backward",
    "matmul 512x768 by 768x3072": "product of 512x768 and 768x3072",
    "layer_norm 512x768": "layer norm of 512x768",
    "cross_entropy 256x50257 + backward": "cross entropy of 256x50257, and backward",
    "GPT-2 block, 256 ids + backward": "a block of GPT-2, 256 ids, and backward",
}

assert {*QUICK, *FEW} <= {row.name for row in ROWS}


def memory_row(L):
    size = f"1x12x{L}x64*"
    return Row(f"attention 1x12x{L}x64 causal + backward", f"{size} {size} {size}",
               "attention(a, b, c, {causal = true}):sum():backward()",
               "attention(a, b, c, is_causal=True).sum().backward()")


# Rows that run in a fresh process each, whose peak memory is measured.
MEMORY = [memory_row(L) for L in (4096, 16384, 65536)]
