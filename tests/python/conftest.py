"""Helpers for the tests of the Python package. They run in an environment with the package's wheel: see make_package.py."""

import gzip
import json
import os
import pathlib

import numpy as np
import pytest

import snake_ddp

ROOT = pathlib.Path(os.environ.get("SD_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
CHAMPION = str(ROOT / "models/champion.pth")
DATA = ROOT / "tests/data"
VIEW_NET = str(DATA / "view_net.pth")


def recorded(name):
    with gzip.open(DATA / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def follow(cell, link):
    row, column = divmod(cell, 20)
    d_row, d_column = [(-1, 0), (1, 0), (0, -1), (0, 1), (0, 2), (2, 0)][link]
    return (row + d_row) % 10 * 20 + (column + d_column) % 20


LINKS = {(cell, follow(cell, link)): link for cell in range(200) for link in range(6)}


def fill(state, snakes, directions, beans, step, returns, done):
    """Writes a recorded board into one element of a STATE array."""
    cells = [0] * 200
    for number, body in enumerate(snakes):
        for k, cell in enumerate(body):
            cells[cell] = number + 2 | (0 if k == 0 else LINKS[cell, body[k - 1]]) << 3
        if body:
            state["heads"][number], state["tails"][number], state["lengths"][number] = body[0], body[-1], len(body)
    for cell in beans:
        cells[cell] = 1
    state["cells"] = cells
    state["directions"] = directions
    state["beans"][: len(beans)] = beans
    state["n_beans"], state["steps"], state["returns"], state["is_done"] = len(beans), step, returns, done


def batch_of(states, **arguments):
    """A batch whose games are at these boards."""
    batch = snake_ddp.Boards(len(states), **arguments)
    batch.reset(seed=1)
    state = batch.__getstate__()
    state["progress"]["states"] = states.tobytes()
    batch = snake_ddp.Boards.__new__(snake_ddp.Boards)
    batch.__setstate__(state)
    return batch


def random_actions(batch, rng):
    return rng.integers(0, 4, (batch.num_boards, batch.acting), dtype=np.uint8)


@pytest.fixture
def rng():
    return np.random.default_rng(1)
