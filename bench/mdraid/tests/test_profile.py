"""Samples become functions."""
import unittest

import context  # noqa: F401
from harness.profile import Symbols, report


class Profile(unittest.TestCase):
    def test_addresses_have_the_name_of_the_function_before_them(self):
        symbols = Symbols(["60000100 T memcpy", "60000000 t xor_avx_4", "60000080 D some_data"])
        addresses = (0x60000000, 0x600000F0, 0x60000100, 0x5FFFFFFF, 0x70000000, 0xFFFFFFFF81000000)
        names = ["xor_avx_4", "xor_avx_4", "memcpy", "[elsewhere]", "[elsewhere]", "[the host's kernel]"]
        self.assertEqual([symbols.name(address) for address in addresses], names)

    def test_the_report_begins_with_what_takes_most(self):
        self.assertEqual(report("md", ["b", "a", "b", "b"]).splitlines(), ["md: 4 samples", "  75.0 %  b", "  25.0 %  a"])


if __name__ == "__main__":
    unittest.main()
