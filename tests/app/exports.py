"""Actors to export, the exported programs, and the platform's observations."""

import gzip
import importlib.util
import json

import numpy as np
import torch

from processes import DATA, call

UPSTREAM = DATA / "upstream_actor_2000.pth"
DIRECTIONS = ("up", "down", "left", "right")
torch.set_num_threads(1)


# Actors


def network(features, hidden=256, seed=1, kind="ddpg"):
    torch.manual_seed(seed)
    layers = {"prev_dense.0": torch.nn.Linear(features, hidden)}
    if kind == "bicnet":
        layers["comm_net.lstm"] = torch.nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
    layers |= {"post_dense.0": torch.nn.Linear(hidden * len(layers), hidden), "post_dense.2": torch.nn.Linear(hidden, 4)}
    return {f"{name}.{part}": value for name, layer in layers.items() for part, value in layer.state_dict().items()}


def q_network(features, hidden=32, norm=True, seed=1):
    torch.manual_seed(seed)
    layers = {"q_net.0": torch.nn.Linear(features, hidden), "q_net.1": torch.nn.Linear(hidden, hidden),
              "q_net.2": torch.nn.Linear(hidden, 4)}
    if norm:
        layers |= {f"norm_{i}": torch.nn.LayerNorm(hidden) for i in range(2)}
    return {f"{name}.{part}": value + 0.1 * torch.randn_like(value)
            for name, layer in layers.items() for part, value in layer.state_dict().items()}


def save_in_run(folder, weights, head="softmax", obs="30"):
    """An actor in a run's folder, whose config.json has the kind of its last layer and what it observes."""
    models = folder / "trained_model"
    models.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"output_activation": head, "obs": obs}))
    torch.save(weights, models / "actor_7.pth")
    return models / "actor_7.pth"


def export(actor, format, output, *more):
    done = call("export", "--actor", actor, "--format", format, "--output", output, *more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Wrote {output}"), done.stdout
    return output


def load_submission(folder):
    spec = importlib.util.spec_from_file_location("submission", folder / "submission.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The platform's observations


def recorded_boards():
    """Of each recorded game its boards, the start first."""
    games = []
    with gzip.open(DATA / "games.jsonl.gz", "rt") as file:
        for line in map(json.loads, file):
            if "game" in line:
                games.append([])
            games[-1].append(line)
    return games


BOARDS = recorded_boards()


def coordinates(cells):
    return [[cell // 20, cell % 20] for cell in cells]


def words(directions):
    return [DIRECTIONS[direction] for direction in directions]


class Platform:
    """Passes boards in the platform's way: the same lists at every step and to all six snakes, numbers of numpy's in
    the list of beans, directions that are a step old."""

    def __init__(self):
        self.lists = {key: [] for key in range(1, 8)}
        self.last_direction = None

    def show(self, beans, snakes, last_direction):
        self.lists[1][:] = [list(np.array(cell)) for cell in beans]
        for i, cells in enumerate(snakes):
            self.lists[2 + i][:] = [list(cell) for cell in cells]
        self.last_direction = last_direction

    def observation(self, snake):
        return {**self.lists, "board_width": 20, "board_height": 10, "last_direction": self.last_direction,
                "controlled_snake_index": 2 + snake}


with gzip.open(DATA / "platform_observations.jsonl.gz", "rt") as recordings:
    RECORDED = [json.loads(line) for line in recordings]


def shown(record, platform):
    """Shows a recorded board through `platform`; returns the observations of its six snakes."""
    observation = record["observation"]
    platform.show(observation["1"], [observation[str(key)] for key in range(2, 8)], observation["last_direction"])
    return [platform.observation(snake) for snake in range(6)]


def platform_observation(game, step, snake, swapped=False):
    """A board of a recorded game as the program of `snake` sees it; `swapped`: the teams changed places."""
    order = [3, 4, 5, 0, 1, 2] if swapped else range(6)
    board, platform = BOARDS[game][step], Platform()
    reported = words(BOARDS[game][step - 1]["directions"][i] for i in order) if step > 0 else None
    platform.show(coordinates(board["beans"]), [coordinates(board["snakes"][i]) for i in order], reported)
    return platform.observation(snake)
