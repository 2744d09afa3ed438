"""From answers to verdicts: the table of answers, its scores and tests, and the claims."""
