"""Judges learners' files."""
