"""What a network could foresee if it saw more: fits networks of several shapes to the same games of a search.

    python bench/network_fits.py --start models/expert.pth --games 1024 --seeds 1 2 3

The games and what is learned from them are those of examples/expert_iteration.py. Every shape starts as the network in --start, to which
it adds something that is zero at first: from what the other five snakes see, through means over mates and foes or through attention;
or from what convolutions over the whole board find at the snake's head. So all begin with the same values, and differ by what the fit
makes of the addition. Reports for games that were not learned from how much of the variance of what followed the value explains, and how
many of the search's moves are the network's best.
"""

import argparse
import pathlib
import sys
import time

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))

import expert_iteration
from snake_ddp import networks
from snake_ddp.state import COLUMNS, MOVES, ROWS, TEAM
from snake_ddp.teams import REWARDS

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


class Larger(nn.Module):
    """A Q-network, and an addition to what its first layer finds.

    Shapes  observations [n, 6, features], then as `play` returns them planes [n, 2, ...], heads and directions [n, 6]; returns values [n, 6, 4].
    """

    def __init__(self, start):
        super().__init__()
        self.net = networks.load(start)
        self.width = self.net.q_net[0].out_features

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

    FILTERS, BLOCKS = 32, 6

    def __init__(self, start):
        super().__init__(start)

        def layer(inputs):
            return nn.Sequential(nn.Conv2d(inputs, self.FILTERS, 3, padding=1, padding_mode="circular", bias=False), nn.BatchNorm2d(self.FILTERS))

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


SHAPES = {"plain": Larger, "pooled": Pooled, "attention": Attention, "torus": Torus}


def of_states(states):
    return planes_of(states), states["heads"].astype(np.int64), states["directions"].astype(np.int64)


def play(job):
    return expert_iteration.play(job, of_states)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", default="models/expert.pth", help="a Q-network's file")
    parser.add_argument("--search", default="puct64", help="with which it plays")
    parser.add_argument("--games", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--processes", type=int, default=2)
    line = parser.parse_args()
    torch.set_num_threads(line.processes)
    record = REWARDS | networks.load(line.start).record
    point = record["reward_scale"] * (1 + record["rival_reward"])
    played, held = expert_iteration.play_all(f"{line.start}:{line.search}", record["gamma"], 1_000_000, line.games, line.processes, play)
    data = expert_iteration.together(played)
    print(f"{len(data[-1])} boards to learn from, {len(held[-1])} to judge by")
    print("| shape | seed | value explains | moves foreseen | minutes |\n|---|---|---|---|---|")
    for shape in line.shapes:
        for seed in line.seeds:
            torch.manual_seed(seed)
            network = SHAPES[shape](line.start)
            begin = time.monotonic()
            expert_iteration.fit(network, point, data, line.epochs, line.rate)
            minutes = (time.monotonic() - begin) / 60
            network.eval()
            explained, foreseen = expert_iteration.quality(network, point, held)
            print(f"| {shape} | {seed} | {100 * explained:.1f} % | {100 * foreseen:.1f} % | {minutes:.1f} |", flush=True)


if __name__ == "__main__":
    main()
