"""Random models in their directories, in build/bench: MiniLM's shape, and Llama-shaped decoders of
135M in float32 and bfloat16, and of 1.2 billion in bfloat16. `make(name)` gives the directory, and
makes it where it is not there; `onnx`, `translated` and `gguf` give the same weights in the files
of other libraries, a decoder's also in blocks: both programs read that file."""

import json
import os
import shutil

import numpy
import torch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/bench")
WORDS = 30522                           # of MiniLM
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
          "intermediate_size": 1536, "vocab_size": WORDS,
          "position_embedding_type": "absolute"}
DECODER = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
           "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152,
           "max_position_embeddings": 2048, "tie_word_embeddings": True}
LARGE = {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256,
         "max_position_embeddings": 2048, "tie_word_embeddings": True}
TYPES = {"decoder": "float32", "decoder_bfloat16": "bfloat16",
         "decoder_large_bfloat16": "bfloat16"}
BLOCKS = {"decoder_q8_0": "Q8_0", "decoder_q4_0": "Q4_0", "decoder_large_q8_0": "Q8_0",
          "decoder_large_q4_0": "Q4_0"}


def shape(decoder):
    return LARGE if "large" in decoder else DECODER


def once(name, write):
    """What write makes at a path, under a name that it has when it is whole."""
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        os.makedirs(FOLDER, exist_ok=True)
        part = f"{path}.{os.getpid()}"
        write(part)
        os.rename(part, path)
    return path


def write_words(path):
    """A tokenizer of as many words as MiniLM has, which are numbers but for the special ones."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [str(i) for i in range(WORDS - len(words))]
    special = [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i, word in enumerate(words[:5])]
    kinds = {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
             "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}
    token = {kind: {"SpecialToken": {"id": kind, "type_id": 0}} for kind in kinds}
    single = [token["[CLS]"], {"Sequence": {"id": "A", "type_id": 0}}, token["[SEP]"]]
    with open(path, "w") as file:
        json.dump({
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "lowercase": True,
                           "handle_chinese_chars": True, "strip_accents": None},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": single,
                               "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}},
                                        {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                               "special_tokens": kinds},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]",
                      "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                      "vocab": {word: i for i, word in enumerate(words)}}}, file)


def write_pooling(path):
    """The files of sentence-transformers: the mean of all tokens, of length 1."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    with open(os.path.join(path, "modules.json"), "w") as file:
        json.dump([{"idx": i, "name": str(i), "path": folder,
                    "type": f"sentence_transformers.models.{kind}"}
                   for i, (folder, kind) in enumerate(kinds)], file)
    os.mkdir(os.path.join(path, "1_Pooling"))
    with open(os.path.join(path, "1_Pooling/config.json"), "w") as file:
        json.dump({"word_embedding_dimension": MINILM["hidden_size"],
                   "pooling_mode_mean_tokens": True}, file)


def new_model(name):
    import transformers
    torch.manual_seed(11)
    if name == "minilm":
        return transformers.BertModel(transformers.BertConfig(**MINILM)).eval()
    config = transformers.LlamaConfig(**shape(name))
    return transformers.LlamaForCausalLM(config).to(getattr(torch, TYPES[name])).eval()


def make(name):
    def write(path):
        new_model(name).save_pretrained(path)
        if name == "minilm":
            write_words(os.path.join(path, "tokenizer.json"))
            write_pooling(path)
    return once(name, write)


def load(name):
    """The model in PyTorch."""
    import transformers
    kind = "AutoModel" if name == "minilm" else "AutoModelForCausalLM"
    dtype = getattr(torch, TYPES.get(name, "float32"))
    return getattr(transformers, kind).from_pretrained(make(name), dtype=dtype).eval()


def onnx():
    """MiniLM's shape as PyTorch exports it."""
    def write(path):
        model = load("minilm")
        ids = torch.ones(2, 8, dtype=torch.int64)
        axes = {0: torch.export.Dim("B", min=1), 1: torch.export.Dim("T", min=2, max=512)}
        os.makedirs(path)
        torch.onnx.export(model, (ids,), os.path.join(path, "model.onnx"), dynamo=True,
                          dynamic_shapes={"input_ids": axes}, input_names=["input_ids"],
                          verbose=False)
    return os.path.join(once("minilm_onnx", write), "model.onnx")


def onnx_in_bytes():
    """The same, of weights in 8 bits; activations are rounded when it runs."""
    def write(path):
        from onnxruntime.quantization import QuantType, quantize_dynamic
        quantize_dynamic(onnx(), path, weight_type=QuantType.QInt8)
    return once("minilm_q8_0.onnx", write)


def translated():
    """MiniLM's shape for CTranslate2."""
    def write(path):
        from ctranslate2.converters import TransformersConverter
        shutil.rmtree(path, ignore_errors=True)
        TransformersConverter(make("minilm")).convert(path)
    return once("minilm_translated", write)


GGUF = [("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"),
        ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"),
        ("model.layers.", "blk.")]


def interleaved(weight, heads):
    """Rows of each head as GGUF has them: pairs that rope turns side by side."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def in_blocks(name):
    """A decoder for both programs, as llama.cpp quantizes it, all matrices alike."""
    import llama_cpp

    def write(path):
        source = gguf("decoder_large_bfloat16" if shape(name) is LARGE else "decoder")
        options = llama_cpp.llama_model_quantize_default_params()
        options.ftype = getattr(llama_cpp, "LLAMA_FTYPE_MOSTLY_" + BLOCKS[name])
        options.pure = True
        if llama_cpp.llama_model_quantize(source.encode(), path.encode(), options) != 0:
            raise RuntimeError("llama_model_quantize failed")
    return once(name + ".gguf", write)


def gguf(name):
    """A decoder for llama.cpp."""
    if name in BLOCKS:
        return in_blocks(name)
    import gguf as format

    def write(path):
        model = load(name)
        config, writer = model.config, format.GGUFWriter(path, "llama")
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
        writer.add_rope_freq_base(10000.0)
        writer.add_vocab_size(config.vocab_size)
        writer.add_tokenizer_model("no_vocab")
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        for word, tensor in model.state_dict().items():
            if word == "lm_head.weight":
                continue
            for part, n in heads.items():
                if part in word:
                    tensor = interleaved(tensor, n)
            for before, after in GGUF:
                word = word.replace(before, after)
            if tensor.dim() == 1 or tensor.dtype == torch.float32:
                writer.add_tensor(word, tensor.float().contiguous().numpy())
            else:
                bits = tensor.contiguous().view(torch.int16).numpy().view(numpy.uint8)
                writer.add_tensor(word, bits, raw_dtype=format.GGMLQuantizationType.BF16)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return once(name + ".gguf", write)


if __name__ == "__main__":
    for each in ("minilm", *TYPES):
        make(each)
    for each in BLOCKS:
        gguf(each)
