"""The site, by either engine."""
