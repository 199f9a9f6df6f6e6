"""Sides of libraries that run models of published shapes, by the second argument:
"ONNX Runtime", "CTranslate2" or "llama.cpp". models.lua has the same factories, and directories.py makes the models."""

import sys
from types import SimpleNamespace

import numpy
import torch

import directories
from side import serve
from torch_side import seconds

THREADS, LIBRARY = int(sys.argv[1]), sys.argv[2]


def drawn(words, shape):
    """Ids from 0, as the other side has them from 1."""
    return torch.randint(1, words + 1, shape) - 1


class ONNX:
    def __init__(self):
        import onnxruntime
        self.library, self.name = onnxruntime, f"ONNX Runtime {onnxruntime.__version__}"

    def minilm(self, size, path=directories.onnx):
        options = self.library.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
        session = self.library.InferenceSession(path(), options,
                                                providers=["CPUExecutionProvider"])
        given = {"input_ids": drawn(directories.WORDS, size).numpy()}
        wanted = [session.get_outputs()[0].name]
        return lambda: session.run(wanted, given)[0]

    def minilm_q8_0(self, size):
        return self.minilm(size, directories.onnx_in_bytes)


class CTranslate2:
    def __init__(self):
        import ctranslate2
        self.library, self.name = ctranslate2, f"CTranslate2 {ctranslate2.__version__}"

    def minilm(self, size, dtype="float32"):
        encoder = self.library.Encoder(directories.translated(), intra_threads=THREADS,
                                       inter_threads=1, compute_type=dtype)
        ids = self.library.StorageView.from_array(
            drawn(directories.WORDS, size).to(torch.int32).numpy())
        lengths = self.library.StorageView.from_array(numpy.full(size[0], size[1], "int32"))
        return lambda: numpy.array(encoder.forward_batch(ids, lengths).last_hidden_state)

    def minilm_q8_0(self, size):
        return self.minilm(size, "int8")


class Llama:
    def __init__(self):
        import llama_cpp
        self.library, self.name = llama_cpp, f"llama-cpp-python {llama_cpp.__version__}"

    def open(self, name, n):
        lib = self.library
        lib.llama_backend_init()
        path, options = directories.gguf(name), lib.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = max(n, 512)
        options.n_threads = options.n_threads_batch = THREADS
        model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        return lib.llama_init_from_model(model, options)

    def calls(self, name, n, pieces):
        """Reads ids in pieces of so many, behind an empty cache; the logits of the last."""
        lib, context = self.library, self.open(name, n)
        words = directories.shape(name)["vocab_size"]
        ids = drawn(words, (1, n))[0].to(torch.int32).numpy()
        memory = lib.llama_get_memory(context)

        def call():
            lib.llama_memory_clear(memory, False)
            for at in range(0, n, pieces):
                tokens = (lib.llama_token * pieces)(*ids[at:at + pieces])
                if lib.llama_decode(context, lib.llama_batch_get_one(tokens, pieces)) != 0:
                    raise RuntimeError("llama_decode failed")
            return numpy.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (words,)).copy()

        return call


for decoder in (*directories.TYPES, *directories.BLOCKS):
    def tokens(self, size, name=decoder):
        return self.calls(name, size[0], 1)

    def prompt(self, size, name=decoder):
        return self.calls(name, size[0], size[0])

    ending = decoder.removeprefix("decoder")
    for word, factory in [("tokens", tokens), ("tokens_called", tokens),
                          ("tokens_generated", tokens), ("tokens_packed", tokens),
                          ("prompt", prompt)]:
        setattr(Llama, word + ending, factory)


library = {"ONNX Runtime": ONNX, "CTranslate2": CTranslate2, "llama.cpp": Llama}[LIBRARY]()
serve(SimpleNamespace(
    name=library.name, seconds=seconds, window=0.01, place=lambda x: x,
    factories={word: getattr(library, word) for word in dir(library)
               if word.startswith(("minilm", "tokens", "prompt"))}))
