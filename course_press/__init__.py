"""The press: reads the chapters, runs their cells, checks them, prints notebooks and the site."""
