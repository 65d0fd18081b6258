"""Slides out of a printed chapter, before they are set into a page."""
