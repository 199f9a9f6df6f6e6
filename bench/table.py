"""How times, ratios, counts and tables are written."""

import sys


def shown(seconds):
    for unit, scale in [("us", 1e-6), ("ms", 1e-3), ("s", 1)]:
        if max(seconds) < 1000 * scale or unit == "s":
            return " / ".join(f"{s / scale:.3g}" for s in seconds) + " " + unit


def shown_count(number):
    for unit, scale in [("", 1), ("k", 1e3), ("M", 1e6), ("G", 1e9)]:
        if number < 1000 * scale or unit == "G":
            return f"{number / scale:.3g}{unit}"


def shown_ratios(ratios):
    return " / ".join(f"{ratio:.2f}" if ratio > 0.1 else f"{ratio:.2g}" for ratio in ratios)


class Report:
    """What is printed, and kept for RESULTS.md."""

    def __init__(self):
        self.lines = []

    def say(self, line, silent=False):
        self.lines.append(line)
        if not silent:
            print(line, flush=True)

    def write_into(self, path, place):
        """Between the lines of a file that name the place."""
        with open(path) as file:
            before, begin, rest = file.read().partition(f"<!-- {place} -->\n")
        _, end, after = rest.partition(f"<!-- end of {place} -->\n")
        if not end:
            sys.exit(f"bench: {path} has no place for {place}")
        with open(path, "w") as file:
            file.write(before + begin + "\n" + "\n".join(self.lines) + "\n\n" + end + after)


class Table:
    """Lines of Markdown, padded so that they read well as they are."""

    def __init__(self, widths, say):
        self.widths, self.say = widths, say

    def line(self, cells):
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(cells, self.widths))]
        self.say(f"| {' | '.join(cells)} |")

    def head(self, cells):
        self.line(cells)
        self.line(["-" * self.widths[0]] + ["-" * (width - 1) + ":" for width in self.widths[1:]])
