"""The press: reads the chapters, runs their cells, checks them, and prints notebooks
and the site.
"""
