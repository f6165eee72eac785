"""The core that both sides run on: what they take of it, and what others take."""
import os
from pathlib import Path

def last_core():
    """The last core that we may use; `stripewise bench engine` takes the same one."""
    return max(os.sched_getaffinity(0))


def claim(core, niceness):
    """Moves the calling process, just forked into a session of its own, to the core. A session has an autogroup of its
    own, outside of which niceness counts for nothing."""
    os.sched_setaffinity(0, {core})
    try:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
        Path("/proc/self/autogroup").write_text(str(niceness))
    except OSError:
        pass  # a kernel without autogroups, or a container that may not; what others then take is marked


def session_seconds(session):
    """Processor time of all processes of a session."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == session:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def core_seconds(core):
    """For how long the core was busy since boot (with what its host took from it), and for how long it was there."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{core} "))
    user, nice, system, idle, waiting, *rest = map(int, line.split()[1:9])
    busy = user + nice + system + sum(rest)
    hertz = os.sysconf("SC_CLK_TCK")
    return busy / hertz, (busy + idle + waiting) / hertz


def foreign_share(before, after, own_seconds):
    """Which share of the core others took between two looks at it."""
    busy, there = after[0] - before[0], after[1] - before[1]
    return max(0.0, busy - own_seconds) / there if there else 0.0
