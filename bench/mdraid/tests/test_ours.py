"""The command lines of our side, and what is made of its figures."""
import json
import subprocess
import unittest
from unittest import mock

import context  # noqa: F401
from harness.cases import CASES, JOURNAL, Setting
from harness.measure import our_runs
from harness.ours import Ours

FIGURE = {"bytes_per_operation": 4096, "engine_per_s": 1.0, "cpu_ns_per_operation": 1e9, "limit_per_s": 2.0}


def runs(setting, *names):
    """The runs of cases, and the options of each call."""
    lines = []

    def tells(line, **_):
        cases, caches = ([value for name, value in zip(line, line[1:]) if name == wanted] for wanted in ("--case", "--cache"))
        figures = [{**FIGURE, "case": case, "cache": cache} for case in cases for cache in caches]
        lines.append(line[line.index("--size"):])
        return subprocess.CompletedProcess(line, 0, json.dumps(figures), "")

    ours = Ours("stripewise", 512, 1, 0, 0)
    with mock.patch("harness.ours.subprocess.run", tells):
        return list(our_runs(ours, setting, [case for case in CASES if case.name in names])), lines


class OurSide(unittest.TestCase):
    def test_cases_with_the_same_options_are_measured_together(self):
        _, lines = runs(Setting(5, "none"), "full-stripe", "random-read", "small-sequential", "hot-write")
        turn = ["--size", "512M", "--turns", "1", "--seconds", "1"]
        cached = [*turn, "--cache", "stripe", "--cache-size", "256M"]
        self.assertEqual(lines, [[*turn, "--cache", "none", "--case", "full-stripe", "--case", "random-read"],
                                 [*cached, "--span", "64M", "--case", "random-write"],
                                 [*cached, "--case", "small-sequential"]])

    def test_what_is_ours_alone_gives_a_run_of_each_cache(self):
        found, lines = runs(Setting(5, "none"), "flushed-write")
        self.assertEqual([(run["side"], run["case"], run["variant"]) for run in found],
                         [("uncached", "flushed-write", "cache none"), ("ours", "flushed-write", "cache stripe")])
        self.assertEqual(lines[0][:2], ["--size", "256M"])
        self.assertIn("--flush-every", lines[0])

    def test_with_a_journal_only_what_a_cache_does_is_measured(self):
        found, _ = runs(Setting(5, JOURNAL), *(case.name for case in CASES))
        self.assertEqual([(run["side"], run["case"]) for run in found], [("ours", "hot-write"), ("ours", "small-sequential")])


if __name__ == "__main__":
    unittest.main()
