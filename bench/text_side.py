"""Sides of libraries that have tokenizers, by the second argument: "tokenizers" or "tiktoken".
texts.lua has the same factories, and vocabularies.py makes the tokenizers."""

import os
import sys
from types import SimpleNamespace

import vocabularies
from rows import LARGE_KINDS
from side import serve
from torch_side import seconds

os.environ["TOKENIZERS_PARALLELISM"] = "false"

LIBRARY = sys.argv[2]
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class Package:
    """What `tokenizers` makes of the file."""

    def __init__(self):
        import tokenizers
        self.library, self.name = tokenizers, f"tokenizers {tokenizers.__version__}"

    def open(self, kind):
        made = self.library.Tokenizer.from_file(vocabularies.tokenizer(kind))
        return (lambda text: made.encode(text, add_special_tokens=False).ids,
                lambda ids: made.decode(ids, skip_special_tokens=False))


class Tiktoken:
    """The same of byte-level BPE: the tokens' bytes by rank are all that it has of a file."""

    def __init__(self):
        import tiktoken
        self.library, self.name = tiktoken, f"tiktoken {tiktoken.__version__}"

    def open(self, kind):
        from tokenizers import Tokenizer
        made = Tokenizer.from_file(vocabularies.tokenizer(kind))
        letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in letters]
        byte_of = {chr(byte): byte for byte in letters}
        byte_of.update((chr(256 + i), byte) for i, byte in enumerate(others))
        ranks = {bytes(byte_of[c] for c in token): id for token, id in made.get_vocab().items()}
        encoding = self.library.Encoding("heed", pat_str=GPT2, mergeable_ranks=ranks,
                                         special_tokens={})
        return encoding.encode_ordinary, encoding.decode


library = {"tokenizers": Package, "tiktoken": Tiktoken}[LIBRARY]()


def encoding(kind, language):
    def factory(_):
        encode, _ = library.open(kind)
        texts = vocabularies.pieces(language)
        return lambda: [encode(text) for text in texts]
    return factory


def decoding(kind, language):
    def factory(_):
        encode, decode = library.open(kind)
        ids = [encode(text) for text in vocabularies.pieces(language)]
        return lambda: "".join(map(decode, ids))
    return factory


def opening(kind):
    def factory(_):
        path = vocabularies.large_tokenizer(kind)
        return lambda: library.library.Tokenizer.from_file(path)
    return factory


factories = {f"{word}_{kind}_{language}": make(kind, language)
             for word, make in (("encode", encoding), ("decode", decoding))
             for kind in vocabularies.KINDS for language in vocabularies.ENDINGS}
factories.update((f"open_{kind}", opening(kind)) for kind in LARGE_KINDS)
serve(SimpleNamespace(name=library.name, seconds=seconds, window=0.01, place=lambda x: x,
                      factories=factories))
