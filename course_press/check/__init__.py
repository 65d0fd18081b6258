"""The rules of the source, and whether the languages agree."""
