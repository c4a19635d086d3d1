import unittest

from markdown_lite import inline, render


class MarkdownTest(unittest.TestCase):
    def test_emphasis(self):
        self.assertEqual(inline("an *old* one"), "an <i>old</i> one")

    def test_bold(self):
        self.assertEqual(inline("a **new** one"), "a <b>new</b> one")

    def test_code(self):
        self.assertEqual(inline("`x`"), "<code>x</code>")

    def test_render(self):
        self.assertEqual(render("# Hi\n\nyou"), "<h1>Hi</h1>\n<p>you</p>")
