"""What trials edit while the notebook runs."""

LAST_WORDS = ""
