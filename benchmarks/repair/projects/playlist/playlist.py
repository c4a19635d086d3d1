"""A playlist of tracks with their lengths in seconds."""


class Playlist:
    def __init__(self, name):
        self.name = name
        self.tracks = []

    def add(self, title, seconds):
        self.tracks.append((title, seconds))

    def merge(self, other):
        """Take over the tracks of another playlist."""
        self.tracks.append(other.tracks)

    def __len__(self):
        return len(self.tracks)

    def length(self):
        minutes, seconds = divmod(sum(seconds for _, seconds in self.tracks), 60)
        return f"{minutes}:{seconds:02d}"

    def titles(self):
        return [title for title, _ in self.tracks]
