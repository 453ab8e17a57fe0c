"""Plays snakes 3v3 on the platform: my_controller, with the actor that lies beside this file.

Needs numpy and torch. Written by `snake_ddp export --format submission`.
"""

import os

import numpy as np
import torch

ACTOR_FILE = "@ACTOR_FILE@"
OUTPUT_ACTIVATION = "@OUTPUT_ACTIVATION@"  # softmax or tanh: the actor's last layer
CHOICE = "@CHOICE@"  # sampled: moves drawn from the probabilities; argmax: always the likeliest move

TEAM = 3
BEANS = 5
ACTIONS = 4  # up, down, left, right


def around(difference, side):
    """A difference of coordinates on a circle: at most half the side stays, a larger one has the side taken off."""
    if difference > side // 2:
        return difference - side
    return difference + side if difference < -(side // 2) else difference


class Board:
    """What the platform shows, relabelled so that the own team's snakes are 0, 1, 2."""

    def __init__(self, observation):
        self.height, self.width = observation["board_height"], observation["board_width"]
        own = observation["controlled_snake_index"] - 2
        self.me = own % TEAM  # the place in the team
        first = own - self.me
        self.beans = [tuple(cell) for cell in observation[1]]
        self.snakes = [[tuple(cell) for cell in observation[2 + (first + i) % (2 * TEAM)]] for i in range(2 * TEAM)]
        self.heads = [snake[0] if snake else (0, 0) for snake in self.snakes]
        self.codes = np.zeros((self.height, self.width), dtype=np.int64)  # 0 empty, 1 bean, 2 to 7 snakes
        for code, cells in enumerate([self.beans, *self.snakes], start=1):
            for cell in cells:
                self.codes[cell] = code

    def around_head(self, i):
        row, column = self.heads[i]
        return [self.codes[(row + dy) % self.height, (column + dx) % self.width]
                for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1))]

    def bean_cells(self):
        return [value for cell in (self.beans + [(0, 0)] * BEANS)[:BEANS] for value in cell]

    def offset(self, i, cell):
        """dx, dy from the head of snake i on the torus."""
        row, column = self.heads[i]
        return around(cell[1] - column, self.width), around(cell[0] - row, self.height)

    def two_nearest_beans(self, i):
        found = sorted((dx * dx + dy * dy, order, dx, dy)
                       for order, (dx, dy) in enumerate(self.offset(i, bean) for bean in self.beans))[:2]
        values = [value for squared, _, dx, dy in found for value in (dx, dy, squared ** 0.5)]
        return values + [0, 0, 40] * (2 - len(found))

    def threat(self, i, other):
        dx, dy = self.offset(i, self.heads[other])
        return 1 / ((dx * dx + dy * dy) ** 0.5 + 1e-8 + 1) * (len(self.snakes[other]) / 3)


def features_26(board, i):
    others = [head for j, head in enumerate(board.heads) if j != i]
    return [*board.heads[i], *board.around_head(i), *board.bean_cells(), *(value for head in others for value in head)]


def features_30(board, i):
    mates = [j for j in range(TEAM) if j != i]
    return [*board.heads[i], *board.around_head(i), *board.two_nearest_beans(i), *(board.threat(i, j) for j in mates),
            *board.bean_cells(), 0, 0, *(value for j in mates for value in board.heads[j])]


LSTM = "comm_net.lstm."
FEATURES = {26: features_26, 30: features_30}


class Actor:
    def __init__(self, path):
        self.weights = torch.load(path, map_location="cpu")
        hidden, features = self.weights["prev_dense.0.weight"].shape
        self.features = FEATURES[features]
        self.lstm = None  # a BiCNet's, along the team's snakes
        lstm = {name[len(LSTM):]: value for name, value in self.weights.items() if name.startswith(LSTM)}
        if lstm:
            self.lstm = torch.nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
            self.lstm.load_state_dict(lstm)

    def linear(self, name, values):
        return torch.nn.functional.linear(values, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def __call__(self, board):
        """Probabilities of the moves of the team's snakes, [3, 4]."""
        rows = np.array([self.features(board, i) for i in range(TEAM)], dtype=np.float32)
        with torch.no_grad():
            hidden = self.linear("prev_dense.0", torch.from_numpy(rows))
            if self.lstm is not None:
                hidden = self.lstm(hidden.unsqueeze(0))[0][0]
            hidden = torch.relu(self.linear("post_dense.0", hidden))
            logits = self.linear("post_dense.2", hidden)
        if OUTPUT_ACTIVATION == "softmax":
            return torch.softmax(logits, -1).numpy()
        weights = torch.relu(torch.tanh(logits)).numpy()  # negative ones count as 0, four of them as four equal ones
        total = weights.sum(-1, keepdims=True)
        return np.where(total > 0, weights / np.where(total > 0, total, 1), np.float32(1 / ACTIONS))


ACTOR = Actor(os.path.join(os.path.dirname(os.path.abspath(__file__)), ACTOR_FILE))


def probabilities(observation):
    """Of the four moves of the snake that `observation` controls."""
    board = Board(observation)
    return ACTOR(board)[board.me]


def my_controller(observation, action_space, is_act_continuous=False):
    chances = probabilities(observation)
    if CHOICE == "argmax":
        move = int(chances.argmax())
    else:
        move = int(np.searchsorted(np.cumsum(chances[:-1]), np.random.random_sample(), side="right"))
    return [[int(move == action) for action in range(ACTIONS)]]
