"""Takes the figures: for each array, in each repetition, md's cases and then ours."""
import itertools
import sys
import time
from collections import defaultdict
from dataclasses import dataclass

from harness.cases import RMW_LEVELS, SETTINGS
from harness.guest import GuestFailed


# What the kernel's count of processor time can tell apart.
CPU_SECONDS_MIN = 0.01


@dataclass(frozen=True)
class Effort:
    """How large, how long and how often."""

    member_mib: int
    repetitions: int
    warm_up_s: float
    md_s: float
    ours_s: float


FULL = Effort(member_mib=1024, repetitions=3, warm_up_s=0.5, md_s=1.5, ours_s=1.0)
# So long that what comes before, such as populating pages, is little beside it.
PROFILE = Effort(member_mib=512, repetitions=1, warm_up_s=0.2, md_s=3.0, ours_s=3.0)
QUICK = Effort(member_mib=512, repetitions=1, warm_up_s=0.2, md_s=0.4, ours_s=0.25)


class Md:
    """md's measurements of one array in one repetition."""

    def __init__(self, guest, effort, pair_s, cases=()):
        self.guest, self.effort, self.pair_s = guest, effort, pair_s
        self.cases = [case for case in cases if not case.is_ours_alone]
        self.label = 0
        self.setting = None

    def runs(self, setting):
        """All its cases: the healthy array, then the degraded one with each stripe cache."""
        self.setting = setting
        if not any(case.is_on(setting) for case in self.cases):
            return
        self.guest.tell(f"array {setting.level} {setting.members} {setting.bitmap}")
        for cache in setting.stripe_caches:
            self.guest.tell(f"cache {cache}")
            yield from self._cases(cache, lambda case: case.cached and not case.degraded)
        yield from self._cases(None, lambda case: not case.cached)
        if not any(case.degraded and case.is_on(setting) for case in self.cases):
            return
        for cache in setting.stripe_caches:
            self.guest.tell(f"cache {cache}")
            self.guest.tell("degrade")
            yield from self._cases(cache, lambda case: case.degraded)

    def _cases(self, cache, chosen):
        for case in (case for case in self.cases if chosen(case) and case.is_on(self.setting)):
            rmw_levels = case.rmw_levels(self.setting)
            for load, rmw_level in itertools.product(case.loads or (None,), rmw_levels):
                self.guest.tell(f"rmw_level {rmw_level}")
                names = [str(cache)] if cache else []
                names += [str(load)] if len(case.loads) > 1 or not cache else []
                names += [f"rmw_level {rmw_level}"] if len(rmw_levels) > 1 else []
                yield case.name, {"variant": ", ".join(names), **self.run(case, load)}

    def run(self, case, load):
        """One measurement, of a load or of a job."""
        self.label += 1
        if load:
            shape = f"{load.access} {load.order} {load.block} {load.depth} {load.batch}"
            line = f"load io /dev/md0 {shape} {load.span} {self.effort.warm_up_s} {self.effort.md_s} {self.label}"
        else:
            line = f"rebuild {self.label}" if case.name == "rebuild" else f"load job md0 {case.name} {self.label}"
        done = self.guest.measure(line)
        if done.get("mismatches"):
            raise GuestFailed(f"md found rows that disagree after {case.name}: its figures are of a broken array")
        # Calls come in pairs, io_submit and io_getevents; a job's few are taken to cost the same.
        call_share = done["calls"] / 2 * self.pair_s / done["seconds"]
        return {"bytes_per_s": done["bytes"] / done["seconds"],
                "bytes_per_cpu_s": done["bytes"] / max(done["cpu_s"], CPU_SECONDS_MIN), "call_share": call_share,
                "foreign": done["foreign"]}


def pair_seconds(guest):
    """What a pair of system calls costs in the guest, in processor time, so that other work does not count."""
    done = guest.measure("load calls 0")
    return done["cpu_s"] / (done["calls"] / 2)


def our_runs(ours, setting, cases):
    """Ours: all cases, then those that another policy writes otherwise; together where their options are the same."""
    for rmw_level, policy in RMW_LEVELS.items():
        together = defaultdict(list)
        for case in cases:
            if case.is_on(setting) and rmw_level in case.rmw_levels(setting):
                together[case.engine_options].append(case)
        for alike in together.values():
            for case, cache, run in ours.measure(setting, alike, policy):
                names = [policy] if len(case.rmw_levels(setting)) > 1 else []
                names += [f"cache {cache}"] if case.is_ours_alone else []
                side = "ours" if cache == case.our_caches[-1] else "uncached"
                yield {"side": side, "case": case.name, "variant": ", ".join(names), **run}


def measure(guest, ours, effort, pair_s, cases):
    """Yields, after each array's turn in each repetition, the runs that it gave."""
    start = time.monotonic()
    for repetition in range(1, effort.repetitions + 1):
        for setting in SETTINGS:
            common = {"level": setting.level, "bitmap": setting.bitmap, "repetition": repetition}
            md = [{"side": "md", "case": case, **common, **run} for case, run in Md(guest, effort, pair_s, cases).runs(setting)]
            our = [{**common, "call_share": 0.0, **run} for run in our_runs(ours, setting, cases)]
            took = time.monotonic() - start
            print(f"{took:6.0f} s: repetition {repetition} of {effort.repetitions}, {setting}", file=sys.stderr)
            yield md + our
