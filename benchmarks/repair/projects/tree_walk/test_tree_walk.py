import unittest

from tree_walk import count_files, depth, paths

TREE = {"src": {"app.py": None, "lib": {"io.py": None}}, "README": None}


class TreeTest(unittest.TestCase):
    def test_paths(self):
        self.assertEqual(paths(TREE), ["README", "src/", "src/app.py", "src/lib/", "src/lib/io.py"])

    def test_flat(self):
        self.assertEqual(paths({"a": None}), ["a"])

    def test_depth(self):
        self.assertEqual(depth(TREE), 3)

    def test_count(self):
        self.assertEqual(count_files(TREE), 3)
