"""Which kernel a guest boots, by what was named, the processor, and what was built."""
import importlib.machinery
import importlib.util
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

RUN_GUEST = Path(__file__).resolve().parent.parent / "run-guest"
AMX = "processor\t: 0\nflags\t\t: fpu avx512f amx_bf16 amx_tile amx_int8\n"
PLAIN = "processor\t: 0\nmodel name\t: amx_tile, by name only\nflags\t\t: fpu avx2\n"


def load():
    loader = importlib.machinery.SourceFileLoader("run_guest", str(RUN_GUEST))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_guest", loader))
    loader.exec_module(module)
    return module


run_guest = load()


class Choice(unittest.TestCase):
    def test_without_amx_it_is_the_packaged_one(self):
        self.assertIsNone(run_guest.choose_kernel(None, PLAIN, Path("/built")))

    def test_with_amx_it_is_the_one_that_was_built(self):
        self.assertEqual(run_guest.choose_kernel(None, AMX, Path("/built")), Path("/built"))

    def test_with_amx_and_none_built_it_is_the_packaged_one(self):
        self.assertIsNone(run_guest.choose_kernel("", AMX, None))

    def test_a_named_one_is_before_all(self):
        for cpuinfo in (PLAIN, AMX):
            self.assertEqual(run_guest.choose_kernel("/named", cpuinfo, Path("/built")), Path("/named"))

    def test_of_those_built_the_newest_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            for age, name in enumerate(["linux-tests-b", "linux-tests-a", "linux-for-others", "linux-tests-half"]):
                path = Path(folder) / name
                path.write_text("")
                path.chmod(0o644 if name.endswith("half") else 0o755)
                os.utime(path, (100 - age, 100 - age))
            with mock.patch.object(run_guest, "BUILT_KERNELS", Path(folder)):
                self.assertEqual(run_guest.built_kernel().name, "linux-tests-b")
        with mock.patch.object(run_guest, "BUILT_KERNELS", Path(folder)):
            self.assertIsNone(run_guest.built_kernel(), "the folder is gone")


class Command(unittest.TestCase):
    def asked(self, named):
        environment = {**os.environ, run_guest.NAMED_KERNEL: named}
        return subprocess.run([RUN_GUEST, "--print-kernel"], env=environment, capture_output=True, text=True)

    def test_the_named_kernel_is_told(self):
        self.assertEqual(self.asked("/bin/sh").stdout.strip(), str(Path("/bin/sh").resolve()))

    def test_a_name_that_is_no_program_is_refused(self):
        answer = self.asked("/etc/passwd")
        self.assertEqual(answer.returncode, run_guest.FAILED)
        self.assertIn("names /etc/passwd, which is no program", answer.stderr)


if __name__ == "__main__":
    unittest.main()
