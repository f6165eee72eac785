"""mdraid beside Stripewise, on one core, over members in memory."""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import core, guest, measure
from harness.cases import CASES, JOURNAL_STRIPE_CACHES, MEMBERS_MAX, OUR_CACHE, RMW_LEVELS, STRIPE_CACHES
from harness.guest import Guest, GuestFailed
from harness.ours import Ours, OursFailed
from harness.profile import profiles
from harness.table import render

# What `stripewise bench engine` keeps: members, as much again for the bare loop that it compares itself with, and spares.
OURS_MEMBERS = 2 * MEMBERS_MAX + 2
# Several times the largest request, and beyond most caches.
MEMBER_MIB_MIN = 128


def arguments():
    parser = argparse.ArgumentParser(prog="bench/mdraid/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short repetition of each: some ten minutes")
    parser.add_argument("--json", metavar="FILE", type=Path, help="keep all runs in FILE")
    parser.add_argument("--table", metavar="FILE", type=Path, help="measure nothing: print the table of a kept FILE")
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES],
                        help="only this case, and those given besides")
    parser.add_argument("--profile", metavar="CASE", choices=[case.name for case in CASES],
                        help="compare nothing: print where both sides' time goes in one case (needs perf)")
    parser.add_argument("--member-mib", metavar="MIB", type=int, help="size of each member (1024; 512 with --quick and --profile)")
    parser.add_argument("--nice", metavar="N", type=int, default=-20, help="niceness of both sides (-20)")
    parser.add_argument("--kernel", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stripewise", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.effort = measure.PROFILE if options.profile else measure.QUICK if options.quick else measure.FULL
    options.cases = [case for case in CASES if not options.case or case.name in options.case]
    options.member_mib = options.member_mib or options.effort.member_mib
    if options.member_mib < MEMBER_MIB_MIN or options.member_mib % 4:
        parser.error(f"--member-mib {options.member_mib}: give a multiple of 4, and {MEMBER_MIB_MIN} at least")
    return options


def meminfo(name):
    """A line of /proc/meminfo, in MiB."""
    words = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith(f"{name}:")).split()
    return int(words[1]) // 1024


def require_memory(member_mib):
    needed = guest.memory_mib(member_mib) + OURS_MEMBERS * member_mib
    available = meminfo("MemAvailable")
    if needed > available:
        sys.exit(f"mdraid: members of {member_mib} MiB need {needed} MiB of memory, and {available} MiB are available; "
                 "end other programs, or give smaller ones with --member-mib")


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def about(options, on_core, guest_says, pair_s):
    """What the figures rest on, in lines for people."""
    effort = options.effort
    loads = "; ".join(f"{case.name} " + " or ".join(load.told for load in case.loads) for case in options.cases if case.loads)
    return [
        f"processor: {processor()}, core {on_core}, one core for both",
        f"md: User Mode Linux {', '.join(guest_says)}",
        f"md's settings: stripe cache {' or '.join(map(str, STRIPE_CACHES))}, no worker threads, rmw_level 1; with a "
        f"journal, in memory too, stripe cache {' or '.join(map(str, JOURNAL_STRIPE_CACHES))}; where RMW and "
        f"RCW read as many blocks, rmw_level {' or '.join(map(str, RMW_LEVELS))}",
        f"members: {options.member_mib} MiB each, chunk 64 KiB; md's are flat RAM disks, ours are memory members (of half "
        "the size where two of our arrays take turns)",
        f"pages: 4 KiB in the guest, whose memory is a tmpfs with huge=always ({meminfo('ShmemHugePages')} MiB of "
        f"{guest.memory_mib(options.member_mib)} are huge); ours are madvised huge; all are populated before",
        f"md's loads: {loads}; source as large as block x depth",
        f"our loads: one client, one operation at a time; source 4 MiB; policy {RMW_LEVELS[1]}; where RMW and RCW read as many "
        f"blocks, {' or '.join(RMW_LEVELS.values())}; write-back caches of {OUR_CACHE}",
        f"times: {effort.repetitions} repetitions; md {effort.warm_up_s} s of warm-up and {effort.md_s} s each, ours "
        f"{effort.ours_s} s and {effort.ours_s} s; jobs run to their end",
        f"priority: niceness {options.nice}",
        f"a pair of system calls in the guest: {pair_s * 1e6:.1f} us",
    ]


def keep(path, kept):
    """Replaces the file as a whole, so that an interrupted run leaves what it had."""
    if path:
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(kept, indent=1) + "\n")
        partial.replace(path)


def show(kept):
    print(*kept["about"], "", render(kept["runs"]), sep="\n")


def run(options, folder):
    on_core, effort = core.last_core(), options.effort
    ours = Ours(options.stripewise, options.member_mib, effort.ours_s, on_core, options.nice)
    with Guest(options.kernel, folder, options.member_mib, on_core, options.nice) as running:
        if options.profile:
            for profile in profiles(running, ours, effort, options.profile, folder):
                print(profile, flush=True)
        else:
            compare(running, ours, options)


def compare(running, ours, options):
    pair_s = measure.pair_seconds(running)
    kept = {"about": about(options, ours.core, running.tell("about"), pair_s), "runs": []}
    try:
        for runs in measure.measure(running, ours, options.effort, pair_s, options.cases):
            kept["runs"] += runs
            keep(options.json, kept)
    except KeyboardInterrupt:
        print("mdraid: interrupted; this is what there is", file=sys.stderr)
    show(kept)


def mount(folder, size):
    """Memory in large pages, as our members have them."""
    line = ["mount", "-t", "tmpfs", "-o", f"huge=always,{size}", "guest", folder]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"mdraid: no file system in memory with large pages ({done.stderr.strip()}); this needs a kernel with "
                 "transparent huge pages, and the right to mount")


def interrupt(*_):
    """A request to end is as an interruption: nothing is left running."""
    raise KeyboardInterrupt


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, interrupt)
    if options.table:
        show(json.loads(options.table.read_text()))
        return
    require_memory(options.member_mib)
    # The run has a mount namespace of its own, so this goes away with it.
    folder = Path(tempfile.mkdtemp(prefix="stripewise-mdraid."))
    size = f"size={guest.memory_mib(options.member_mib) + 256}M"
    try:
        mount(folder, size)
        try:
            run(options, folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
    except (GuestFailed, OursFailed) as failure:
        sys.exit(f"mdraid: {failure}")
    except KeyboardInterrupt:
        sys.exit("mdraid: interrupted")
    finally:
        os.rmdir(folder)


main()
