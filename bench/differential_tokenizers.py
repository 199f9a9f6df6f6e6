#!/usr/bin/env python3
"""Random texts through tokenizers, in heed and in the package `tokenizers`: ids, offsets and the
decoded text side by side.

    bench/differential_tokenizers.py [--cases N] [--seed S] [--show N] [FOLDER ...]

A FOLDER has a tokenizer.json; without one, all of spec/golden/tokenizers. Texts mix scripts,
blanks, marks, the file's own added tokens and what was broken UTF-8; N of them for each file, and
every assigned code point once, between letters. A text that differs is made as short as it can be
and still differ; the shortest ones are listed with their code points and how many texts they stand
for. Each difference has a cause, or 'unknown'.
"""

import argparse
import collections
import glob
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "../spec/golden/tokenizers")
LUA = os.environ.get("LUA", "lua5.4")

ASSIGNED = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000
            and unicodedata.category(chr(c)) not in ("Cn", "Co")]
RANGES = [(0x20, 0x7F), (0x61, 0x7B), (0x41, 0x5B), (0x30, 0x3A), (0xA0, 0x100), (0x100, 0x250),
          (0x300, 0x370), (0x370, 0x400), (0x400, 0x500), (0x590, 0x5F5), (0x600, 0x700),
          (0x900, 0x980), (0xE00, 0xE60), (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2070),
          (0x3000, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xFF00, 0xFFF0),
          (0x1F300, 0x1F6FF), (0x1D400, 0x1D440)]
WORDS = ("the and of is don't I'm we've he'll it'd Hello WORLD naïve café 12345 3.14 1,000 "
         "http://a.b/c foo_bar x=y; if(a[i]!=0){return;} \r\n \n\n \t\t <b> 你好 日本語 한국어 "
         "привет שלום مرحبا नमस्ते "
         "👩‍👩‍👧 🇩🇪 e\u0301 ﬁ Ⅷ ① ½ ß İ Σς").split(" ")
BLANKS = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\u3000", "\u2009", "\u200b", ""]


def piece(draw, added):
    kind = draw.random()
    if kind < 0.35:
        return draw.choice(WORDS)
    if kind < 0.6:
        first, end = draw.choice(RANGES)
        n = draw.randrange(1, 9)
        return "".join(chr(draw.randrange(first, end)) for _ in range(n))
    if kind < 0.75:
        return draw.choice(BLANKS)
    if kind < 0.85 and added:
        token = draw.choice(added)
        return token if draw.random() < 0.8 else token[:-1]
    if kind < 0.95:
        return draw.choice(ASSIGNED)
    return bytes(draw.randrange(256) for _ in range(4)).decode("utf-8", "replace")


def text_of(draw, added):
    n = draw.randrange(1, 14)
    return "".join(piece(draw, added) + draw.choice(("", " ")) for _ in range(n))


def rounded(text):
    """Scores of a Unigram model in six digits, which the package reads without an error of rounding:
    of longer ones it reads some one unit in the last place off, and pieces of equal score as
    another cut."""
    content = json.loads(text)
    if content["model"].get("type") != "Unigram":
        return text
    for piece in content["model"]["vocab"]:
        piece[1] = round(piece[1], 6)
    return json.dumps(content)


def file_of(folder, into):
    """The path of a tokenizer.json that both sides read, and its text: tables of Precompiled stand
    in a file of their own."""
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        text = file.read()
    if '"charsmap.txt"' in text:
        with open(os.path.join(GOLDEN, "unigram_charsmap/charsmap.txt"), encoding="utf-8") as file:
            text = text.replace('"charsmap.txt"', '"' + file.read() + '"')
    text = rounded(text)
    path = os.path.join(into, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path, text


class Package:
    def __init__(self, text):
        self.tokenizer = Tokenizer.from_str(text)
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def answers(self, texts):
        for text, one in zip(texts, self.tokenizer.encode_batch(texts, add_special_tokens=False)):
            places = [0]
            for c in text:
                places.append(places[-1] + len(c.encode()))
            offsets = [(places[a], places[b]) for a, b in one.offsets]
            decoded = self.tokenizer.decode(one.ids, skip_special_tokens=False)
            yield one.ids, offsets, decoded


class Heed:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def answers(self, texts):
        given, got = (os.path.join(self.folder, name) for name in ("in", "out"))
        with open(given, "wb") as file:
            for text in texts:
                data = text.encode()
                file.write(struct.pack("<i", len(data)) + data)
        script = os.path.join(HERE, "differential_tokenizers.lua")
        subprocess.run([LUA, script, self.path, given, got], check=True)
        with open(got, "rb") as file:
            data = file.read()
        at = 0
        for _ in texts:
            n, = struct.unpack_from("<i", data, at)
            numbers = struct.unpack_from(f"<{3 * n}i", data, at + 4)
            at += 4 + 12 * n
            size, = struct.unpack_from("<i", data, at)
            decoded = data[at + 4:at + 4 + size].decode("utf-8", "replace")
            at += 4 + size
            yield (list(numbers[:n]), list(zip(numbers[n:2 * n], numbers[2 * n:])), decoded)


def difference(mine, theirs):
    for what, a, b in zip(("ids", "offsets", "text"), mine, theirs):
        if a != b:
            return what


def shorter(texts):
    """Of each text those without one part of it, in halves, quarters and so on."""
    for text in texts:
        n = len(text)
        step = max(n // 2, 1)
        while step >= 1 and n > 1:
            for i in range(0, n, step):
                yield text[:i] + text[i + step:]
            step //= 2


def shrink(heed, package, text):
    while True:
        smaller = [t for t in dict.fromkeys(shorter([text])) if t]
        found = next((t for t, a, b in zip(smaller, heed.answers(smaller), package.answers(smaller))
                      if difference(a, b)), None)
        if found is None:
            return text
        text = found


def cause(text, what):
    """Why a text that is as short as can be differs."""
    if what == "text" and "\ufffd" in text:
        return "bytes that are no UTF-8, which heed decodes as they are"
    if any(ord(c) > 127 for c in text):
        return "characters whose properties differ between versions of Unicode"
    return "unknown"


def run(folder, options, into):
    path, text = file_of(folder, into)
    added = [token["content"] for token in json.loads(text)["added_tokens"]]
    draw = random.Random(options.seed)
    texts = [text_of(draw, added) for _ in range(options.cases)]
    texts += [f"a{c}b {c}" for c in ASSIGNED]
    heed, package = Heed(path, into), Package(text)
    found = [(t, what) for t, a, b in zip(texts, heed.answers(texts), package.answers(texts))
             if (what := difference(a, b))]
    print(f"{os.path.basename(folder)}: {len(texts)} texts, {len(found)} differ", flush=True)
    groups = collections.Counter()
    for t, what in found[:options.show]:
        groups[(shrink(heed, package, t), what)] += 1
    causes = collections.Counter()
    for (t, what), n in groups.items():
        causes[cause(t, what)] += n
    for why, n in causes.most_common():
        print(f"  {n} of the first {min(len(found), options.show)}: {why}")
    for (t, what), n in groups.most_common(12):
        print(f"    {what}: {' '.join(f'U+{ord(c):04X}' for c in t)} ({n})", flush=True)
    return len(found)


def main():
    parser = argparse.ArgumentParser(prog="bench/differential_tokenizers.py")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--cases", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=40, help="differing texts that are shortened")
    options = parser.parse_args()
    folders = options.folders or sorted(glob.glob(os.path.join(GOLDEN, "*/")))
    with tempfile.TemporaryDirectory() as into:
        return sum(run(folder.rstrip("/"), options, into) for folder in folders)


if __name__ == "__main__":
    main()
    sys.exit(0)
