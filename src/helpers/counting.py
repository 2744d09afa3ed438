"""Write counts with their nouns: 1 row, 2 rows, both rows, 2 of the 5 rows."""


def counted(n: int, noun: str, plural: str = "") -> str:
    """Write a count with its noun, such as "2 rows".

    Args:
        n: The count, 0 or more.
        noun: Its noun for one, such as "patient".
        plural: Its noun for several; the noun and an "s" if left out.
    """
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {plural or f'{noun}s'}"


def part_in_words(n: int, n_all: int, noun: str) -> str:
    """Write how many of all things a sentence is about.

    Args:
        n: The count, from 0 to ``n_all``.
        n_all: The count of all, 1 or more.
        noun: Their noun for one; the plural adds an "s".

    Returns:
        Words such as "2 of the 5 rows", "all 5 rows", "both rows" or "the only row".
    """
    if n < n_all:
        return f"{n:,} of the {counted(n_all, noun)}"
    if n_all == 1:
        return f"the only {noun}"
    return f"both {noun}s" if n_all == 2 else f"all {counted(n_all, noun)}"
