"""Makers' tools, which no reader installs: they fit constants and make the seeded traces."""
