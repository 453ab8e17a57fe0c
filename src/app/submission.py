"""Plays snakes 3v3 on the platform: my_controller, with the network in the file beside this one.

Needs torch, and numpy to look ahead. Written by `snake_ddp export --format submission`.
"""

import collections
import functools
import gc
import itertools
import math
import os
import random
import sys
import time
import types

try:
    import numpy
except ImportError:  # reported where it is needed
    numpy = None

ACTOR_FILE = "@ACTOR_FILE@"
OUTPUT_ACTIVATION = "@OUTPUT_ACTIVATION@"  # softmax or tanh: the actor's last layer; values: a Q-network
CHOICE = "@CHOICE@"  # sampled: moves drawn from the probabilities; argmax: always the likeliest or most valuable move
MASK_FATAL = @MASK_FATAL@  # makes no move that is certain death, nor one back
LOOK_AHEAD = @LOOK_AHEAD@  # searches; a Q-network can
HEADING_UP = @HEADING_UP@  # what a snake sees is turned so that its heading is up
DISCOUNT = @DISCOUNT@  # of values after a step
POINT = @POINT@  # the difference of the teams' values where a snake is to gain a point on a foe

TEAM = 3
SNAKES = 2 * TEAM
START_LENGTH = 3
BEANS = 5
ACTIONS = 4
UP, DOWN, LEFT, RIGHT = range(ACTIONS)
BACK = {UP: DOWN, DOWN: UP, LEFT: RIGHT, RIGHT: LEFT}
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # rows, columns
WORDS = ("up", "down", "left", "right")
# By heading: the directions ahead, back, to the left, to the right; and which of these four each direction is.
DIRECTIONS = ((UP, DOWN, LEFT, RIGHT), (DOWN, UP, RIGHT, LEFT), (LEFT, RIGHT, DOWN, UP), (RIGHT, LEFT, UP, DOWN))
MOVES = tuple(tuple(map(directions.index, range(ACTIONS))) for directions in DIRECTIONS)

# What the platform shows


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

    `recent` is what was shown before, the newest first, perhaps of several games. `last_direction` is older than the board: it has
    the directions before the move that led here.
    """

    def __init__(self, observation, recent):
        self.height, self.width = int(entry(observation, "board_height", 10)), int(entry(observation, "board_width", 20))
        self.beans = copied(entry(observation, 1, []))
        self.snakes = [copied(entry(observation, 2 + i, [])) for i in range(SNAKES)]
        self.boards = {}  # by a team's first snake
        # Snakes that go in circles look as they did some steps ago: the newest board that explains this one counts.
        known = next((shown for shown in recent if shown.snakes == self.snakes or self.follows(shown)), None)
        if known is not None and known.snakes == self.snakes:
            self.step, self.directions = known.step, known.directions
            return
        given = observation.get("last_direction")
        given = [WORDS.index(word) if word in WORDS else None for word in given] if isinstance(given, (list, tuple)) else []
        newest = recent[0] if recent else None
        before = known if known is not None or newest is None or given != newest.directions else newest
        begins = before is None and all(len(snake) == START_LENGTH for snake in self.snakes)
        last = before or newest
        # The step that comes next. No game is longer: then this is another one, whose start was not shown.
        self.step = 1 if last is None or begins or last.step >= LAST_STEP else last.step + 1
        self.directions = [self.direction(snake, before and before.snakes[i], given[i] if i < len(given) else None)
                           for i, snake in enumerate(self.snakes)]

    def board(self, first):
        """As the team sees it that begins with snake `first`; the team's three calls share it."""
        if first not in self.boards:
            self.boards[first] = Board(self, first)
        return self.boards[first]

    def follows(self, shown):
        return sum(map(moved_on, self.snakes, shown.snakes)) > 1

    def __eq__(self, other):
        return (self.beans, self.snakes, self.step, self.height, self.width) == (
            other.beans, other.snakes, other.step, other.height, other.width)

    def beside(self, cell, direction):
        dy, dx = STEPS[direction]
        return (cell[0] + dy) % self.height, (cell[1] + dx) % self.width

    def between(self, neck, head):
        return next((d for d in range(ACTIONS) if self.beside(neck, d) == head), None)

    def direction(self, body, before, given):
        """None: the snake has none."""
        if len(body) < 2:
            return None
        head, neck = body[:2]
        if not self.came_back(body, before, given):
            return self.between(neck, head)
        # The rule for bodies that come back compares rows and columns as if the board had borders.
        if head[0] == neck[0]:
            return RIGHT if head[1] > neck[1] else LEFT
        return DOWN if head[0] > neck[0] else UP

    def came_back(self, body, before, given):
        """In the last step, and not moved since."""
        if len(body) != START_LENGTH:
            return False
        earlier = self.between(body[2], body[1])
        if earlier is None:  # the head is in the middle
            return True
        if before is not None:
            return not moved_on(body, before)
        return given is not None and given != earlier


def around(difference, side):
    """A difference of coordinates on a circle: at most half the side stays, a larger one has the side taken off."""
    if difference > side // 2:
        return difference - side
    return difference + side if difference < -(side // 2) else difference


class Board:
    """What is shown, relabelled so that the snakes of the team that begins with snake `first` are 0, 1, 2."""

    def __init__(self, shown, first):
        self.shown, self.first = shown, first
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
        self.moves = None  # the team's, once it has looked ahead

    def open_moves(self, i):
        """Those that are not certain death, and not back; all four where none is left."""
        back = BACK.get(self.directions[i])
        moves = [d for d in range(ACTIONS) if d != back and self.leaves.get(self.beside(self.heads[i], d), 0) < 2]
        return moves or list(range(ACTIONS))

    def up(self, i):
        """The direction that is up in what snake i sees."""
        return self.directions[i] if HEADING_UP and self.directions[i] is not None else UP

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


# What the network sees


def features_26(board, i):
    others = [head for j, head in enumerate(board.heads) if j != i]
    return [*board.heads[i], *board.around_head(i), *board.bean_cells(), *(value for head in others for value in head)]


def features_30(board, i):
    mates = [j for j in range(TEAM) if j != i]
    return [*board.heads[i], *board.around_head(i), *board.two_nearest_beans(i), *(board.threat(i, j) for j in mates),
            *board.bean_cells(), 0, 0, *(value for j in mates for value in board.heads[j])]


REACH = 3  # cells that the window goes from the head
HORIZON = 10  # steps that are looked ahead
WINDOW = 277  # features of the window
OF_MOVE = 8  # those of each move, which the view has besides


def turned(difference, side):
    """A difference of coordinates on a circle, in (-side / 2, side / 2]; numbers or arrays."""
    difference = difference % side
    return difference - side * (difference > side // 2)


def seen_around(up, row, column, height, width):
    """The cells of the window around a cell, from its top left corner on; numbers or arrays."""
    (down_rows, down_columns), (right_rows, right_columns) = STEPS[DIRECTIONS[up][DOWN]], STEPS[DIRECTIONS[up][RIGHT]]
    return [((row + dy * down_rows + dx * right_rows) % height, (column + dy * down_columns + dx * right_columns) % width)
            for dy in range(-REACH, REACH + 1) for dx in range(-REACH, REACH + 1)]


def offset(up, rows, columns, height, width):
    """(dx, dy) of what is `rows` below and `columns` to the right on the board, for a snake that sees `up` at the top."""
    sign = 1 if up in (UP, RIGHT) else -1
    if up in (UP, DOWN):
        return turned(sign * columns, width), turned(sign * rows, height)
    return turned(sign * rows, height), turned(-sign * columns, width)


def by_distance(board, i, cells):
    """(dx, dy, place in cells) from the head of snake i, the nearest first."""
    row, column = board.heads[i]
    found = [offset(board.up(i), cell[0] - row, cell[1] - column, board.height, board.width) + (place,)
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
    cells = seen_around(board.up(i), row, column, board.height, board.width)
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
    for d in DIRECTIONS[board.up(i)]:
        start = sets.of([board.beside(board.heads[i], d)])
        if not board.snakes[i] or d == BACK.get(board.directions[i]) or start & blocked[1]:
            values += [float(d in allowed)] + [0] * (OF_MOVE - 1)
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


# The network


LSTM = "comm_net.lstm."
FEATURES = {26: features_26, 30: features_30, WINDOW: features_window, WINDOW + ACTIONS * OF_MOVE: features_view}


class Actor:
    def __init__(self, path):
        try:
            self.weights = torch.load(path, map_location="cpu", weights_only=True)
        except TypeError:  # before PyTorch 1.13
            self.weights = torch.load(path, map_location="cpu")
        # float32 as exported, unless the script was written beside a file of another type
        self.weights = {name: weight.float() for name, weight in self.weights.items()}
        first = "q_net.0.weight" if OUTPUT_ACTIVATION == "values" else "prev_dense.0.weight"
        hidden, features = self.weights[first].shape
        self.features = FEATURES[features]
        self.lstm = None  # a BiCNet's, along the team's snakes
        lstm = {name[len(LSTM):]: value for name, value in self.weights.items() if name.startswith(LSTM)}
        if lstm:
            self.lstm = torch.nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
            self.lstm.load_state_dict(lstm)
        self.sees = features
        # What does not fit together is found here, and the first move is as quick as the others.
        if self.answer([[0.0] * features] * TEAM).shape != (TEAM, ACTIONS):
            raise ValueError("not a network with four answers")

    def linear(self, name, values):
        return torch.nn.functional.linear(values, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def answer(self, rows):
        with torch.no_grad():
            hidden = torch.as_tensor(rows, dtype=torch.float32)
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
            answers = self.answer([self.features(board, i) for i in range(TEAM)]).tolist()
            board.answers = [[by_move[move] for move in MOVES[board.up(i)]] for i, by_move in enumerate(answers)]
        return board.answers


# The game's rules


class Position:
    """A board of the game, for play ahead. A cell is row * width + column; bodies are bytes of cells, the head first."""

    __slots__ = ("snakes", "directions", "beans", "step", "done")

    def __init__(self, snakes, directions, beans, step, done=False):
        self.snakes, self.directions, self.beans, self.step, self.done = snakes, directions, beans, step, done


class Torus:
    """A board's size, and what follows from it. Cells fit a byte."""

    def __init__(self, height, width):
        self.height, self.width = height, width
        self.cells = bytes(range(height * width))
        self.beside = [bytes((row + dy) % height * width + (column + dx) % width for row in range(height) for column in range(width))
                       for dy, dx in STEPS]
        self.single = [bytes([cell]) for cell in self.cells]

    def position(self, shown):
        numbers = [[row * self.width + column for row, column in cells] for cells in [shown.beans] + shown.snakes]
        return Position([bytes(cells) for cells in numbers[1:]], list(shown.directions), numbers[0], shown.step)

    def shown(self, position):
        """As a Board takes it."""
        beans, *snakes = [[divmod(cell, self.width) for cell in cells] for cells in [position.beans] + position.snakes]
        return types.SimpleNamespace(height=self.height, width=self.width, beans=beans, snakes=snakes, step=position.step,
                                     directions=position.directions, beside=functools.partial(Shown.beside, self))


def come_back(torus, taken):
    """The body, and its direction, of a dead snake on a board where the cells `taken` are not free; ([], None) without room."""
    taken = set(taken)
    for start in torus.cells:
        if start in taken:
            continue
        taken.add(start)
        found = [start]
        for cell in found:  # grows meanwhile
            for direction in (RIGHT, DOWN, UP, LEFT):
                beside = torus.beside[direction][cell]
                if beside not in taken:
                    taken.add(beside)
                    found.append(beside)
            if len(found) >= START_LENGTH:
                break
        else:
            continue
        at = [divmod(cell, torus.width) for cell in found[:START_LENGTH]]
        if at[0] in ((at[1][0], at[2][1]), (at[2][0], at[1][1])):  # the corner's cell goes into the middle
            at[0], at[1] = at[1], at[0]
        (row, column), neck = at[:2]
        direction = (RIGHT if column > neck[1] else LEFT) if row == neck[0] else (DOWN if row > neck[0] else UP)
        return bytes(row * torus.width + column for row, column in at), direction
    return b"", None


def play(torus, position, moves, chance):
    """The position after a step, the six snakes' rewards, and whether the step was left to chance.

    chance.turn(i, back): the direction that snake i takes instead of one back; chance.bean(k, free): the cell of the k-th
    new bean, one of `free`.
    """
    snakes, beans, directions, rewards, drawn = [], position.beans, list(moves), [0] * SNAKES, False
    for i, snake in enumerate(position.snakes):
        direction = moves[i]
        if direction ^ 1 == position.directions[i]:
            directions[i] = direction = chance.turn(i, direction)
            drawn = True
        head = torus.beside[direction][snake[0]]
        if head in beans:
            beans = [bean for bean in beans if bean != head]
            rewards[i] = 1
            snakes.append(torus.single[head] + snake)
        else:
            snakes.append(torus.single[head] + snake[:-1])
    cells = b"".join(snakes)
    dead = [i for i, snake in enumerate(snakes) if cells.count(snake[0]) > 1]
    if dead:
        for i in dead:
            rewards[i] += START_LENGTH - len(snakes[i])
            snakes[i] = b""
        for i in dead:
            snakes[i], direction = come_back(torus, itertools.chain(beans, *snakes))
            directions[i] = directions[i] if direction is None else direction
        cells = b"".join(snakes)
    done = position.step >= LAST_STEP or BEANS + len(cells) > len(torus.cells) or not all(snakes)
    if len(beans) < BEANS:
        free = torus.cells.translate(None, cells + bytes(beans))
        beans, drawn = list(beans), drawn or len(free) > 0
        for k in range(min(BEANS - len(beans), len(free))):
            bean = chance.bean(k, free)
            beans.append(bean)
            free = free.replace(torus.single[bean], b"")
    return Position(snakes, directions, beans, position.step + 1, done), rewards, drawn


# What the network sees of many boards at once


MATES = ((1, 2), (0, 2), (0, 1), (4, 5), (3, 5), (3, 4))
FOES = ((3, 4, 5),) * TEAM + ((0, 1, 2),) * TEAM


if numpy is not None:  # it converts Python's numbers at each use
    ONE, TWO, FOUR, TWENTY_FOUR, FIVES, THREES, NIBBLES, ONES = map(numpy.uint32, (
        1, 2, 4, 24, 0x55555555, 0x33333333, 0x0F0F0F0F, 0x01010101))


class Views(Torus):
    """features_window and features_view of all six snakes of many positions, with numpy: the same numbers in a fraction of the time.

    A set of cells is a word for each row, with a bit for each column; the rows are the first axis, snakes come before boards. No
    snake is empty. A board's cells lie in rows of 32, in the order in which numpy packs bits. Sides are 4 to 31: in a window of a board
    with a smaller one the own head is seen again.
    """

    def __init__(self, height, width):
        super().__init__(height, width)
        nowhere = height * width  # the cell of a bean that is missing
        rows, columns = numpy.divmod(numpy.arange(nowhere), width)
        ups = range(ACTIONS) if HEADING_UP else (UP,)
        self.place = numpy.append(rows * 32 + (columns ^ 7), 31 ^ 7)
        self.window = numpy.stack([numpy.stack([self.place[row * width + column]
                                                for row, column in seen_around(up, rows, columns, height, width)], 1) for up in ups])
        self.targets = numpy.array([list(beside) for beside in self.beside]).T  # [cells, 4]
        self.row, self.bit = rows, (1 << columns).astype(numpy.uint32)
        # From a head, where a direction is up: distance, dy and dx as one number.
        self.near = numpy.full((len(ups), nowhere, nowhere + 1), 1 << 20 | 16 << 5 | 16)
        for up in ups:
            dx, dy = offset(up, rows - rows[:, None], columns - columns[:, None], height, width)
            self.near[up, :, :nowhere] = dx * dx + dy * dy << 10 | dy + 16 << 5 | dx + 16
        offsets = numpy.arange(1 << 10)
        self.offset = numpy.stack([((offsets & 31) - 16) * 0.2, ((offsets >> 5) - 16) * 0.2], 1).astype(numpy.float32)  # by near's last bits
        self.tenths = ((numpy.arange(nowhere + 1 << 2) >> 2) * 0.1).astype(numpy.float32)  # by what a cell has
        self.same = numpy.eye(ACTIONS, dtype=numpy.float32)
        self.across, self.columns = numpy.uint32(width - 1), numpy.uint32((1 << width) - 1)

    def features(self, positions, of_moves):
        """[positions, 6, features], and whether moves are open [positions, 6, 4]."""
        n, nowhere = len(positions), self.height * self.width
        snakes = [snake for p in positions for snake in p.snakes]
        body = numpy.frombuffer(b"".join(snakes), numpy.uint8)
        length = numpy.array([len(snake) for snake in snakes])
        end = length.cumsum()
        owner = numpy.repeat(numpy.arange(len(snakes)), length)
        head = body[end - length].astype(int).reshape(n, SNAKES)
        length = length.reshape(n, SNAKES)
        heading = headings(positions)
        up = heading if HEADING_UP else numpy.full_like(heading, UP)
        bean = numpy.array([(p.beans + [nowhere] * BEANS)[:BEANS] for p in positions])
        # Of a cell: four times the steps until a segment is gone, and 1 or 2 for a head of that team or 3 for a bean.
        board = numpy.arange(n)[:, None] * (32 * self.height)
        has = numpy.zeros(n * 32 * self.height, numpy.int16)
        has[self.place[body] + board[owner // SNAKES, 0]] = end[owner] - numpy.arange(len(body)) << 2
        at = self.place[head] + board
        has[at] |= numpy.array([1] * TEAM + [2] * TEAM, numpy.int16)
        has[self.place[bean] + board] |= 3

        seen = numpy.zeros((n, SNAKES, WINDOW + ACTIONS * OF_MOVE * of_moves), numpy.float32)
        window = has[self.window[up, head] + board[:, :, None]]
        cells = window.shape[2]
        seen[:, :, :cells] = window > 3
        seen[:, :, cells:2 * cells] = self.tenths[window]
        window &= 3
        seen[:, :, 2 * cells:3 * cells] = window == 3
        for team, their in ((1, slice(TEAM)), (2, slice(TEAM, SNAKES))):
            seen[:, their, 3 * cells:4 * cells] = window[:, their] == team
            seen[:, their, 4 * cells:5 * cells] = window[:, their] == 3 - team
        seen[:, :, 3 * cells + cells // 2] = 0  # the own head
        column = 5 * cells
        near = numpy.sort(self.near[up[:, :, None], head[:, :, None], bean[:, None]], 2)
        seen[:, :, column:column + 2 * BEANS] = self.offset[near & 1023].reshape(n, SNAKES, -1)
        column += 2 * BEANS
        for others in (numpy.array(MATES), numpy.array(FOES)):
            near = numpy.sort(self.near[up[:, :, None], head[:, :, None], head[:, others]] << 8 | length[:, others], 2)
            part = seen[:, :, column:column + 3 * near.shape[2]].reshape(n, SNAKES, -1, 3)
            part[..., :2] = self.offset[near >> 8 & 1023]
            part[..., 2] = ((near & 255) - length[:, :, None]) * 0.1
            seen[:, :, column:column + 3 * near.shape[2]] = part.reshape(n, SNAKES, -1)
            column += 3 * near.shape[2]
        seen[:, :, column:column + ACTIONS] = self.same[heading]
        column += ACTIONS
        lead = (length[:, :TEAM].sum(1) - length[:, TEAM:].sum(1)) * 0.1
        seen[:, :, column] = length * 0.1
        seen[:, :, column + 1] = numpy.array([p.step for p in positions])[:, None] * 0.005
        seen[:, :TEAM, column + 2] = lead[:, None]
        seen[:, TEAM:, column + 2] = -lead[:, None]

        target = self.targets[head]
        survives = (has[self.place[target] + board[:, :, None]] < 8) & (numpy.arange(ACTIONS) != (heading ^ 1)[..., None])
        is_open = survives | ~survives.any(2, keepdims=True)
        if of_moves:
            by_direction = self.of_moves(has.reshape(n, -1), head.T, target.transpose(2, 1, 0), survives.transpose(2, 1, 0))
            by_direction[0] = is_open.transpose(2, 1, 0)
            by_move = numpy.take_along_axis(by_direction.transpose(3, 2, 1, 0), numpy.array(DIRECTIONS)[up][..., None], 2)
            seen[:, :, WINDOW:] = by_move.reshape(n, SNAKES, -1)
        return seen, is_open

    def sets(self, cells):
        """Of truth values [..., boards, cells of a board]; [..., rows, boards]."""
        words = numpy.packbits(cells, axis=-1).view("<u4")
        return numpy.ascontiguousarray(numpy.moveaxis(words, -1, -2), numpy.uint32)

    def singles(self, cells):
        """A set for each of the cells [k]."""
        sets = numpy.zeros((self.height, len(cells)), numpy.uint32)
        sets[self.row[cells], numpy.arange(len(cells))] = self.bit[cells]
        return sets

    def flood(self, sets, free):
        """Goes a step on free cells for each of `free`; yields the cells reached so far, always in the same array."""
        # The first row once more after the last, and the last before the first: a whole row of cells is shifted at once.
        rows = numpy.empty((self.height + 2,) + sets.shape[1:], numpy.uint32)
        reached, above, below, first, last, top, bottom = rows[1:-1], rows[:-2], rows[2:], rows[1], rows[-2], rows[0], rows[-1]
        beside, one_way = numpy.empty_like(reached), numpy.empty_like(reached)
        reached[:] = sets
        for allowed in free:
            top[...], bottom[...] = last, first
            numpy.bitwise_or(above, below, beside)
            for shift, columns in ((numpy.left_shift, ONE), (numpy.right_shift, ONE), (numpy.left_shift, self.across), (numpy.right_shift, self.across)):
                shift(reached, columns, one_way)
                numpy.bitwise_or(beside, one_way, beside)
            numpy.bitwise_and(beside, allowed, beside)
            numpy.bitwise_or(reached, beside, reached)
            yield reached

    def of_moves(self, has, head, target, survives):
        """As Outlook and features_view have it, with a flood for each move: [OF_MOVE, 4, 6, boards], without the first."""
        n, steps = len(has), numpy.arange(HORIZON + 1, dtype=numpy.int16)[:, None, None]
        unblocked = ~self.sets(has > (steps << 2 | 3)) & self.columns  # [steps, rows, boards]
        free = numpy.empty((HORIZON + 1, self.height, 2, SNAKES, n), numpy.uint32)  # for a snake: of bodies; and of all others
        free[:] = unblocked[:, :, None, None]
        reach = numpy.empty((HORIZON + 1, self.height, SNAKES * n), numpy.uint32)
        reach[0] = self.singles(head.ravel())
        for now, reached in zip(reach[1:], self.flood(reach[0], free[1:, :, 0].reshape(HORIZON, self.height, -1))):
            now[:] = reached
        a, b, c, d, e, f = (reach[:, :, i * n:(i + 1) * n] for i in range(SNAKES))
        bc, ef = b | c, e | f
        mates = bc, a | c, a | b, ef, d | f, d | e
        ours, theirs = a | bc, d | ef
        free[:, :, 1, :TEAM] &= ~theirs[:, :, None]
        free[:, :, 1, TEAM:] &= ~ours[:, :, None]
        for i in range(SNAKES):
            free[1:, :, 1, i] &= ~mates[i][:-1]
        free = free.reshape(HORIZON + 1, self.height, 1, -1)

        start = self.singles(target.ravel())
        start[:, ~survives.ravel()] = 0
        start = start.reshape(self.height, ACTIONS, -1)
        bean = numpy.tile(self.sets(has & 3 == 3)[:, None], (1, ACTIONS, 2 * SNAKES))
        cells = numpy.concatenate([start, start], 2)
        met = numpy.empty((HORIZON, ACTIONS, cells.shape[2]), numpy.uint32)  # beans, by steps
        numpy.bitwise_or.reduce(cells & bean, out=met[0])
        for now, cells in zip(met[1:], self.flood(cells, free[2:])):
            numpy.bitwise_or.reduce(cells & bean, out=now)
        out, middle = numpy.empty((OF_MOVE, ACTIONS, SNAKES * n), numpy.float32), SNAKES * n
        room = count(cells)
        out[1], out[2] = room[:, :middle] * 0.01, room[:, middle:] * 0.02
        out[3] = count(cells[..., middle:] & bean[..., middle:]) * 0.2
        near = (met != 0).sum(0) / (HORIZON + 1)
        out[4], out[5] = near[:, :middle], near[:, middle:]
        first_foes = numpy.concatenate([theirs[1]] * TEAM + [ours[1]] * TEAM, 1)
        out[6] = (start & first_foes[:, None]).any(0)
        out[7] = (start & numpy.concatenate([mate[1] for mate in mates], 1)[:, None]).any(0)
        return out.reshape(OF_MOVE, ACTIONS, SNAKES, n)


def headings(positions):
    """[positions, 6]"""
    return numpy.array([position.directions for position in positions])


def count(sets):
    """Cells in sets: at most 255."""
    pairs = sets - (sets >> ONE & FIVES)
    fours = (pairs & THREES) + (pairs >> TWO & THREES)
    eights = (fours & NIBBLES) + (fours >> FOUR & NIBBLES)
    return numpy.add.reduce(eights, dtype=numpy.uint32) * ONES >> TWENTY_FOUR


# The search: a tree of what all six snakes may do, each of them a bandit at each board (decoupled PUCT)


LAST_STEP = 200
SIMULATIONS = 1024
LEAVES = 32  # boards that the network sees at once
EXPLORATION = 0.4  # in points
LOSS = 1  # points, where a move's simulations are all under way
TEMPERATURE = 0.1  # of the network's values, as a snake's first guess
TIME = 0.25  # seconds that a search may take
MARGIN = 1.5  # times the slowest batch so far, which the next one may take
QUICKEST = math.inf  # seconds of the quickest batch of the last search that had any


class Chance:
    """Of imagined steps."""

    def turn(self, i, back):
        return RANDOM.choice([direction for direction in range(ACTIONS) if direction != back])

    def bean(self, k, free):
        return RANDOM.choice(free)


def best_move(answers, moves):
    return max(moves, key=lambda move: answers[move])


def bare_moves(board):
    """The network's own, of a team."""
    return [best_move(answers, board.open_moves(i)) for i, answers in enumerate(ACTOR(board))]


def while_time_lasts(items, began):
    """Stops where a batch might end later than TIME after `began`, which was before the root's evaluation.

    The first one is made all the same if less than half of TIME has passed, unless the last search's show that they take longer.
    """
    global QUICKEST
    # A batch takes four times as long as the root, or a little more. If only the root was held up, the last search's batches show it;
    # older ones do not, as the machine may have become slower.
    slowest, quickest = min(5 * (time.perf_counter() - began), 4 * QUICKEST), math.inf
    fits = QUICKEST < TIME / 2 or QUICKEST == math.inf
    for item in items:
        now = time.perf_counter()
        is_first = quickest == math.inf
        if now - began + MARGIN * slowest > TIME and not (is_first and fits and now - began < TIME / 2):
            return
        yield item
        took = time.perf_counter() - now
        slowest, quickest = max(slowest, took), min(quickest, took)
        QUICKEST = quickest


@functools.lru_cache(maxsize=4)
def views_of(height, width):
    return Views(height, width)


def features_of(positions, views):
    """As Views.features, whatever the network sees."""
    if ACTOR.sees >= WINDOW:
        return views.features(positions, ACTOR.sees > WINDOW)
    rows, is_open = [], []
    for position in positions:
        shown = views.shown(position)
        for first in (0, TEAM):
            board = Board(shown, first)
            rows += [ACTOR.features(board, i) for i in range(TEAM)]
            is_open += [[move in board.open_moves(i) for move in range(ACTIONS)] for i in range(TEAM)]
    return numpy.array(rows).reshape(-1, SNAKES, ACTOR.sees), numpy.array(is_open).reshape(-1, SNAKES, ACTIONS)


ARMS = SNAKES * ACTIONS  # of a node: ACTIONS * snake + move


class Node:
    """A board that was reached, and its value: points by which a snake of the left team will gain on a foe.

    By arm: its prior, below 0 where the move is closed; its visits, without those under way; the points, for its snake's team, that
    these led to, and their mean; what it promises, simulations under way being losses; what exploration adds to that.
    """

    __slots__ = ("position", "value", "priors", "before", "lead", "all_visits", "children", "visits", "under_way", "totals", "means",
                 "promises", "curiosity")

    def __init__(self, position, value, priors):
        self.position, self.value, self.priors = position, value, priors
        self.before, self.lead = None, 0  # the position from which a step without chance leads here, and what it gains
        self.all_visits, self.children = 1, None

    def open(self):
        """Most nodes are never played on from."""
        self.children, self.visits, self.under_way, self.totals = {}, [0] * ARMS, [0] * ARMS, [0.0] * ARMS
        self.means = [self.value] * (ARMS // 2) + [-self.value] * (ARMS // 2)
        self.promises = [mean if prior >= 0 else -math.inf for mean, prior in zip(self.means, self.priors)]
        self.curiosity = list(self.priors)

    def choose(self):
        """For each snake the arm that promises its team most."""
        if self.children is None:
            self.open()
        exploration = EXPLORATION * math.sqrt(self.all_visits)
        scores = [promise + exploration * curiosity for promise, curiosity in zip(self.promises, self.curiosity)]
        self.all_visits += 1
        arms = []
        for first in range(0, ARMS, ACTIONS):
            own = scores[first:first + ACTIONS]
            arm = first + own.index(max(own))
            arms.append(arm)
            self.under_way[arm] = under_way = self.under_way[arm] + 1
            begun = self.visits[arm] + under_way
            self.promises[arm] = self.means[arm] - LOSS * under_way / begun
            self.curiosity[arm] = self.priors[arm] / (1 + begun)
        return tuple(arms)

    def learn(self, arms, value):
        for arm in arms:
            self.visits[arm] = visits = self.visits[arm] + 1
            self.under_way[arm] = under_way = self.under_way[arm] - 1
            self.totals[arm] = total = self.totals[arm] + (value if arm < ARMS // 2 else -value)
            self.means[arm] = self.promises[arm] = mean = total / visits
            if under_way:
                self.promises[arm] = mean - LOSS * under_way / (visits + under_way)


def nodes(positions, views):
    """For positions none of which is the end of a game."""
    rows, is_open = features_of(positions, views)
    answers = ACTOR.answer(rows.reshape(-1, rows.shape[2])).numpy().reshape(is_open.shape)
    if HEADING_UP:
        answers = numpy.take_along_axis(answers, numpy.array(MOVES)[headings(positions)], 2)
    answers = numpy.where(is_open, answers, numpy.float32(-numpy.inf))
    best = answers.max(2)
    values = (best[:, :TEAM].mean(1) - best[:, TEAM:].mean(1)) / POINT
    priors = numpy.exp((answers - best[:, :, None]) / numpy.float32(TEMPERATURE))
    priors /= priors.sum(2, keepdims=True)
    priors[~is_open] = -1
    return [Node(*each) for each in zip(positions, values.tolist(), priors.reshape(-1, ARMS).tolist())]


def descend(views, node, position, chances):
    """Plays from the node's position to one without a node. Returns the steps on the way, that position, and whether the last step was
    left to chance."""
    path = []
    while True:
        arms = node.choose()
        chance = next(chances)
        child = node.children.get(arms)
        if child is not None and child.before is position:
            path.append((node, arms, child.lead))
            position = child.position
        else:
            before, (position, rewards, drawn) = position, play(views, position, [arm % ACTIONS for arm in arms], chance)
            path.append((node, arms, (sum(rewards[:TEAM]) - sum(rewards[TEAM:])) / TEAM))
            if child is None or position.done:
                return path, position, None if drawn else before
        node = child


def back_up(path, value):
    for node, arms, lead in reversed(path):
        value = lead + DISCOUNT * value
        node.learn(arms, value)


def simulate(views, root, each):
    """A simulation for each iterator over chances, one for each step; the boards where they end are evaluated together."""
    reached = []
    for chances in each:
        path, end, before = descend(views, root, root.position, chances)
        if end.done:
            back_up(path, 0)
        else:
            reached.append((path, end, before))
    for (path, _, before), node in zip(reached, nodes([end for _, end, _ in reached], views) if reached else ()):
        last, arms, node.lead = path[-1]
        node.before = before
        last.children.setdefault(arms, node)
        back_up(path, node.value)


def team_moves(board):
    """The three moves of a team: searched once for its three calls."""
    if board.moves is None:
        board.moves = bare_moves(board)  # stay if the search fails
        try:
            board.moves = searched(board)
        except Exception as error:
            report("the search failed: the moves are the network's own", error)
    return board.moves


def searched(board):
    shown = board.shown
    sides = shown.height, shown.width
    if not all(shown.snakes) or None in shown.directions or min(sides) < 4 or max(sides) > 31 or shown.height * shown.width > 256:
        return board.moves  # no board of a game that goes on, or none that Views encodes
    if all(len(board.open_moves(i)) == 1 for i in range(TEAM)):
        return board.moves
    began = time.perf_counter()
    views = views_of(shown.height, shown.width)
    root, = nodes([views.position(shown)], views)
    for _ in while_time_lasts(range(SIMULATIONS // LEAVES), began):
        simulate(views, root, [itertools.repeat(Chance())] * LEAVES)
    count_search(root.all_visits > 1)
    if root.all_visits == 1:
        return board.moves
    return [most_visited(root, board.first + i) for i in range(TEAM)]


def most_visited(node, snake):
    return max(range(ACTIONS), key=lambda move: (node.visits[ACTIONS * snake + move], node.priors[ACTIONS * snake + move]))


def ready():
    """Makes the first search as quick as the others; what fails does so before the game."""
    views = views_of(10, 20)
    position = Position([bytes(20 * i + column for column in (2, 1, 0)) for i in range(SNAKES)], [RIGHT] * SNAKES, [170], 1)
    root, = nodes([position], views)
    simulate(views, root, [itertools.repeat(Chance())] * LEAVES)


# What the platform asks


REPORTED = set()
SEARCHES = {True: 0, False: 0}  # those with time for a batch, and those without


def report(what, error):
    """Once for each kind of error: what is wrong in one step is wrong in the next."""
    if type(error) in REPORTED:
        return
    REPORTED.add(type(error))
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    why = (str(error).splitlines() or [""])[0]
    say("%s: %s: %s (%s, line %d)" % (what, type(error).__name__, why, trace.tb_frame.f_code.co_filename, trace.tb_lineno))


def count_search(had_time):
    """Says so of the first that had no time, of the tenth, of the hundredth, and so on."""
    SEARCHES[had_time] += 1
    short = SEARCHES[False]
    if had_time or str(short).strip("0") != "1":
        return
    if short == 1:
        say("no time for a search in this step, moved without it: the machine is busy")
    else:
        say("no time for %d of %d searches, moved without them: the machine is busy" % (short, sum(SEARCHES.values())))


def say(text):
    if sys.stderr is None:
        return
    try:
        print("submission.py: " + text, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # closed; there is nobody to tell
        pass


ACTOR = None
LOOKS = False
RANDOM = random.Random()  # its own: the platform draws its beans from the common one
try:
    import torch
    torch.set_num_threads(1)
    ACTOR = Actor(os.path.join(os.path.dirname(os.path.abspath(__file__)), ACTOR_FILE))
except Exception as error:
    report("no network in %s: snakes only go to the nearest bean, not back and not into a body" % ACTOR_FILE, error)
if ACTOR is not None and LOOK_AHEAD:
    try:
        import numpy
        ready()
        LOOKS = True
    except Exception as error:
        report("cannot look ahead: the moves are the network's own", error)
# A full collection would go through all that torch made at import: 100 ms in the middle of a move. What is frozen is never freed, so
# only the first import in a process does it. From Python 3.7 on.
if hasattr(gc, "freeze") and gc.get_freeze_count() == 0:
    gc.freeze()

RECENT = collections.deque(maxlen=256)  # what was shown, the newest first; several games may be played by turns


def board_of(observation, snake):
    """The board as the team of `snake` sees it."""
    shown = Shown(observation, RECENT)
    known = next((each for each in RECENT if each == shown), None)
    if known is not None:
        RECENT.remove(known)
    RECENT.appendleft(known or shown)
    return RECENT[0].board(snake - snake % TEAM)


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
    if LOOKS:
        return certain(team_moves(board)[i])
    moves = board.open_moves(i) if MASK_FATAL else range(ACTIONS)
    return certain(best_move(answers, moves)) if CHOICE == "argmax" else shares(answers, moves)


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
                report("the network failed: the snake goes to the nearest bean", error)
        return to_nearest_bean(board, snake % TEAM)
    except Exception as error:
        report("cannot read the platform's observation: the move is up", error)
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
