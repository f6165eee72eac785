"""Where the time of one case goes on each side: perf's samples of the guest's process and of our worker, by function. Our
worker is sampled in user space alone: it makes no system calls over members in memory, but populates them before."""
import bisect
import itertools
import signal
import subprocess
import time
from collections import Counter

from harness.cases import CASES, JOURNAL, RMW_LEVELS, Setting
from harness.measure import Md

# The arrays that the aims are about.
PROFILED = (Setting(5, "internal"), Setting(6, "internal"), Setting(5, JOURNAL), Setting(6, JOURNAL))
FUNCTIONS = 20
# A clock, since counters of the processor are missing in many virtual machines; no round rate, to beat with nothing.
PERF = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "997"]
# An address further behind a symbol does not belong to it.
FUNCTION_BYTES_MAX = 1 << 17
# Our worker's name; another thread is the bare loop.
WORKER = "stripewise-io0"


class Symbols:
    """The guest kernel's functions, which the host's perf does not know."""

    def __init__(self, kallsyms):
        fields = (line.split() for line in kallsyms)
        pairs = sorted((int(address, 16), name) for address, kind, name, *_ in fields if kind in "tTwW")
        self.addresses, self.names = zip(*pairs)

    def name(self, address):
        """The function that an address lies in."""
        if address >> 63:
            return "[the host's kernel]"
        index = bisect.bisect_right(self.addresses, address) - 1
        known = index >= 0 and address - self.addresses[index] < FUNCTION_BYTES_MAX
        return self.names[index] if known else "[elsewhere]"


def report(title, names):
    """The functions with most samples, in lines for people."""
    counts = Counter(names)
    total = sum(counts.values())
    lines = [f"{100 * count / total:6.1f} %  {name}" for name, count in counts.most_common(FUNCTIONS)]
    return "\n".join([f"{title}: {total} samples", *lines, ""])


def samples(data, *fields):
    """perf's samples, a line each."""
    line = ["perf", "script", "-i", data, "-F", ",".join(fields)]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()


def profile_md(guest, effort, case, setting, cache, rmw_level, folder):
    """md's profile, with a stripe cache of this size and an `rmw_level`."""
    symbols, data = Symbols(guest.tell("cat /proc/kallsyms")), folder / "md.perf"
    guest.tell(f"array {setting.level} {setting.members} {setting.bitmap}")
    guest.tell(f"cache {cache}")
    guest.tell(f"rmw_level {rmw_level}")
    if case.degraded:
        guest.tell("degrade")
    perf = subprocess.Popen([*PERF, "-p", str(guest.process.pid), "-o", data])
    time.sleep(0.5)  # until it samples
    Md(guest, effort, 0.0).run(case, case.loads[0] if case.loads else None)
    perf.send_signal(signal.SIGINT)
    perf.wait()
    names = (symbols.name(int(line, 16)) for line in samples(data, "ip"))
    return report(f"md, {case.name}, {setting}, stripe cache {cache}, rmw_level {rmw_level}", names)


def profile_ours(ours, case, setting, policy, folder):
    """Our profile, with a policy."""
    data = folder / "ours.perf"
    list(ours.measure(setting, [case], policy, under=[*PERF, "-o", str(data), "--"]))
    lines = (line.split(maxsplit=2) for line in samples(data, "comm,ip,sym"))
    names = [name for comm, address, name in lines if comm == WORKER and not int(address, 16) >> 63]
    return report(f"ours, {case.name}, {setting}, policy {policy}", names)


def profiles(guest, ours, effort, name, folder):
    """Yields all profiles of a case."""
    case = next(case for case in CASES if case.name == name)
    for setting in filter(case.is_on, PROFILED):
        rmw_levels = case.rmw_levels(setting)
        caches = setting.stripe_caches if case.cached else setting.stripe_caches[:1]
        caches = () if case.is_ours_alone else caches
        for cache, rmw_level in itertools.product(caches, rmw_levels):
            yield profile_md(guest, effort, case, setting, cache, rmw_level, folder)
        for rmw_level in rmw_levels:
            yield profile_ours(ours, case, setting, RMW_LEVELS[rmw_level], folder)
