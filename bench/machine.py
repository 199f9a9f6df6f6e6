"""The machine of a run: its description and its peak rates."""

import os
import platform
import subprocess
import tempfile
import time

from sides import HERE, Side


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def caches():
    folder = "/sys/devices/system/cpu/cpu0/cache/"
    found = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if read(f"{folder}{name}/type") in ("Data", "Unified"):
            found["L" + read(f"{folder}{name}/level")] = read(f"{folder}{name}/size")
    return ", ".join(f"{level} {size}" for level, size in found.items())


def model():
    for line in read("/proc/cpuinfo").split("\n"):
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.machine()


def described():
    """The day and the machine: processor, cores that may be used, caches, memory, load."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0))
    parts = [time.strftime("%Y-%m-%d"), f"{model()}, {cores} cores", caches(),
             f"{memory / 2 ** 30:.0f} GB", f"Linux {platform.release()}",
             f"load {os.getloadavg()[0]:.1f} at the start"]
    return "; ".join(part for part in parts if part)


class Peak:
    """The machine's peak rates, by bench/peak.c, which is compiled for it, in the same run."""

    def __init__(self, level, threads):
        self.folder = tempfile.TemporaryDirectory()
        program = os.path.join(self.folder.name, "peak")
        subprocess.run([os.environ.get("CC") or "gcc", "-O2", "-o", program,
                        os.path.join(HERE, "peak.c"), "-lpthread"], check=True)
        self.best = {}
        self.running = {n: Side([program, level, str(n)]) for n in threads}

    def ask(self, threads, unit, amount):
        """Asks once more, and keeps the best answer."""
        words = ("fma",) if unit == "FLOP" else (unit, int(amount))
        rate = float(self.running[threads].ask(" ".join(str(word) for word in words)))
        key = (threads, *words)
        self.best[key] = max(rate, self.best.get(key, 0))
        return self.best[key]

    def end(self):
        for side in self.running.values():
            side.end()
        self.folder.cleanup()
