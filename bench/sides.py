"""The programs that are compared, one process each, and how their calls are timed in turn."""

import contextlib
import os
import select
import signal
import statistics
import subprocess
import tempfile
import time

import cuda_rows
from counters import Counters
from rows import PUBLISHED

PAUSE = 0.005           # seconds in which the other side's threads fall asleep
PATIENCE = 1200         # seconds in which a side answers, or is ended
FEWEST = 7              # samples of a row, unless they would take too long
AGREE = 1.1             # the most by which two ratios of a row that is believed differ
SEEN_AGAIN = 1.02       # the most by which a side's fastest three samples differ, if it is stable
HERE = os.path.dirname(os.path.abspath(__file__))


class Absent(RuntimeError):
    """A side that does not start."""


class Side:
    def __init__(self, command, **variables):
        self.command, self.environment = command, {**os.environ, **variables}
        self.script = os.path.basename(command[1])
        self.start()

    def start(self):
        try:
            self.process = subprocess.Popen(self.command, text=True, env=self.environment,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            start_new_session=True)     # no key ends it alone
        except OSError as error:
            raise Absent(str(error)) from None
        self.counters = Counters(self.process.pid)
        self.name = None

    def ready(self):
        """Waits for its name and version."""
        if self.name is None:
            self.name = self.line()
        if not self.name:
            self.end()
            raise Absent(f"{self.script} does not start")
        return self

    def line(self):
        came, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        return self.process.stdout.readline().rstrip("\n") if came else ""

    def count(self, calls):
        """Its counters over so many calls, for each of them."""
        before = self.counters.read()
        self.ask("calls", calls)
        return [(now - then) / calls for now, then in zip(self.counters.read(), before)]

    def end(self):
        """Ends it, unless it has been; the most memory that it had, in bytes."""
        if self.process.returncode is not None:
            return 0
        self.counters.close()
        os.kill(self.process.pid, signal.SIGKILL)       # Popen.kill would take the status
        _, _, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        for file in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                file.close()
        return usage.ru_maxrss * 1024

    def ask(self, *words):
        self.ready()
        text = ""
        with contextlib.suppress(BrokenPipeError):      # it has ended
            print(*words, sep="\t", file=self.process.stdin, flush=True)
            text = self.line()
        if not text or text.startswith("error: "):
            self.end()          # one in which something failed may be unable to use its GPU again
            self.start()
            raise RuntimeError(f"{self.script}: {text[7:] or 'no answer'}")
        return text


class Sides:
    """Heed, and its rivals as rows ask for them: by name and number of threads, since a process
    that worked with several is slower with one."""

    def __init__(self, options):
        lua, python = os.environ.get("LUA") or "lua5.4", os.environ.get("PYTHON")
        python = python or os.path.join(HERE, "../build/venv/bin/python")
        heed = "cuda_ops.lua" if options.cuda else "heed_side.lua"
        torch = "cuda_ops.py" if options.cuda else "torch_side.py"
        self.programs = {"first": (lua, heed), "heed": (lua, heed), "PyTorch": (python, torch),
                         "JAX": (python, "jax_side.py")}
        for name in ("ONNX Runtime", "CTranslate2", "llama.cpp"):
            self.programs[name] = (python, "published_side.py", name)
        for name in ("tokenizers", "tiktoken"):
            self.programs[name] = (python, "text_side.py", name)
        self.options, self.running, self.made = options, {}, set()

    def fresh(self, name, threads):
        program, script, *more = self.programs[name]
        level = {"HEED_LEVEL": self.options.level} if self.options.level else {}
        return Side([program, os.path.join(HERE, script), str(threads), *more], **level)

    def make(self, script):
        """The files that a script makes for some rows, once."""
        if script in self.made:
            return
        made = subprocess.run([self.programs["PyTorch"][0], os.path.join(HERE, script)],
                              capture_output=True, text=True)
        if made.returncode != 0:
            raise Absent(made.stderr.strip().rpartition("\n")[2])
        self.made.add(script)

    def get(self, name, threads):
        if (name, threads) not in self.running:
            self.running[name, threads] = self.fresh(name, threads)
        return self.running[name, threads].ready()

    def of(self, row, threads):
        if row.inputs.partition(":")[0] in PUBLISHED:
            self.make("directories.py")
        elif row.rival in ("tokenizers", "tiktoken"):
            self.make("vocabularies.py")
        names = ["first"] if self.options.alone else ["first", row.rival]
        return [self.get(name, threads) for name in names]

    def end(self):
        for side in self.running.values():
            side.end()
        self.running = {}


def compare(sides, row):
    tolerance = cuda_rows.TOLERANCES.get(row.inputs.split()[0], row.tolerance)
    with tempfile.NamedTemporaryFile() as file:
        for i, (side, expression) in enumerate(zip(sides, [row.heed, row.other])):
            gap = side.ask("make", row.inputs, expression, file.name, *row.check[i:i + 1])
    if gap != "made" and not float(gap) <= tolerance:   # a NaN is no agreement
        raise RuntimeError(f"the results differ: {gap} of the largest number")


class Times:
    """Seconds of a call in samples of one side, or of two in turn."""

    def __init__(self, columns):
        self.fastest = [min(column) for column in columns]
        self.median = [statistics.median(column) for column in columns]
        self.stable = all(sorted(column)[2] <= SEEN_AGAIN * min(column) for column in columns)

    @property
    def ratios(self):
        """The other side's time by heed's: of the fastest calls, and of the medians."""
        return [times[-1] / times[0] for times in (self.fastest, self.median)]

    @property
    def believed(self):
        return max(self.ratios) <= AGREE * min(self.ratios)


def measure(sides, options, between):
    """Samples of both sides in turn, the order changing: until they are stable, or enough."""
    began, columns = time.monotonic(), [[] for _ in sides]
    while True:
        turn = list(zip(sides, columns))
        for side, column in turn if len(columns[0]) % 2 == 0 else reversed(turn):
            if max(options.threads) > 1:
                time.sleep(PAUSE)
            column.append(float(side.ask("time")))
        between()
        count, late = len(columns[0]), time.monotonic() - began > options.patience
        if count >= options.samples or (late and count >= 3):
            return Times(columns)
        if count >= FEWEST and (times := Times(columns)).stable and times.believed:
            return times


def once(sides, row):
    """Seconds of a call in a fresh process of each side, and the most memory that it had."""
    seconds, memory = [], []
    for name, expression in [("first", row.heed), (row.rival, row.other)]:
        side = sides.fresh(name, sides.options.threads[0])
        seconds.append(float(side.ask("once", row.inputs, expression)))
        memory.append(side.end())
    return seconds, memory
