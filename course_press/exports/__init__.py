"""What is printed besides the site: notebooks, EPUB, PDF, and a release of them all."""
