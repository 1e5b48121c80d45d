import unittest

import inikit


class WriterTest(unittest.TestCase):
    def test_dumps(self):
        config = inikit.loads("a = 1\n[s]\nb = [yes, none]\nc = two words\n")
        self.assertEqual(inikit.dumps(config), 'a = 1\n\n[s]\nb = [yes, none]\nc = "two words"\n')

    def test_set_and_dump(self):
        config = inikit.Config()
        config.set("s", "rate", 0.25)
        self.assertEqual(inikit.dumps(config), "[s]\nrate = 0.25\n")


if __name__ == "__main__":
    unittest.main()
