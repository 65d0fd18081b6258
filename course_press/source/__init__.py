"""The book as written."""
