"""Texts and tokenizers for the rows about tokenizers, in build/bench: English and code of the
packages that the Python here has, one half of which the tokenizers are trained on, with 30,000
tokens each. `text(language)` gives the path of a text of the other half, `tokenizer(kind)` that of
a tokenizer.json, `large_tokenizer(kind)` that of a made one of 10 MB; `pieces` cuts a text where
the other side does."""

import glob
import json
import os
import random
import sys
import sysconfig

from directories import once
from rows import LARGE_KINDS, TEXT

WORDS = 30000
TRAINED_ON = 8 << 20
PIECE = 4096                # bytes of what is encoded at once, at least; to the end of a line
ENDINGS = {"english": ("METADATA", "*.md", "*.rst", "LICENSE*"), "code": ("*.py",)}
KINDS = ("bpe", "wordpiece", "unigram")
LARGE = 10_000_000          # bytes of a made tokenizer.json
LONGEST = 15                # letters of a made token


def files(language):
    folder = sysconfig.get_paths()["purelib"]
    found = (path for ending in ENDINGS[language]
             for path in glob.glob(os.path.join(folder, "**", ending), recursive=True))
    return sorted(path for path in found if os.path.isfile(path))


def half(language, which, most):
    """The text of every second file: as many bytes, but for a character that is cut in two."""
    data = b""
    for path in files(language)[which::2]:
        with open(path, "rb") as file:
            data += file.read()
        if len(data) > most:
            break
    return data[:most].decode("utf-8", "ignore")


def text(language):
    def write(path):
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(half(language, 0, TEXT))
    return once(f"{language}.txt", write)


def trained(kind):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    if kind == "bpe":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=WORDS, show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    elif kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer()
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=WORDS, show_progress=False,
                                            special_tokens=["[UNK]"])
    else:
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=WORDS, show_progress=False,
                                          special_tokens=["<unk>"], unk_token="<unk>")
    made.train_from_iterator([half(language, 1, TRAINED_ON) for language in ENDINGS], trainer)
    return json.loads(made.to_str())


def tokenizer(kind):
    def write(path):
        os.mkdir(path)
        with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as file:
            content = trained(kind)
            for piece in content["model"]["vocab"] if kind == "unigram" else []:
                piece[1] = round(piece[1], 6)       # the package reads longer ones inexactly
            json.dump(content, file)
    return os.path.join(once(f"tokenizer_{kind}", write), "tokenizer.json")


def bpe_tokens(draw):
    """Merges of two tokens that were drawn before, from single letters on: tokens and merges."""
    tokens = [chr(97 + i) for i in range(26)]
    known, merges, size = set(tokens), [], 0
    while size < LARGE:
        left, right = draw.choice(tokens), draw.choice(tokens)
        if left + right in known or len(left + right) > LONGEST:
            continue
        tokens.append(left + right)
        known.add(left + right)
        merges.append([left, right])
        size += len(json.dumps({left + right: len(tokens)})) + len(json.dumps([left, right])) + 2
    return {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}


def unigram_tokens(draw):
    """Words of letters that were drawn, with their scores."""
    made, size = {"<unk>": 0.0}, 0
    while size < LARGE:
        word = "\u2581" + "".join(chr(97 + draw.randrange(26))
                                  for _ in range(draw.randint(2, LONGEST)))
        if word in made:
            continue
        made[word] = -round(2 + 15 * draw.random(), 13)
        size += len(json.dumps([word, made[word]], ensure_ascii=False).encode()) + 2
    return {"type": "Unigram", "unk_id": 0, "vocab": list(made.items())}


def large_tokenizer(kind):
    made = bpe_tokens if kind == "bpe" else unigram_tokens

    def write(path):
        before = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"version": "1.0", "added_tokens": [], "pre_tokenizer": before,
                       "model": made(random.Random(1))}, file, ensure_ascii=False)
    return once(f"tokenizer_large_{kind}.json", write)


def pieces(language):
    with open(text(language), "rb") as file:
        data = file.read()
    at, cut = 0, []
    while at < len(data):
        end = data.find(b"\n", at + PIECE)
        end = len(data) if end < 0 else end + 1
        cut.append(data[at:end].decode())
        at = end
    return cut


if __name__ == "__main__":
    for language in ENDINGS:
        text(language)
    for kind in sys.argv[1:] or KINDS:
        tokenizer(kind)
    for kind in LARGE_KINDS:
        large_tokenizer(kind)
