"""Plays snakes 3v3 on the platform: my_controller, with the network in the file beside this one.

Needs torch. Written by `snake_ddp export --format submission`.
"""

import gc
import os
import random
import sys

ACTOR_FILE = "@ACTOR_FILE@"
OUTPUT_ACTIVATION = "@OUTPUT_ACTIVATION@"  # softmax or tanh: the actor's last layer; values: a Q-network
CHOICE = "@CHOICE@"  # sampled: moves drawn from the probabilities; argmax: always the likeliest or most valuable move
MASK_FATAL = @MASK_FATAL@  # makes no move that is certain death, nor one back

TEAM = 3
SNAKES = 2 * TEAM
START_LENGTH = 3
BEANS = 5
ACTIONS = 4
UP, DOWN, LEFT, RIGHT = range(ACTIONS)
BACK = {UP: DOWN, DOWN: UP, LEFT: RIGHT, RIGHT: LEFT}
WORDS = ("up", "down", "left", "right")


def entry(observation, key, missing):
    """The platform's keys are numbers; where it went through JSON they are text."""
    value = observation.get(key, observation.get(str(key)))
    return missing if value is None else value


def copied(cells):
    """The platform goes on changing its lists, and its numbers may be numpy's, which overflow."""
    return [(int(row), int(column)) for row, column in cells]


def moved_on(body, before):
    """Is `body` what a move makes of the body `before`?"""
    return len(body) - len(before) in (0, 1) and len(before) > 0 and body[1:] == before[:len(body) - 1]


class Shown:
    """A copy of what the platform shows, and what it does not tell: present directions and the number of the step.

    `last` is what was shown before, or None. `last_direction` is older than the board: it has the directions before the
    move that led here.
    """

    def __init__(self, observation, last):
        self.height, self.width = int(entry(observation, "board_height", 10)), int(entry(observation, "board_width", 20))
        self.beans = copied(entry(observation, 1, []))
        self.snakes = [copied(entry(observation, 2 + i, [])) for i in range(SNAKES)]
        self.boards = {}  # by a team's first snake
        if last is not None and last.snakes == self.snakes:
            self.step, self.directions = last.step, last.directions
            return
        told = observation.get("last_direction")
        told = [WORDS.index(word) if word in WORDS else None for word in told] if isinstance(told, (list, tuple)) else []
        follows = last is not None and (sum(map(moved_on, self.snakes, last.snakes)) > 1 or told == last.directions)
        begins = not follows and all(len(snake) == START_LENGTH for snake in self.snakes)
        self.step = 1 if last is None or begins else last.step + 1  # the step that comes next
        self.directions = [self.direction(snake, last.snakes[i] if follows else None, told[i] if i < len(told) else None)
                           for i, snake in enumerate(self.snakes)]

    def __eq__(self, other):
        return other is not None and (self.beans, self.snakes, self.height, self.width) == (
            other.beans, other.snakes, other.height, other.width)

    def beside(self, cell, direction):
        dy, dx = ((-1, 0), (1, 0), (0, -1), (0, 1))[direction]
        return (cell[0] + dy) % self.height, (cell[1] + dx) % self.width

    def between(self, neck, head):
        return next((d for d in range(ACTIONS) if self.beside(neck, d) == head), None)

    def direction(self, body, before, told):
        """None: the snake has none."""
        if len(body) < 2:
            return None
        head, neck = body[:2]
        if not self.came_back(body, before, told):
            return self.between(neck, head)
        # The rule for bodies that come back compares rows and columns as if the board had borders.
        if head[0] == neck[0]:
            return RIGHT if head[1] > neck[1] else LEFT
        return DOWN if head[0] > neck[0] else UP

    def came_back(self, body, before, told):
        """In the last step, and not moved since."""
        if len(body) != START_LENGTH:
            return False
        earlier = self.between(body[2], body[1])
        if earlier is None:  # the head is in the middle
            return True
        if before is not None:
            return not moved_on(body, before)
        return told is not None and told != earlier


def around(difference, side):
    """A difference of coordinates on a circle: at most half the side stays, a larger one has the side taken off."""
    if difference > side // 2:
        return difference - side
    return difference + side if difference < -(side // 2) else difference


class Board:
    """What is shown, relabelled so that the snakes of the team that begins with snake `first` are 0, 1, 2."""

    def __init__(self, shown, first):
        order = [(first + i) % SNAKES for i in range(SNAKES)]
        self.height, self.width, self.beans, self.step = shown.height, shown.width, shown.beans, shown.step
        self.beside = shown.beside
        self.snakes = [shown.snakes[i] for i in order]
        self.directions = [shown.directions[i] for i in order]
        self.heads = [snake[0] if snake else (0, 0) for snake in self.snakes]
        self.leaves = {cell: len(snake) - k for snake in self.snakes for k, cell in enumerate(snake)}
        self.codes = {cell: code for code, cells in enumerate([self.beans] + self.snakes, 1) for cell in cells}
        self.later = None  # an Outlook
        self.answers = None  # the network's

    def open_moves(self, i):
        """Those that are not certain death, and not back; all four where none is left."""
        back = BACK.get(self.directions[i])
        moves = [d for d in range(ACTIONS) if d != back and self.leaves.get(self.beside(self.heads[i], d), 0) < 2]
        return moves or list(range(ACTIONS))

    def around_head(self, i):
        """0 empty, 1 bean, 2 to 7 snakes."""
        return [self.codes.get(self.beside(self.heads[i], d), 0) for d in range(ACTIONS)]

    def outlook(self):
        self.later = self.later or Outlook(self)
        return self.later

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
    kind = {}
    for j, snake in enumerate(board.snakes):
        if snake and j != i:
            kind[snake[0]] = "mate" if j < TEAM else "foe"
    kind.update((bean, "bean") for bean in board.beans)
    cells = [((row + dy) % board.height, (column + dx) % board.width)
             for dy in range(-REACH, REACH + 1) for dx in range(-REACH, REACH + 1)]
    values = [float(cell in board.leaves) for cell in cells] + [board.leaves.get(cell, 0) * 0.1 for cell in cells]
    for wanted in ("bean", "mate", "foe"):
        values += [float(kind.get(cell) == wanted) for cell in cells]
    beans = [value for dx, dy, _ in by_distance(board, i, board.beans)[:BEANS] for value in (dx * 0.2, dy * 0.2)]
    values += beans + [0] * (2 * BEANS - len(beans))
    for first, last in ((0, TEAM), (TEAM, SNAKES)):
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


class Outlook:
    """What all snakes of a board share of who reaches which cell first, around bodies that move on."""

    def __init__(self, board):
        self.sets = sets = CellSets(board.height, board.width)
        self.beans = sets.of(board.beans)
        self.blocked = [sets.of(cell for cell, steps in board.leaves.items() if steps > t) for t in range(HORIZON + 1)]
        self.reach = []  # by snake: the cells where its head can be after t steps
        for head, snake in zip(board.heads, board.snakes):
            cells = [sets.of([head]) if snake else 0]
            for t in range(1, HORIZON + 1):
                cells.append(cells[-1] | sets.spread(cells[-1]) & ~self.blocked[t])
            self.reach.append(cells)


def features_view(board, i):
    """The window, and what each move leads to."""
    outlook = board.outlook()
    sets, beans, blocked = outlook.sets, outlook.beans, outlook.blocked
    mates = [outlook.reach[j] for j in range(TEAM) if j != i]
    foes = outlook.reach[TEAM:]
    closed = [0] + [blocked[t] | foes[0][t] | foes[1][t] | foes[2][t] | mates[0][t - 1] | mates[1][t - 1]
                    for t in range(1, HORIZON + 1)]
    values = features_window(board, i)
    allowed = board.open_moves(i)
    for d in range(ACTIONS):
        start = sets.of([board.beside(board.heads[i], d)])
        if not board.snakes[i] or d == BACK.get(board.directions[i]) or start & blocked[1]:
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
        try:
            self.weights = torch.load(path, map_location="cpu", weights_only=True)
        except TypeError:  # before PyTorch 1.13
            self.weights = torch.load(path, map_location="cpu")
        first = "q_net.0.weight" if OUTPUT_ACTIVATION == "values" else "prev_dense.0.weight"
        hidden, features = self.weights[first].shape
        self.features = FEATURES[features]
        self.lstm = None  # a BiCNet's, along the team's snakes
        lstm = {name[len(LSTM):]: value for name, value in self.weights.items() if name.startswith(LSTM)}
        if lstm:
            self.lstm = torch.nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
            self.lstm.load_state_dict(lstm)
        # What does not fit together is found here, and the first move is as quick as the others.
        if self.answer([[0.0] * features] * TEAM).shape != (TEAM, ACTIONS):
            raise ValueError("not a network with four answers")

    def linear(self, name, values):
        return torch.nn.functional.linear(values, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def answer(self, rows):
        with torch.no_grad():
            hidden = torch.tensor(rows, dtype=torch.float32)
            if OUTPUT_ACTIVATION == "values":
                for layer in ("0", "1"):
                    hidden = self.linear("q_net." + layer, hidden)
                    norm = "norm_" + layer
                    if norm + ".weight" in self.weights:
                        hidden = torch.nn.functional.layer_norm(hidden, hidden.shape[1:], self.weights[norm + ".weight"],
                                                                self.weights[norm + ".bias"])
                    hidden = torch.relu(hidden)
                return self.linear("q_net.2", hidden)
            hidden = self.linear("prev_dense.0", hidden)
            if self.lstm is not None:
                hidden = self.lstm(hidden.unsqueeze(0))[0][0]
            hidden = torch.relu(self.linear("post_dense.0", hidden))
            logits = self.linear("post_dense.2", hidden)
            return torch.softmax(logits, -1) if OUTPUT_ACTIVATION == "softmax" else torch.tanh(logits)

    def __call__(self, board):
        """Weights or values of the moves of the team's snakes, [3][4]."""
        if board.answers is None:
            board.answers = self.answer([self.features(board, i) for i in range(TEAM)]).tolist()
        return board.answers


TOLD = set()


def tell(what, error):
    """On stderr, once for each kind of error: what is wrong in one step is wrong in the next."""
    if type(error) in TOLD:
        return
    TOLD.add(type(error))
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    why = (str(error).splitlines() or [""])[0]
    if sys.stderr is None:
        return
    try:
        print("submission.py: %s: %s: %s (%s, line %d)" % (what, type(error).__name__, why,
                                                          trace.tb_frame.f_code.co_filename, trace.tb_lineno),
              file=sys.stderr, flush=True)
    except (OSError, ValueError):  # closed; there is nobody to tell
        pass


ACTOR = None
try:
    import torch
    torch.set_num_threads(1)
    ACTOR = Actor(os.path.join(os.path.dirname(os.path.abspath(__file__)), ACTOR_FILE))
    if hasattr(gc, "freeze"):  # from Python 3.7 on
        gc.freeze()  # a full collection would go through all that torch made at import: 100 ms in the middle of a move
except Exception as error:
    tell("no network in %s: snakes only go to the nearest bean, not back and not into a body" % ACTOR_FILE, error)

LAST = None  # what was shown last
RANDOM = random.Random()  # its own: the platform draws its beans from the common one


def board_of(observation, snake):
    """The board as the team of `snake` sees it. A team's three calls share it."""
    global LAST
    shown = Shown(observation, LAST)
    LAST = LAST if shown == LAST else shown
    first = snake - snake % TEAM
    if first not in LAST.boards:
        LAST.boards[first] = Board(LAST, first)
    return LAST.boards[first]


def own_snake(observation):
    return int(entry(observation, "controlled_snake_index", None)) - 2


def values(observation):
    """What the network answers for the snake that `observation` controls: a Q-network's values of the four moves."""
    snake = own_snake(observation)
    return ACTOR(board_of(observation, snake))[snake % TEAM]


def probabilities(observation):
    """Of the four moves of the snake that `observation` controls, before any mask."""
    return shares(values(observation), range(ACTIONS))


def shares(weights, moves):
    """Probabilities of `moves`: negative weights count as 0, weights without a positive one as equal."""
    positive = [max(weights[move], 0.0) if move in moves else 0.0 for move in range(ACTIONS)]
    total = sum(positive)
    if not total > 0:
        return [float(move in moves) / len(moves) for move in range(ACTIONS)]
    return [weight / total for weight in positive]


def certain(move):
    return [float(move == action) for action in range(ACTIONS)]


def to_nearest_bean(board, i):
    def steps(move):
        row, column = board.beside(board.heads[i], move)
        return min((abs(around(bean[0] - row, board.height)) + abs(around(bean[1] - column, board.width))
                    for bean in board.beans), default=0)
    return certain(min(board.open_moves(i), key=steps))


def by_network(board, i):
    answers = ACTOR(board)[i]
    moves = board.open_moves(i) if MASK_FATAL else range(ACTIONS)
    return certain(max(moves, key=lambda move: answers[move])) if CHOICE == "argmax" else shares(answers, moves)


def chances(observation, snake):
    """Of the moves of `snake`. Never raises: a program that does loses the game."""
    try:
        if snake is None:
            snake = own_snake(observation)
        board = board_of(observation, snake)
        if ACTOR is not None:
            try:
                return by_network(board, snake % TEAM)
            except Exception as error:
                tell("the network failed: the snake goes to the nearest bean", error)
        return to_nearest_bean(board, snake % TEAM)
    except Exception as error:
        tell("cannot read the platform's observation: the move is up", error)
        return certain(UP)


def my_controller(observation, action_space, is_act_continuous=False):
    left = RANDOM.random()
    row = chances(observation, None)
    move = max(range(ACTIONS), key=lambda action: row[action])  # where rounding leaves a rest
    for action in range(ACTIONS):
        left -= row[action]
        if left < 0:
            move = action
            break
    return [[int(move == action) for action in range(ACTIONS)]]


# The repository's evaluation_local.py does not ask my_controller, but these two.


def get_observations(state, agents_index, obs_dim=None, height=None, width=None):
    return [chances(state, snake) for snake in agents_index]


class Agent:
    def choose_action(self, observations):
        return observations


agent = Agent()
