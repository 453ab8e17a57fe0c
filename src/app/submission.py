"""Plays snakes 3v3 on the platform: my_controller, with the network that lies beside this file.

Needs numpy and torch. Written by `snake_ddp export --format submission`.
"""

import os

import numpy as np
import torch

ACTOR_FILE = "@ACTOR_FILE@"
OUTPUT_ACTIVATION = "@OUTPUT_ACTIVATION@"  # softmax or tanh: the actor's last layer; values: a Q-network
CHOICE = "@CHOICE@"  # sampled: moves drawn from the probabilities; argmax: always the likeliest or most valuable move
MASK_FATAL = @MASK_FATAL@  # makes no move that is certain death, nor one back

TEAM = 3
BEANS = 5
ACTIONS = 4  # up, down, left, right
DIRECTIONS = ("up", "down", "left", "right")


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
        words = observation.get("last_direction", ["up"] * (2 * TEAM))
        self.directions = [DIRECTIONS.index(words[(first + i) % (2 * TEAM)]) for i in range(2 * TEAM)]
        self.step = 1  # number of the step that comes next

    def beside(self, cell, direction):
        dy, dx = ((-1, 0), (1, 0), (0, -1), (0, 1))[direction]
        return (cell[0] + dy) % self.height, (cell[1] + dx) % self.width

    def open_moves(self, i):
        """Those that are not certain death, and not back; all four where none is left."""
        stays = {cell for snake in self.snakes for cell in snake[:-1]}
        moves = [d for d in range(ACTIONS)
                 if d != self.directions[i] ^ 1 and self.beside(self.heads[i], d) not in stays]
        return moves or list(range(ACTIONS))

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


REACH = 3  # cells that the window goes from the head
HORIZON = 10  # steps that are looked ahead


def turned(difference, side):
    """A difference of coordinates on a circle, in (-side / 2, side / 2]."""
    difference %= side
    return difference - side if difference > side // 2 else difference


def by_distance(board, i, cells):
    """(dx, dy, place in cells) from the head of snake i, the nearest first."""
    row, column = board.heads[i]
    found = [(turned(cell[1] - column, board.width), turned(cell[0] - row, board.height), place)
             for place, cell in enumerate(cells)]
    return sorted(found, key=lambda at: (at[0] ** 2 + at[1] ** 2, at[1], at[0], len(board.snakes[at[2]]) if cells is board.heads else 0))


def features_window(board, i):
    row, column = board.heads[i]
    own_length = len(board.snakes[i])
    age, kind = {}, {}
    for j, snake in enumerate(board.snakes):
        for k, cell in enumerate(snake):
            age[cell] = len(snake) - k
        if snake and j != i:
            kind[snake[0]] = "mate" if j < TEAM else "foe"
    kind.update((bean, "bean") for bean in board.beans)
    cells = [((row + dy) % board.height, (column + dx) % board.width)
             for dy in range(-REACH, REACH + 1) for dx in range(-REACH, REACH + 1)]
    values = [float(cell in age) for cell in cells] + [age.get(cell, 0) * 0.1 for cell in cells]
    for wanted in ("bean", "mate", "foe"):
        values += [float(kind.get(cell) == wanted) for cell in cells]
    beans = [value for dx, dy, _ in by_distance(board, i, board.beans)[:BEANS] for value in (dx * 0.2, dy * 0.2)]
    values += beans + [0] * (2 * BEANS - len(beans))
    for first, last in ((0, TEAM), (TEAM, 2 * TEAM)):
        others = [at for at in by_distance(board, i, board.heads) if first <= at[2] < last and at[2] != i]
        values += [value for dx, dy, j in others for value in (dx * 0.2, dy * 0.2, (len(board.snakes[j]) - own_length) * 0.1)]
    lengths = [len(snake) for snake in board.snakes]
    return values + [float(board.directions[i] == d) for d in range(ACTIONS)] + [
        own_length * 0.1, board.step * 0.005, (sum(lengths[:TEAM]) - sum(lengths[TEAM:])) * 0.1]


class CellSets:
    """Sets of cells as the bits of whole numbers."""

    def __init__(self, height, width):
        self.height, self.width = height, width
        self.all = (1 << height * width) - 1
        self.first_column = sum(1 << row * width for row in range(height))
        self.last_column = self.first_column << width - 1

    def of(self, cells):
        return sum({1 << row * self.width + column for row, column in cells})

    def spread(self, x):
        width, turn = self.width, (self.height - 1) * self.width
        return (x | (x << width | x >> turn) & self.all | x >> width | (x << turn) & self.all
                | (x & ~self.last_column) << 1 | (x & self.last_column) >> width - 1
                | (x & ~self.first_column) >> 1 | (x & self.first_column) << width - 1)


def features_view(board, i):
    """The window, and what each move leads to: who reaches which cell first, around bodies that move on."""
    sets = CellSets(board.height, board.width)
    beans = sets.of(board.beans)
    leaves = {cell: len(snake) - k for snake in board.snakes for k, cell in enumerate(snake)}
    blocked = [sets.of(cell for cell, age in leaves.items() if age > t) for t in range(HORIZON + 1)]
    reach = []  # by snake: the cells where its head can be after t steps
    for j, snake in enumerate(board.snakes):
        reach.append([sets.of([board.heads[j]]) if snake else 0])
        for t in range(1, HORIZON + 1):
            reach[j].append(reach[j][-1] | sets.spread(reach[j][-1]) & ~blocked[t])
    mates = [reach[j] for j in range(TEAM) if j != i]
    foes = reach[TEAM:]
    closed = [0] + [blocked[t] | foes[0][t] | foes[1][t] | foes[2][t] | mates[0][t - 1] | mates[1][t - 1]
                    for t in range(1, HORIZON + 1)]
    values = features_window(board, i)
    allowed = board.open_moves(i)
    for d in range(ACTIONS):
        start = sets.of([board.beside(board.heads[i], d)])
        if not board.snakes[i] or d == board.directions[i] ^ 1 or start & blocked[1]:
            values += [float(d in allowed)] + [0] * 7
            continue
        both = []
        for shut in (blocked, closed):
            cells, first = start, 1 if start & beans else HORIZON + 1
            for t in range(2, HORIZON + 1):
                cells |= sets.spread(cells) & ~shut[t]
                if first > HORIZON and cells & beans:
                    first = t
            both.append((cells, (HORIZON + 1 - first) / (HORIZON + 1)))
        (room, bean), (territory, own_bean) = both
        values += [float(d in allowed), bin(room).count("1") * 0.01, bin(territory).count("1") * 0.02,
                   bin(territory & beans).count("1") * 0.2, bean, own_bean,
                   float(any(start & foe[1] for foe in foes)), float(any(start & mate[1] for mate in mates))]
    return values


LSTM = "comm_net.lstm."
FEATURES = {26: features_26, 30: features_30, 277: features_window, 309: features_view}


class Actor:
    def __init__(self, path):
        self.weights = torch.load(path, map_location="cpu")
        first = "q_net.0.weight" if OUTPUT_ACTIVATION == "values" else "prev_dense.0.weight"
        hidden, features = self.weights[first].shape
        self.features = FEATURES[features]
        self.lstm = None  # a BiCNet's, along the team's snakes
        lstm = {name[len(LSTM):]: value for name, value in self.weights.items() if name.startswith(LSTM)}
        if lstm:
            self.lstm = torch.nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
            self.lstm.load_state_dict(lstm)

    def linear(self, name, values):
        return torch.nn.functional.linear(values, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def values(self, board, i):
        """What the moves of snake i are worth, [4]."""
        with torch.no_grad():
            hidden = torch.tensor(self.features(board, i), dtype=torch.float32)
            for layer in ("0", "1"):
                hidden = self.linear("q_net." + layer, hidden)
                if f"norm_{layer}.weight" in self.weights:
                    hidden = torch.nn.functional.layer_norm(hidden, hidden.shape, self.weights[f"norm_{layer}.weight"],
                                                            self.weights[f"norm_{layer}.bias"])
                hidden = torch.relu(hidden)
            return self.linear("q_net.2", hidden).numpy()

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


class Clock:
    """Counts the steps of the game that is shown: observations do not tell them."""

    def __init__(self):
        self.snakes, self.step = [], 0

    def tell(self, snakes):
        if snakes != self.snakes:
            moved_on = sum(len(new) > 1 and old != [] and new[1] == old[0] for old, new in zip(self.snakes, snakes))
            begins = moved_on < 2 and all(len(snake) == 3 for snake in snakes)
            self.snakes, self.step = snakes, 1 if begins else self.step + 1
        return self.step


CLOCK = Clock()


def shown(observation):
    board = Board(observation)
    board.step = CLOCK.tell([[tuple(cell) for cell in observation[2 + i]] for i in range(2 * TEAM)])
    return board


def probabilities(observation):
    """Of the four moves of the snake that `observation` controls."""
    board = shown(observation)
    return ACTOR(board)[board.me]


def values(observation):
    """What a Q-network holds the four moves to be worth."""
    board = shown(observation)
    return ACTOR.values(board, board.me)


def my_controller(observation, action_space, is_act_continuous=False):
    weights = (values if OUTPUT_ACTIVATION == "values" else probabilities)(observation)
    board = shown(observation)
    moves = board.open_moves(board.me) if MASK_FATAL else list(range(ACTIONS))
    if CHOICE == "argmax":
        move = max(moves, key=lambda action: weights[action])
    else:
        chances = [max(float(weights[action]), 0.0) for action in moves]
        if not sum(chances) > 0:
            chances = [1.0] * len(moves)
        move = moves[min(int(np.searchsorted(np.cumsum(chances), np.random.random_sample() * sum(chances), side="right")),
                         len(moves) - 1)]
    return [[int(move == action) for action in range(ACTIONS)]]
