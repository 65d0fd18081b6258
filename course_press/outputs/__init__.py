"""What results look like on a page."""
