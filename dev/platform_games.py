#!/usr/bin/env python3
"""Plays an exported submission on the platform's own environment, half of the games on each side.

  dev/platform_games.py --platform CHECKOUT --submission FOLDER [--against territory] [--games 200] [--seed 1]

FOLDER is what `snake_ddp export --format submission` wrote. Its opponent is a team of the package, named as for `snake_ddp eval`, or
the folder of another submission. Game k depends on the seed and k, but for the submission's own chance and time limit.
Needs an environment with the package (docs/python.md), torch and pillow. CHECKOUT is a working copy of the competition's repository
with its environment in `env`; you bring it yourself. It imports gym; gymnasium has all that it uses.
Prints each game, and last the result with the times of a step: of all three calls of a team.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import random
import sys
import time

import gymnasium
import numpy as np
import torch

import snake_ddp
from snake_ddp.state import COLUMNS, MOVES, ROWS, START_LENGTH, TEAM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from results import wilson  # noqa: E402

DIRECTIONS = ("up", "down", "left", "right")
# From a segment to the one before it, on the torus; a head has none. A snake that respawned across the border has two more.
LINKS = {(0, 0): 0, (ROWS - 1, 0): 0, (1, 0): 1, (0, COLUMNS - 1): 2, (0, 1): 3, (0, 2): 4, (2, 0): 5}


def cell_of(place):
    row, column = place
    return int(row) * COLUMNS + int(column)


def state_of(game):
    """The platform's board as snake_ddp.STATE."""
    state = np.zeros((), snake_ddp.STATE)
    for i, snake in enumerate(game.players):
        before = snake.segments[0]
        for place in snake.segments:
            difference = ((before[0] - place[0]) % ROWS, (before[1] - place[1]) % COLUMNS)
            state["cells"][cell_of(place)] = (i + 2) | LINKS[difference] << 3
            before = place
        state["heads"][i], state["tails"][i] = cell_of(snake.segments[0]), cell_of(snake.segments[-1])
        state["lengths"][i] = len(snake.segments)
        state["directions"][i] = DIRECTIONS.index(game.actions_name[snake.direction])
    for k, bean in enumerate(game.beans_position):
        state["cells"][cell_of(bean)] = 1
        state["beans"][k] = cell_of(bean)
    state["n_beans"], state["steps"] = len(game.beans_position), game.step_cnt
    state["returns"] = state["lengths"].reshape(2, TEAM).sum(1) - TEAM * START_LENGTH
    return state


class Submission:
    """A submission's folder; a fresh module for each game, as the platform starts it."""

    def __init__(self, folder):
        self.file, self.times = pathlib.Path(folder).resolve() / "submission.py", []

    def begin(self, number):
        spec = importlib.util.spec_from_file_location(f"submission_{number}", self.file)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)

    def moves(self, game, side):
        began = time.perf_counter()
        chosen = [self.module.my_controller(game.all_observes[i], game.joint_action_space[i], False)
                  for i in range(TEAM * side, TEAM * side + TEAM)]
        self.times.append(time.perf_counter() - began)
        return chosen


class Engine:
    """A team of the package. It makes the moves that it would make on the same board in a match."""

    def __init__(self, spec, seed):
        self.team, self.seed = snake_ddp.Team(spec), seed

    def begin(self, number):
        self.number = number

    def moves(self, game, side):
        moves = self.team.moves_on(state_of(game)[None], side, self.seed, self.number)[0]
        return [[np.eye(MOVES, dtype=int)[move].tolist()] for move in moves]


def play(game, teams):
    """The points of both sides."""
    while not game.is_terminal():
        game.step(teams[0].moves(game, 0) + teams[1].moves(game, 1))
    points = list(game.n_return)
    return sum(points[:TEAM]), sum(points[TEAM:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", required=True, metavar="CHECKOUT")
    parser.add_argument("--submission", required=True, metavar="FOLDER")
    parser.add_argument("--against", default="territory", metavar="TEAM", help="a team as for eval, or another submission's folder [territory]")
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="the result as one JSON object in the last line")
    asked = parser.parse_args()
    if asked.games < 1:
        parser.error("--games: at least 1")
    mine = Submission(asked.submission)
    other = Submission(asked.against) if os.path.isdir(asked.against) else Engine(asked.against, asked.seed)
    torch.set_num_threads(1)
    sys.modules |= {"gym": gymnasium, "gym.utils": gymnasium.utils}
    os.chdir(asked.platform)  # it reads env/config.json in the current folder
    sys.path.insert(0, os.getcwd())
    from env.chooseenv import make

    results, scores = [], np.zeros(2)
    for number in range(asked.games):
        random.seed(f"{asked.seed} {number}")  # the environment draws snakes from this one, beans from numpy's
        np.random.seed(random.getrandbits(32))
        for team in (mine, other):
            team.begin(number)
        side = number % 2
        points = play(make("snakes_3v3", conf=None), (mine, other) if side == 0 else (other, mine))
        scores += (points[side], points[1 - side])
        results.append(np.sign(points[side] - points[1 - side]))
        print(f"game {number} as team {'AB'[side]}: {points[side]} : {points[1 - side]}", flush=True)
    won, drawn, lost = (results.count(value) for value in (1, 0, -1))
    low, high = wilson(won / len(results), len(results))
    mean = scores / len(results)
    times = np.array(mine.times) * 1e3
    if asked.json:
        print(json.dumps({"games": len(results), "wins": won, "draws": drawn, "losses": lost, "win_rate_ci95": [low, high], "score_a": mean[0],
                          "score_b": mean[1], "ms": [np.median(times), np.percentile(times, 99), times.max()]}))
        return
    print(f"{asked.submission} against {asked.against}: {len(results)} games, {won} won, {drawn} drawn, {lost} lost, "
          f"{100 * won / len(results):.1f} % won ({100 * low:.1f} to {100 * high:.1f}), {mean[0]:.1f} : {mean[1]:.1f}")
    print(f"a step took {np.median(times):.0f} ms at the median, {np.percentile(times, 99):.0f} at the 99th percentile, "
          f"at most {times.max():.0f}")


if __name__ == "__main__":
    main()
