"""Write counts with their nouns: 1 row, 2 rows."""


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
