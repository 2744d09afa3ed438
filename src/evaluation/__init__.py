"""From answers to verdicts: the stored requests and answers, the scores and tests read off them, and the claims."""
