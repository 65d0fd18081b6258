"""Measures what labs measure, in order, within a budget, and goes on where a run stopped."""
