"""The command `course`: parses, calls, prints."""
