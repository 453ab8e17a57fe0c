"""Numbers among the arguments: one rule, and one form of its messages, for all of them."""

from __future__ import annotations

import math
import operator
from typing import Any

MOST_BOARDS = 2**24
MOST_GAMES = 2**40
MOST_SEED = 2**64 - 1


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Throws  TypeError for what is not a whole number, ValueError for one outside of low to high."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, not a whole number, {_range(low, high)}") from None
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} is {number}, not {_range(low, high)}")
    return number


def real(name: str, value: Any, low: float, high: float | None = None, *, above: bool = False) -> float:
    """`above`: low itself is out of range.

    Throws  TypeError for what is not a number, ValueError for one that is not finite or is outside of low to high.
    """
    try:
        number = float(value + 0.0)  # float alone takes text
    except TypeError:
        raise TypeError(f"{name} is {value!r}, not a number, {_range(low, high, above)}") from None
    if not math.isfinite(number) or number < low or (above and number == low) or (high is not None and number > high):
        raise ValueError(f"{name} is {value!r}, not {_range(low, high, above)}")
    return number


def counted(count: int, what: str) -> str:
    """ "1 game", "2 games": wherever a message has a number before what it counts."""
    return f"{count} {what}{'s' * (count != 1)}"


def seed_of(name: str, value: Any) -> int:
    return whole(name, value, 0, MOST_SEED)


def _range(low: float, high: float | None, above: bool = False) -> str:
    if high is None:
        return f"more than {low}" if above else f"{low} or more"
    return f"{low} to {'2**64 - 1' if high == MOST_SEED else high}"
