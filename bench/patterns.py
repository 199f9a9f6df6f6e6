"""Regular expressions at random, and how the package `tokenizers` cuts texts by them, as JSON:

    python bench/patterns.py SEED COUNT >spec/golden/regex.json

A case is a pattern, a text, and the pieces that the pre-tokenizer Split gives, isolated. Patterns are
of what heed knows (src/text/regex.h), so that spec/regex_spec.lua wants none to be refused."""

import json
import random
import sys

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

CLASSES = r"""a b c 1 é 日 . - ' \. \s \S \d \w \W \n \t \x61 \u0062 [ab] [^ab] [a-c1-3] [-a] [\]b] [é-ü]
[\r\n] [^\s\p{L}\p{N}] \p{L} \p{N} \p{Lu} \p{M} \p{P} \P{L} \p{^L}""".split() + [" "]
REPEATS = ["", "", "", "", *"? * + {2} {1,2} {2,} {0,1} *? +? ?? {1,2}? *+ ++ ?+".split()]
WORDS = ["a", "b'", "1c", "ab", "s", "k", "'s"]
CHARACTERS = [*"abcABSsK123'-.!_]xéü日本", " ", "  ", "\n", "\r", "\t", "\u017f", "\u212a", "\u0301"]


def sequence(r, depth):
    parts = []
    for _ in range(r.randint(1, 3)):
        kind = r.random() if depth < 3 else 0
        if kind < 0.7:
            part = r.choice(CLASSES) + r.choice(REPEATS)
        elif kind < 0.85:
            part = r.choice(["(?:", "("]) + choice(r, depth + 1) + r.choice([")", ")?"])
        elif kind < 0.9:
            part = r.choice(["(?=", "(?!"]) + choice(r, depth + 1) + ")"
        elif kind < 0.95:
            part = "(?i:" + "|".join(r.choices(WORDS, k=r.randint(1, 3))) + ")"
        else:
            part = r.choice("^$")
        parts.append(part)
    return "".join(parts)


def choice(r, depth=0):
    return "|".join(sequence(r, depth) for _ in range(r.randint(1, 3 if depth < 2 else 1)))


def pieces(pattern, text):
    return [text[a:b] for _, (a, b) in Split(Regex(pattern), "isolated").pre_tokenize_str(text)]


def is_valid(pattern):
    try:
        return Regex(pattern) is not None
    except Exception:
        return False


def case(r):
    while True:
        pattern, text = choice(r), "".join(r.choices(CHARACTERS, k=r.randint(1, 10)))
        if len(pattern) < 60 and is_valid(pattern):
            return pattern, text, pieces(pattern, text)


def main(seed, count):
    r = random.Random(seed)
    cases = [case(r) for _ in range(count)]
    print("[" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "]")


main(*map(int, sys.argv[1:]))
