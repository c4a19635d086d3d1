"""A tiny index of words."""

import re


def words(text):
    return re.findall(r"[a-z]+", text.lower())


class Index:
    def __init__(self):
        self.documents = {}

    def add(self, name, text):
        self.documents[name] = set(words(text))

    def find(self, query):
        """Names of the documents with every word of the query."""
        wanted = set(words(query))
        found = []
        for name, known in self.documents.items():
            if wanted <= known:
                found.append(name)
            return found
