"""What only pages and notebooks need: words and numbers, figures, explorers, exercises, reports."""
