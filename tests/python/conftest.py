"""What tests of the Python package share. They run in an environment with the package's wheel: see make_package.py."""

import gzip
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import snake_ddp

ROOT = pathlib.Path(os.environ.get("SD_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
CHAMPION = str(ROOT / "models/champion.pth")
DATA = ROOT / "tests/data"


def recorded(name):
    with gzip.open(DATA / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def run_program(*arguments):
    """The built C++ program's stdout."""
    program = pathlib.Path(os.environ["SD_BUILD_DIR"]) / "src/app/snake_ddp"
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill(state, snakes, directions, beans, step, returns, done):
    """Writes a recorded board into one element of a STATE array."""
    def follow(cell, link):
        row, column = divmod(cell, 20)
        d_row, d_column = [(-1, 0), (1, 0), (0, -1), (0, 1), (0, 2), (2, 0)][link]
        return (row + d_row) % 10 * 20 + (column + d_column) % 20

    for number, body in enumerate(snakes):
        for k, cell in enumerate(body):
            link = 0 if k == 0 else next(link for link in range(6) if follow(cell, link) == body[k - 1])
            state["cells"][cell] = number + 2 | link << 3
        if body:
            state["heads"][number], state["tails"][number], state["lengths"][number] = body[0], body[-1], len(body)
    state["directions"] = directions
    state["cells"][beans] = 1
    state["beans"][: len(beans)] = beans
    state["n_beans"], state["steps"], state["returns"], state["is_done"] = len(beans), step, returns, done


def batch_of(states, **arguments):
    """A batch whose games are at these boards."""
    batch = snake_ddp.Boards(len(states), **arguments)
    batch.reset(seed=1)
    state = batch.__getstate__()
    state["progress"]["states"] = states.tobytes()
    batch.__setstate__(state)
    return batch


def random_actions(batch, rng):
    return rng.integers(0, 4, (batch.num_boards, batch.acting), dtype=np.uint8)


@pytest.fixture
def rng():
    return np.random.default_rng(1)
