"""What is printed besides the site: notebooks, EPUB, PDF."""
