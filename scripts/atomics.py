"""Steps through one write of the example `operations`, in gdb: from a copy to a member to the same copy of the next write."""

import collections
import os
import re

import gdb

# Each write of one block writes two members: its own, and the one with parity.
COPIES_PER_WRITE = 2
# By then regions are marked and pools are filled.
WRITES_BEFORE = 2000
STEPS_MAX = 1_000_000
# Locked is what says so, and every exchange with memory.
IS_LOCKED = re.compile(r"\block\b|\bxchg\s.*\[|\bxchg\s.*\(")
# Whose frames say nothing of what for.
GENERAL = re.compile(r"^(core|alloc|std|parking_lot|lock_api)::")


def caller(frame):
    """The function that is not one of everybody's."""
    while frame.older() and GENERAL.match(frame.name() or "core::"):
        frame = frame.older()
    return frame.name()


def step_until(address, found):
    """Steps until the address is reached, and counts what is locked by function."""
    for steps in range(1, STEPS_MAX):
        gdb.execute("stepi", to_string=True)
        frame = gdb.selected_frame()
        if frame.pc() == address:
            return steps
        text = frame.architecture().disassemble(frame.pc())[0]["asm"]
        if IS_LOCKED.search(text):
            found[f"{caller(frame)}: {' '.join(text.split())}"] += 1
    raise gdb.GdbError(f"no next write within {STEPS_MAX} instructions")


gdb.execute("set pagination off")
copy = gdb.Breakpoint("stripewise_device::memory::{impl#1}::write")
copy.ignore_count = WRITES_BEFORE * COPIES_PER_WRITE
gdb.execute("run", to_string=True)
address = gdb.selected_frame().pc()
copy.enabled = False
found = collections.Counter()
steps = sum(step_until(address, found) for _ in range(COPIES_PER_WRITE))
with open(os.environ["FOUND"], "w", encoding="utf-8") as report:
    print(f"{sum(found.values())} locked of {steps} instructions, copies and parity among them", file=report)
    for what, count in sorted(found.items()):
        print(f"{count:>3}  {what}", file=report)
gdb.execute("kill", to_string=True)
