"""Q-networks that see more than a snake's own view, from PyTorch: for network_fits.py and networks_in_play.py."""

import numpy as np
import torch
from torch import nn

from snake_ddp.state import COLUMNS, MOVES, ROWS, TEAM

SNAKES, CELLS = 2 * TEAM, ROWS * COLUMNS
LINKS = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 2), (2, 0))  # rows and columns towards the head (game/state.hpp)
FOLLOWED = np.array([[(row + dr) % ROWS * COLUMNS + (column + dc) % COLUMNS for row in range(ROWS) for column in range(COLUMNS)] for dr, dc in LINKS])
PLANES = 7
KINDS = torch.tensor([[0 if i == j else 1 if i // TEAM == j // TEAM else 2 for j in range(SNAKES)] for i in range(SNAKES)])  # oneself, mate, foe


def planes_of(states):
    """Boards as each team sees them: of its own snakes and of the others' the heads, the steps until a cell is free if its snake does not
    eat, and the snake's length; then the beans.

    Shapes  states STATE [n]; returns float16 [n, 2, PLANES, ROWS, COLUMNS].
    """
    boards = np.arange(len(states))
    planes = np.zeros((len(states), 2, PLANES, CELLS), np.float16)
    for snake in range(SNAKES):
        length, cell = states["lengths"][:, snake], states["tails"][:, snake].astype(int)
        for k in range(length.max()):
            there = np.flatnonzero(k < length)
            for team in (0, 1):
                first = 0 if snake // TEAM == team else 3
                planes[there, team, first + 1, cell[there]] = (k + 1) / 10
                planes[there, team, first + 2, cell[there]] = length[there] / 10
                planes[there, team, first, cell[there]] = k + 1 == length[there]
            cell = FOLLOWED[np.minimum(states["cells"][boards, cell] >> 3, len(LINKS) - 1), cell]
    for k in range(states["beans"].shape[1]):
        there = np.flatnonzero(k < states["n_beans"])
        planes[there, :, PLANES - 1, states["beans"][there, k]] = 1
    return planes.reshape(len(states), 2, PLANES, ROWS, COLUMNS)


def of_states(states):
    """Boards as `Torus` reads them: planes_of, and the snakes' heads and directions, int64 [n, 6]."""
    return planes_of(states), states["heads"].astype(np.int64), states["directions"].astype(np.int64)


class Larger(nn.Module):
    """The Q-network `start`, and an addition to what its first layer finds.

    Shapes  observations [n, 6, features], then what `of_states` returns; returns values [n, 6, 4].
    """

    reads_boards = False  # beside the observations

    def __init__(self, start):
        super().__init__()
        self.net = start
        self.width = start.q_net[0].out_features

    def added(self, hidden, *boards):
        return 0

    def forward(self, observations, *boards):
        net = self.net
        hidden = torch.relu(net.norm_0(net.q_net[0](observations)))
        hidden = hidden + self.added(hidden, *boards)
        return net.q_net[2](torch.relu(net.norm_1(net.q_net[1](hidden))))


def zeros(inputs, outputs):
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Pooled(Larger):
    def __init__(self, start):
        super().__init__(start)
        self.out = zeros(3 * self.width, self.width)

    def added(self, hidden, *boards):
        means = [hidden]
        for kind in (1, 2):
            share = (kind == KINDS).float()
            means.append((share / share.sum(1, keepdim=True)) @ hidden)
        return self.out(torch.cat(means, -1))


class Attention(Larger):
    """Multi-head attention over the six snakes: keys and values also know who is oneself, a mate or a foe, in pairs."""

    HEADS = 4

    def __init__(self, start):
        super().__init__(start)
        self.kind = nn.Parameter(torch.randn(3, self.width) / 10)
        self.query, self.key, self.value = (nn.Linear(self.width, self.width) for _ in range(3))
        self.mix = nn.Sequential(nn.Linear(2 * self.width, self.width), nn.ReLU(), zeros(self.width, self.width))

    def added(self, hidden, *boards):
        heads = (len(hidden), SNAKES, self.HEADS, -1)
        query, key, value = (layer(hidden).view(heads) for layer in (self.query, self.key, self.value))
        kinds = self.kind[KINDS].view(SNAKES, SNAKES, self.HEADS, -1)
        scores = torch.einsum("nihd,njhd->nhij", query, key) + torch.einsum("nihd,ijhd->nhij", query, kinds)
        weights = torch.softmax(scores / query.shape[-1] ** 0.5, -1)
        found = torch.einsum("nhij,njhd->nihd", weights, value) + torch.einsum("nhij,ijhd->nihd", weights, kinds)
        return self.mix(torch.cat([hidden, found.flatten(2)], -1))


class Torus(Larger):
    """Residual blocks of circular 3 x 3 convolutions, as HandyRL's for Hungry Geese, read at each snake's head and in the mean."""

    reads_boards = True
    FILTERS, BLOCKS = 32, 6

    def __init__(self, start):
        super().__init__(start)

        def layer(inputs):
            return nn.Sequential(nn.Conv2d(inputs, self.FILTERS, 3, padding=1, padding_mode="circular", bias=False), nn.GroupNorm(4, self.FILTERS))

        self.first = layer(PLANES)
        self.blocks = nn.ModuleList(layer(self.FILTERS) for _ in range(self.BLOCKS))
        self.mix = nn.Sequential(nn.Linear(2 * self.FILTERS + MOVES + self.width, self.width), nn.ReLU(), zeros(self.width, self.width))

    def added(self, hidden, planes, heads, directions):
        board = torch.relu(self.first(planes.flatten(0, 1).float()))
        for block in self.blocks:
            board = torch.relu(board + block(board))
        cells = board.view(len(hidden), 2, self.FILTERS, CELLS).repeat_interleave(TEAM, 1)
        own = cells.gather(3, heads[..., None, None].expand(-1, -1, self.FILTERS, 1)).squeeze(3)
        heading = nn.functional.one_hot(directions, MOVES).float()
        return self.mix(torch.cat([own, cells.mean(3), heading, hidden], -1))


class SmallTorus(Torus):
    FILTERS, BLOCKS = 16, 3


SHAPES = {"plain": Larger, "pooled": Pooled, "attention": Attention, "torus": Torus, "small_torus": SmallTorus}
