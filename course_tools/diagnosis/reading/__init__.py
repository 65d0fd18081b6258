"""Reads a trace in bounded memory, and what its names say."""
