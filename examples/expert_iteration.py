"""Expert iteration: a Q-network plays itself with a search, then learns what these games were worth and what the search played.

    python examples/expert_iteration.py --start models/champion.pth --save expert.pth
    ./snake_ddp eval --team_a expert.pth:puct100 --team_b models/champion.pth:puct100 --games 200

Each round plays games with the newest network, and fits it to the games of all rounds. The value of a board in the search, from
the best values of six snakes (docs/learners/search.md), learns the discounted lead that the rest of the game brought; the values of a snake's
moves, as the search's first guess, learn the move that was played. A mirror-symmetric network stays so. Follows Anthony, Tian and
Barber, "Thinking fast and slow with deep learning and tree search" (2017), and Silver et al., "Mastering the game of Go without
human knowledge" (2017).
"""

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch

from snake_ddp import Boards, Team, networks, turned_moves
from snake_ddp.teams import REWARDS

TEAM = 3
BATCH = 32  # games that are played side by side
ROWS = 512  # boards in an optimizer step
KEPT = 2  # one board in so many is learned from
TEMPERATURE = 0.1  # of the search's first guess
MOVES_WEIGHT = 0.1  # of the moves' loss


def play(job, also=lambda states: ()):
    """Boards of games that a team plays against itself.

    Returns  observations [n, 6, features] float16; open moves [n, 6, 4] and moves played [n, 6], numbered as the network numbers moves;
             what `also` returns of the boards' states; team A's lead in points per snake that followed, discounted, [n].
    """
    spec, gamma, seed = job
    team = Team(spec)
    boards = Boards(BATCH, obs=team.obs, opponent="none", autoreset="disabled")
    boards.reset(seed)
    rows, leads = [], []
    while not boards.terminated.any():
        moves = np.concatenate([team.moves_on(boards.states, side, seed) for side in (0, 1)], 1)
        if len(leads) % KEPT == 0:
            directions = turned_moves(boards.observations, team.obs)
            may = np.take_along_axis(boards.open_moves(), directions, -1)
            made = (directions == moves[..., None]).argmax(-1)
            rows.append((boards.observations.astype(np.float16), may, made, *also(boards.states)))
        boards.step(moves)
        leads.append((boards.rewards[:, :TEAM] - boards.rewards[:, TEAM:]).mean(1))
    worth = np.array(leads, np.float32)
    for t in reversed(range(len(worth) - 1)):
        worth[t] += gamma * worth[t + 1]
    return [np.concatenate(array) for array in (*zip(*rows), worth[::KEPT])]


def play_all(team, gamma, seed, games, processes, play=play):
    """`play`'s arrays as tensors, by batch of games, seven batches of eight: to learn from; and of all others together: to judge by."""
    jobs = [(team, gamma, seed + k) for k in range(games // BATCH)]
    # Not multiprocessing.Pool, which goes on starting processes if they cannot start.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        played = [[torch.from_numpy(array) for array in arrays] for arrays in pool.map(play, jobs)]
    return [arrays for k, arrays in enumerate(played) if k % 8], together(played[::8])


def together(played):
    return [torch.cat(arrays) for arrays in zip(*played)]


def read(network, point, batch):
    """Of a batch of `play`'s boards: their values for team A, [n], and the logarithms of the search's first guess, [n, 6, 4]."""
    seen, may, _, *more, _ = batch
    values = network(seen.float(), *more).masked_fill(~may, -1e9)
    best = values.amax(-1)
    return (best[:, :TEAM] - best[:, TEAM:]).mean(1) / point, torch.log_softmax(values / TEMPERATURE, -1)


def batches(data, order):
    return ([array[rows] for array in data] for rows in order.split(ROWS))


def fit(network, point, data, epochs, rate):
    """Adam on (value - what followed)^2, in multiples of its variance, plus the cross-entropy of the moves that were played."""
    variance = data[-1].var()
    weights, symmetric = dict(network.named_parameters()), networks.is_symmetric(network)
    optimizer = torch.optim.Adam(network.parameters(), rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, epochs * -(-len(data[-1]) // ROWS))
    for _ in range(epochs):
        for batch in batches(data, torch.randperm(len(data[-1]))):
            value, guess = read(network, point, batch)
            error = (value - batch[-1]).square().mean() / variance
            loss = error + MOVES_WEIGHT * torch.nn.functional.nll_loss(guess.flatten(0, 1), batch[2].flatten())
            optimizer.zero_grad()
            loss.backward()
            if symmetric:
                networks.symmetrize({name: value.grad for name, value in weights.items()}, network.obs)
            optimizer.step()
            schedule.step()
        if symmetric:  # but for rounding, it already is
            networks.symmetrize(weights, network.obs)


@torch.no_grad()
def quality(network, point, data):
    """The share of the variance of what followed that the value explains, and how often the first guess is the move played."""
    reads = [(*read(network, point, batch), batch[2]) for batch in batches(data, torch.arange(len(data[-1])))]
    left = torch.cat([value for value, _, _ in reads]) - data[-1]
    same = torch.cat([(guess.argmax(-1) == made).float().mean(1) for _, guess, made in reads])
    return 1 - left.square().mean().item() / data[-1].var().item(), same.mean().item()


def improve(start, save, search="puct64", rounds=3, games=1280, processes=2, epochs=3, rate=2e-4, seed=1, report=print):
    """Returns `quality` before and after each round, on one in eight batches of its games, which are not learned from."""
    torch.manual_seed(seed)
    network = networks.load(start)
    record = REWARDS | network.record
    point = record["reward_scale"] * (1 + record["rival_reward"])
    everything, results = [], []
    for number in range(rounds):
        begin = time.monotonic()
        played, held = play_all(f"{save if number else start}:{search}", record["gamma"], (seed * 1000 + number) * 1000, games, processes)
        report(f"round {number + 1}: {games} games in {(time.monotonic() - begin) / 60:.1f} min")
        everything += played
        before = quality(network, point, held)
        fit(network, point, together(everything), epochs, rate)
        results.append((before, quality(network, point, held)))
        for name, was, now in zip(("variance explained", "moves foreseen"), *results[-1]):
            report(f"  {name}: {100 * was:.1f} % -> {100 * now:.1f} %")
        networks.save(network, save)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", default="models/champion.pth", help="a Q-network's file")
    parser.add_argument("--save", metavar="FILE", default="expert.pth", help="written after each round")
    parser.add_argument("--search", default="puct64", help="with which it plays")
    for name, usual in (("rounds", 3), ("games", 1280), ("processes", 2), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    line = parser.parse_args()
    if line.games < 2 * BATCH:
        parser.error(f"--games: at least {2 * BATCH}, since one batch of {BATCH} is not learned from")
    torch.set_num_threads(line.processes)
    improve(**vars(line))


if __name__ == "__main__":
    main()
