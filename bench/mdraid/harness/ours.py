"""Our side: `stripewise bench engine`, which pins itself to the last core."""
import json
import resource
import subprocess

from harness import core
from harness.cases import RMW_LEVELS


class OursFailed(Exception):
    """`stripewise bench engine` failed; the message has what it said."""


class Ours:
    """How our side is run."""

    def __init__(self, binary, member_mib, seconds, on_core, niceness):
        self.binary, self.member_mib, self.seconds = binary, member_mib, seconds
        self.core, self.niceness = on_core, niceness

    def measure(self, setting, cases, policy=RMW_LEVELS[1], under=()):
        """Measures cases with the same options once, after a turn that warms up; `under` is a command that runs ours.
        Yields case, cache and run: bytes a second, ours and the bare loop's, and the share of the core that others took,
        over all."""
        before, own_before = core.core_seconds(self.core), children_seconds()
        line = [*under, *self._command(setting, cases, policy)]
        done = subprocess.run(line, capture_output=True, text=True, start_new_session=True,
                              preexec_fn=lambda: core.claim(self.core, self.niceness))
        if done.returncode:
            raise OursFailed(f"`{' '.join(line)}` failed with {done.returncode}:\n{done.stderr.strip()}")
        foreign = core.foreign_share(before, core.core_seconds(self.core), children_seconds() - own_before)
        figures = {(figure["case"], figure["cache"]): figure for figure in json.loads(done.stdout)}
        for case in cases:
            for cache in case.our_caches:
                if (case.engine_case, cache) not in figures:
                    raise OursFailed(f"`{' '.join(line)}` told nothing of {case.engine_case} with cache {cache}")
                yield case, cache, {**speeds(figures[case.engine_case, cache]), "foreign": foreign}

    def _command(self, setting, cases, policy):
        # With two arrays, as much memory as with one.
        mib = self.member_mib // len(cases[0].our_caches)
        named = [word for case in cases for word in ("--case", case.engine_case)]
        return [str(self.binary), "--json", "bench", "engine", "--level", str(setting.level), "--raid-devices",
                str(setting.members), "--bitmap", setting.our_bitmap, "--policy", policy, "--size", f"{mib}M",
                "--turns", "1", "--seconds", str(self.seconds), *cases[0].engine_options, *named]


def speeds(figure):
    """Bytes in a second, and in a second of processor time; and what the bare loop did beside it."""
    size = figure["bytes_per_operation"]
    return {"bytes_per_s": size * figure["engine_per_s"], "bytes_per_cpu_s": size / figure["cpu_ns_per_operation"] * 1e9,
            "limit_bytes_per_s": size * figure["limit_per_s"]}


def children_seconds():
    """Processor time of all that we waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
