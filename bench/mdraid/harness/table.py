"""From runs to the table: medians over the repetitions, md's better setting, ratios, verdicts. No I/O here.

A run is one measurement: side (md, ours, or uncached: ours without a cache), case, level, bitmap, variant (of md: its
stripe cache, load and rmw_level; of ours: the policy), repetition, bytes_per_s, bytes_per_cpu_s, call_share (of the time
that went into the guest's system calls), foreign (share of the core that others took); of ours, where it was kept,
limit_bytes_per_s, what a bare loop did beside it.
"""
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from harness.cases import CASES, SETTINGS

# Beyond these shares a figure is marked.
CALL_SHARE_MAX = 0.05
FOREIGN_MAX = 0.05
SPREAD_MAX = 0.2

LEGEND = f"""\
md: the best of its variants, which `at` names: stripe cache; request x depth where there is a choice; rmw_level where it
matters. There ours is the better of the two policies that do as it does, named behind it.
of limit: of what a bare loop did in the same turns.
ratio: ours / md; `by cpu`: of what a second of processor time does, which other work on the core changes less. md's jobs
sleep with a small stripe cache; that is not in it.
journal, as bitmap: md has a write-back journal in its place, in memory, and we our bitmap.
flushed-write: ours with a cache; in md's place is ours without one, in the same turns.
aim: for `ratio`; the verdict is `open` where it would be another one if the guest's system calls cost nothing.
!  over {CALL_SHARE_MAX:.0%} of the time went into system calls of the guest, which are slow in User Mode Linux
?  others took over {FOREIGN_MAX:.0%} of the core
~  repetitions lie over {SPREAD_MAX:.0%} apart"""


@dataclass(frozen=True)
class Figure:
    """The repetitions of one variant of one case."""

    variant: str
    bytes_per_s: float
    bytes_per_cpu_s: float
    spread: float
    call_share: float
    foreign: float
    # Of ours, if the bare loop was kept: the median of what its runs were of it.
    of_limit: float | None = None

    @property
    def marks(self):
        """What the reader is to know of it."""
        marked = {"!": self.call_share > CALL_SHARE_MAX, "?": self.foreign > FOREIGN_MAX, "~": self.spread > SPREAD_MAX}
        return "".join(mark for mark, set_ in marked.items() if set_)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    case: object
    setting: object
    # Of the cases that are ours alone: ours without a cache.
    md: Figure
    ours: Figure

    @property
    def ratio(self):
        """How many times as fast as md."""
        return self.ours.bytes_per_s / self.md.bytes_per_s

    @property
    def cpu_ratio(self):
        """How many times as much in the same processor time."""
        return self.ours.bytes_per_cpu_s / self.md.bytes_per_cpu_s

    @property
    def aim(self):
        """The ratio aimed at, or None."""
        return self.case.aim_for(self.setting)

    @property
    def verdict(self):
        """`met`, `missed`, or `open`, where md's system calls decide; in doubt, where others were at work."""
        if self.aim is None:
            return "-"
        doubt = "?" if max(self.md.foreign, self.ours.foreign) > FOREIGN_MAX else ""
        if self.ratio < self.aim:
            return "missed" + doubt
        return ("met" if self.ratio * (1 - self.md.call_share) >= self.aim else "open") + doubt


def figure(variant, runs):
    """Medians of a variant's runs."""
    speeds = [run["bytes_per_s"] for run in runs]
    middle = median(speeds)
    others = (median(run[name] for run in runs) for name in ("call_share", "foreign"))
    of_limit = [run["bytes_per_s"] / run["limit_bytes_per_s"] for run in runs if run.get("limit_bytes_per_s")]
    return Figure(variant, middle, median(run["bytes_per_cpu_s"] for run in runs), (max(speeds) - min(speeds)) / middle,
                  *others, median(of_limit) if of_limit else None)


def best(runs):
    """The figure of the fastest variant; None without runs."""
    variants = defaultdict(list)
    for run in runs:
        variants[run["variant"]].append(run)
    figures = [figure(variant, of_variant) for variant, of_variant in variants.items()]
    return max(figures, key=lambda one: one.bytes_per_s, default=None)


def rows(runs):
    """The table's lines, of which both sides were measured."""
    cells = defaultdict(list)
    for run in runs:
        cells[run["side"], run["case"], run["level"], run["bitmap"]].append(run)
    for case in CASES:
        for setting in SETTINGS:
            sides = ("uncached" if case.is_ours_alone else "md", "ours")
            md, ours = (best(cells[side, case.name, setting.level, setting.bitmap]) for side in sides)
            if md and ours:
                yield Row(case, setting, md, ours)


def speed(case, one):
    """A figure with its unit and marks."""
    if case.small:
        return f"{one.bytes_per_s / case.small / 1e3:.0f} k/s{one.marks}"
    return f"{one.bytes_per_s / 1e6:.0f} MB/s{one.marks}"


def cells(row):
    """A line as the texts of its columns."""
    at = f"{row.md.variant} / {row.ours.variant}" if row.ours.variant else row.md.variant
    aim = "-" if row.aim is None else f"{row.aim:g}"
    of_limit = "-" if row.ours.of_limit is None else f"{row.ours.of_limit:.2f}"
    return [row.case.name, str(row.setting.level), row.setting.bitmap, speed(row.case, row.md), at,
            speed(row.case, row.ours), of_limit, f"{row.ratio:.2f}", f"{row.cpu_ratio:.2f}", aim, row.verdict]


def render(runs):
    """The table with its legend, as Markdown."""
    lines = [["case", "level", "bitmap", "md", "at", "ours", "of limit", "ratio", "by cpu", "aim", "verdict"]]
    lines += [cells(row) for row in rows(runs)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    table = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    return "\n".join([*table, "", LEGEND])
