"""Runs labs, here and on a rented GPU."""
