"""A board as a picture, in the colours of the replay page."""

import numpy as np
from numpy.typing import NDArray

from .state import COLUMNS, ROWS, TEAM

SIDE = 16  # pixels of a cell; even, as video codecs want a picture's sides
_SNAKES = 2 * TEAM
_GRID, _CELL, _BEAN, _EYE = 0xE1E6EB, 0xF0F2F5, 0x117A52, 0xFFFFFF
_BODIES = (0x005F95, 0x0072B2, 0x2B88BF, 0xB04D00, 0xD55E00, 0xDD7225)  # of team A, then of team B
_CODE = 7  # the bits of a cell that say what is on it


def _tile(body: int, mark: int, border: int) -> NDArray[np.uint8]:
    """A cell with a mark in its middle."""
    colours = np.full((SIDE, SIDE), _GRID)
    colours[1:, 1:] = body
    colours[border:-border, border:-border] = mark
    return np.stack([colours >> shift & 0xFF for shift in (16, 8, 0)], axis=-1).astype(np.uint8)


# By the code of a cell; then those of heads.
_TILES = np.stack(
    [_tile(_CELL, _CELL, 1), _tile(_CELL, _BEAN, 4)]
    + [_tile(body, body, 1) for body in _BODIES]
    + [_tile(body, _EYE, 5) for body in _BODIES]
)


def picture_of(state: NDArray[np.void]) -> NDArray[np.uint8]:
    """Team A is blue, team B orange; heads have a white mark, beans are green.

    Shapes  state STATE [], returns [160, 320, 3].
    """
    kinds = state["cells"] & _CODE
    kinds[state["heads"][state["lengths"] > 0]] += _SNAKES
    tiles = _TILES[kinds].reshape(ROWS, COLUMNS, SIDE, SIDE, 3)
    return tiles.swapaxes(1, 2).reshape(ROWS * SIDE, COLUMNS * SIDE, 3)
