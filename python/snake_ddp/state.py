"""The game's constants, and a board as bytes."""

import numpy

ROWS, COLUMNS = 10, 20
TEAM = 3  # snakes
MOVES = 4  # up, down, left, right
START_LENGTH = 3
MAX_STEPS = 200

STATE: numpy.dtype[numpy.void] = numpy.dtype(
    {
        "names": ["cells", "heads", "tails", "lengths", "directions", "beans", "n_beans", "steps", "returns", "is_done"],
        "formats": ["(200,)u1", "(6,)u1", "(6,)u1", "(6,)u1", "(6,)u1", "(5,)u1", "u1", "<u2", "(2,)<i4", "?"],
        "offsets": [0, 200, 206, 212, 218, 224, 229, 230, 232, 240],
        "itemsize": 256,
    }
)
"""One board, as the C++ program keeps it: cells are code | link << 3, cell = row * 20 + column."""
