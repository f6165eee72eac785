"""What is measured, on which arrays, and what is aimed at. No I/O here."""
from dataclasses import dataclass

# Stripe cache sizes that md is measured with; the better one counts. 256 is its default.
STRIPE_CACHES = (256, 8192)
# With a journal, from which md destages when its stripe cache is half full: the larger one has room for HOT_SPAN twice.
JOURNAL_STRIPE_CACHES = (8192, 16384)
# The journal takes the place of the bitmap.
JOURNAL = "journal"
# md destages, too, when a quarter of the journal's room is left.
JOURNAL_MIB = 1024
# What a write-back cache is to hold, and the size of ours.
HOT_SPAN = "64M"
OUR_CACHE = "256M"

# Where RMW and RCW read as many blocks, both sides are measured with either; the better one counts. md's rmw_level, 1 being
# its default, and our policy that does the same.
RMW_LEVELS = {1: "classic", 2: "prefer-rmw"}


@dataclass(frozen=True)
class Load:
    """A load in the guest, in the words of guest/load.c: few large system calls, so that they do not dominate."""

    access: str
    order: str
    block: str
    depth: int
    batch: int
    # In so much at the start of the array; 0: in all of it.
    span: str = "0"

    @property
    def told(self):
        """In a sentence."""
        within = "" if self.span == "0" else f", in the first {self.span}"
        return f"{self.block}, depth {self.depth}, batch {self.batch}{within}"

    def __str__(self):
        return f"{self.block} x {self.depth}"


@dataclass(frozen=True)
class Case:
    """One line of the table for each array. Without loads it is a job of md's; jobs count bytes of one member."""

    name: str
    loads: tuple = ()
    # Its name in `stripewise bench engine`, if it is another one.
    engine: str = ""
    # Our caches. Where there are two, the second is compared with the first, and md has no part in it.
    our_caches: tuple = ("none",)
    # We flush after so many writes.
    flush_every: int = 0
    # Operations of this size are told in thousands a second, all else in bytes.
    small: int = 0
    # Reads of a healthy array do not use the stripe cache.
    cached: bool = True
    degraded: bool = False
    # Writes no more than a chunk of a stripe.
    one_column: bool = False
    aim: float = 0
    aim_levels: tuple = (4, 5, 6)
    aim_bitmaps: tuple = ("internal", "none", JOURNAL)

    @property
    def is_ours_alone(self):
        """Whether ours is compared with ours."""
        return len(self.our_caches) > 1

    @property
    def engine_case(self):
        """Its name in `stripewise bench engine`."""
        return self.engine or self.name

    @property
    def engine_options(self):
        """What `stripewise bench engine` is told beside it."""
        words = [word for cache in self.our_caches for word in ("--cache", cache)]
        words += ["--cache-size", OUR_CACHE] if "stripe" in self.our_caches else []
        words += ["--span", self.loads[0].span] if self.loads and self.loads[0].span != "0" else []
        words += ["--flush-every", str(self.flush_every)] if self.flush_every else []
        return tuple(words)

    def is_on(self, setting):
        """Whether it is measured on an array. md's journal is compared with our cache."""
        return setting.bitmap != JOURNAL or (not self.is_ours_alone and "stripe" in self.our_caches)

    def rmw_levels(self, setting):
        """Those of md's that make a difference. With four columns of data and two of parity, one column is written after
        three reads either way; with a member lost there is one way only, or one reads less."""
        return tuple(RMW_LEVELS) if self.one_column and setting.level == 6 else (1,)

    def aim_for(self, setting):
        """The ratio aimed at, or None."""
        aimed = setting.level in self.aim_levels and setting.bitmap in self.aim_bitmaps
        return self.aim if self.aim and aimed else None


@dataclass(frozen=True)
class Setting:
    """An array."""

    level: int
    bitmap: str

    @property
    def our_bitmap(self):
        """We have no journal, and note writes in the bitmap."""
        return "internal" if self.bitmap == JOURNAL else self.bitmap

    @property
    def stripe_caches(self):
        """Those that md is measured with."""
        return JOURNAL_STRIPE_CACHES if self.bitmap == JOURNAL else STRIPE_CACHES

    @property
    def members(self):
        """Four of data and what the level needs."""
        return 6 if self.level == 6 else 5

    def __str__(self):
        return f"level {self.level}, bitmap {self.bitmap}"


SETTINGS = tuple(Setting(level, bitmap) for level in (5, 6, 4) for bitmap in ("none", "internal", JOURNAL))
MEMBERS_MAX = max(setting.members for setting in SETTINGS)

SMALL_READS = Load("read", "random", "4K", 1024, 1024)
SMALL_WRITES = Load("write", "random", "4K", 512, 512)
HOT_WRITES = Load("write", "random", "4K", 512, 512, HOT_SPAN)
SMALL_SEQUENTIAL = Load("write", "sequential", "4K", 1, 1)

CASES = (
    Case("full-stripe", (Load("write", "sequential", "64M", 1, 1), Load("write", "sequential", "4M", 1, 1)), aim=4),
    Case("random-write", (SMALL_WRITES,), small=4096, one_column=True, aim=2.5, aim_bitmaps=("internal",)),
    Case("random-write-64k", (Load("write", "random", "64K", 256, 128),), one_column=True, aim=4),
    Case("random-write-128k", (Load("write", "random", "128K", 128, 64),), aim=4),
    Case("random-read", (SMALL_READS,), small=4096, cached=False),
    Case("sequential-read", (Load("read", "sequential", "1M", 32, 16),), cached=False),
    # Nothing is read for them: no tie of RMW and RCW.
    Case("hot-write", (HOT_WRITES,), engine="random-write", our_caches=("stripe",), small=4096, aim=4),
    Case("small-sequential", (SMALL_SEQUENTIAL,), our_caches=("stripe",), small=4096, aim=3),
    Case("flushed-write", engine="random-write", our_caches=("none", "stripe"), flush_every=1000, small=4096,
         one_column=True, aim=1),
    Case("check", aim=8, aim_levels=(5, 6)),
    Case("degraded-read", (SMALL_READS,), small=4096, degraded=True, aim=2.5),
    Case("degraded-write", (SMALL_WRITES,), small=4096, degraded=True, aim=2.5),
    Case("rebuild", degraded=True, aim=8, aim_levels=(5, 6)),
)
