"""The table of a small kept result, and the verdicts. All tests here:
`python3 -m unittest discover -s bench/mdraid/tests`."""
import json
import unittest
from pathlib import Path

import context  # noqa: F401
from harness import table
from harness.cases import CASES, JOURNAL, SETTINGS

FOLDER = Path(__file__).resolve().parent


def run(side, bytes_per_s, variant="", call_share=0.0, foreign=0.0, case="full-stripe", bitmap="none", level=5):
    return {"side": side, "case": case, "level": level, "bitmap": bitmap, "variant": variant, "repetition": 1,
            "bytes_per_s": bytes_per_s, "bytes_per_cpu_s": 2 * bytes_per_s, "call_share": call_share, "foreign": foreign}


def only_row(*runs):
    (row,) = table.rows(runs)
    return row


class Table(unittest.TestCase):
    maxDiff = None

    def test_the_kept_result_gives_the_kept_table(self):
        runs = json.loads((FOLDER / "sample.json").read_text())["runs"]
        lines = [line for line in table.render(runs).splitlines() if line.startswith("|")]
        self.assertEqual("\n".join(lines) + "\n", (FOLDER / "sample.md").read_text())

    def test_medians_count_and_the_better_stripe_cache(self):
        small = [run("md", speed, "256") for speed in (1e9, 9e9, 2e9)]
        large = [run("md", speed, "8192") for speed in (3e9, 3e9, 1e9)]
        row = only_row(*small, *large, run("ours", 12e9))
        self.assertEqual((row.md.variant, row.md.bytes_per_s, row.ratio), ("8192", 3e9, 4.0))

    def test_the_better_policy_counts_with_its_own_limit(self):
        ours = [{**run("ours", speed, policy), "limit_bytes_per_s": 8e9} for policy, speed in (("classic", 4e9), ("prefer-rmw", 6e9))]
        row = only_row(run("md", 1e9), *ours)
        self.assertEqual((row.ratio, row.ours.of_limit), (6.0, 0.75))

    def test_both_ways_are_measured_where_they_read_as_many_blocks(self):
        doubled = {(case.name, setting.level) for case in CASES for setting in SETTINGS if len(case.rmw_levels(setting)) > 1}
        self.assertEqual(doubled, {("random-write", 6), ("random-write-64k", 6), ("flushed-write", 6)})

    def test_what_is_ours_alone_is_compared_with_ours_without_a_cache(self):
        runs = [run(side, speed, case="flushed-write") for side, speed in (("md", 1e9), ("uncached", 4e9), ("ours", 5e9))]
        row = only_row(*runs)
        self.assertEqual((row.ratio, row.verdict), (1.25, "met"))

    def test_a_journal_is_compared_with_our_cache_alone(self):
        journals = [setting for setting in SETTINGS if setting.bitmap == JOURNAL]
        on = {case.name for case in CASES for setting in journals if case.is_on(setting)}
        self.assertEqual(on, {"hot-write", "small-sequential"})
        self.assertEqual({setting.our_bitmap for setting in journals}, {"internal"})
        for name in on:
            row = only_row(*(run(side, speed, case=name, bitmap=JOURNAL) for side, speed in (("md", 1e9), ("ours", 4e9))))
            self.assertEqual(row.verdict, "met")

    def test_a_case_that_one_side_lacks_is_left_out(self):
        self.assertEqual(list(table.rows([run("md", 1e9)])), [])

    def test_slow_system_calls_of_the_guest_do_not_win(self):
        verdicts = [only_row(run("md", 1e9, call_share=share), run("ours", speed)).verdict
                    for share, speed in ((0.01, 4.1e9), (0.1, 4.1e9), (0.1, 3.9e9), (0.1, 5e9))]
        self.assertEqual(verdicts, ["met", "open", "missed", "met"])

    def test_only_some_arrays_have_an_aim(self):
        aims = [only_row(*(run(side, 1e9, case=case, level=level, bitmap=bitmap) for side in ("md", "ours"))).aim
                for case, level, bitmap in (("random-write", 5, "internal"), ("random-write", 5, "none"), ("check", 6, "none"),
                                            ("check", 4, "none"), ("random-read", 5, "none"))]
        self.assertEqual(aims, [2.5, None, 8, None, None])

    def test_what_disturbs_a_figure_is_marked(self):
        row = only_row(run("md", 1e9, call_share=0.06, foreign=0.06), run("ours", 1e9), run("ours", 2e9))
        self.assertEqual((row.md.marks, row.ours.marks, row.verdict), ("!?", "~", "missed?"))

    def test_processor_time_has_a_ratio_of_its_own(self):
        self.assertEqual(only_row(run("md", 1e9), {**run("ours", 1e9), "bytes_per_cpu_s": 3e9}).cpu_ratio, 1.5)


if __name__ == "__main__":
    unittest.main()
