"""What part of a plain read's speed one row, or a few, reach with matrices that no cache holds.

    python3 bench/reading.py [PASSES [ROWS]]       builds nothing: `make` comes first

A pass multiplies the rows by matrices of 8192 x 2048, 130 MB at least; a plain read of as many
bytes (bench/peak.c) comes before and after it. Of both the fastest of three counts. A number of
the table is the median of the plain reads' time by the pass's, in percent. LUA names the
interpreter.
"""

import os
import statistics
import sys

from machine import Peak, described
from sides import HERE, Side

TYPES = ["float32", "bfloat16", "float16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k",
         "q6_k"]
PASSES = 15
FASTEST_OF = 3                  # peak.c's WINDOWS


def share(heed, plain, threads, type, how, rows, passes):
    """In percent."""
    size, parts = int(heed.ask(threads, type, how, rows)), []
    for _ in range(passes):
        before = float(plain.ask(f"read {size}"))
        seconds = min(float(heed.ask("pass")) for _ in range(FASTEST_OF))
        after = float(plain.ask(f"read {size}"))
        parts.append(size * (1 / before + 1 / after) / 2 / seconds)
    return 100 * statistics.median(parts)


def main():
    given = [int(arg) for arg in sys.argv[1:]]
    passes, rows = given + [PASSES, 1][len(given):]
    heed = Side([os.environ.get("LUA") or "lua5.4", os.path.join(HERE, "reading.lua")]).ready()
    level = heed.name.partition("(")[2].rstrip(")")
    peak = Peak(level, [1, 2])
    print(f"{heed.name}; {described()}\n")
    print("| threads | kept copies |" + "".join(f" {type} |" for type in TYPES))
    print("| ------- | ----------- |" + " ---: |" * len(TYPES))
    for threads in 1, 2:
        for how in "plain", "packed":
            cells = [f"{share(heed, peak.running[threads], threads, type, how, rows, passes):.0f} %"
                     if how == "plain" or "float" not in type else "" for type in TYPES]
            kept = "yes" if how == "packed" else "no"
            print(f"| {threads} | {kept} | " + " | ".join(cells) + " |", flush=True)
    peak.end()
    heed.end()


if __name__ == "__main__":
    main()
