"""Expert iteration: a Q-network plays itself with a search, then learns what these games were worth and what the search played.

    python examples/expert_iteration.py --start models/champion.pth --save expert.pth
    ./snake_ddp eval --team_a expert.pth:puct100 --team_b models/champion.pth:puct100 --games 200

Each round plays games with the newest network, and fits it to the games of all rounds. The value of a board in the search, from
the best values of six snakes (docs/search.md), learns the discounted lead that the rest of the game brought; the values of a snake's
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


def play(job, with_states=False):
    """Boards of games that a team plays against itself.

    Returns  observations [n, 6, features] float16; open moves [n, 6, 4] and moves played [n, 6], numbered as the network numbers moves;
             team A's lead in points per snake that followed, discounted, [n]; with states also these, [n].
    """
    spec, gamma, seed = job
    team = Team(spec)
    boards = Boards(BATCH, obs=team.obs, opponent="none", autoreset="disabled")
    boards.reset(seed)
    seen, may, made, leads, states = [], [], [], [], []
    while not boards.terminated.any():
        moves = np.concatenate([team.moves_on(boards.states, side, seed) for side in (0, 1)], 1)
        if len(leads) % KEPT == 0:
            directions = turned_moves(boards.observations, team.obs)
            seen.append(boards.observations.astype(np.float16))
            may.append(np.take_along_axis(boards.open_moves(), directions, -1))
            made.append((directions == moves[..., None]).argmax(-1))
            if with_states:
                states.append(boards.states.copy())
        boards.step(moves)
        leads.append((boards.rewards[:, :TEAM] - boards.rewards[:, TEAM:]).mean(1))
    worth, rest = [], np.zeros(BATCH)
    for lead in reversed(leads):
        rest = lead + gamma * rest
        worth.append(rest.astype(np.float32))
    arrays = [seen, may, made, worth[::-1][::KEPT]]
    if with_states:
        arrays.append(states)
    return [np.concatenate(array) for array in arrays]


def play_all(team, gamma, seed, games, processes, play=play):
    """Batches of games with this and the following seeds.

    Returns  the arrays of `play` as tensors, by batch: seven of eight, to learn from; and the others, of all batches together.
    """
    jobs = [(team, gamma, seed + k) for k in range(games // BATCH)]
    # Not multiprocessing.Pool, which goes on starting processes if they cannot start.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        played = [[torch.from_numpy(array) for array in arrays] for arrays in pool.map(play, jobs)]
    return [arrays for k, arrays in enumerate(played) if k % 8], together(played[::8])


def together(played):
    return [torch.cat(arrays) for arrays in zip(*played)]


def read(network, point, batch):
    """Of a batch of `play`'s boards: their values for team A, [n], and the logarithms of the search's first guess, [n, 6, 4].
    Further arrays are further arguments of the network."""
    seen, may, _, _, *more = batch
    values = network(seen.float(), *more).masked_fill(~may, -1e9)
    best = values.amax(-1)
    return (best[:, :TEAM] - best[:, TEAM:]).mean(1) / point, torch.log_softmax(values / TEMPERATURE, -1)


def batches(data, order):
    return ([array[rows] for array in data] for rows in order.split(ROWS))


def fit(network, point, data, epochs, rate, report):
    """Adam on (value - what followed)^2, in multiples of its variance, plus the cross-entropy of the moves that were played."""
    variance = data[3].var()
    weights, symmetric = dict(network.named_parameters()), networks.is_symmetric(network)
    optimizer = torch.optim.Adam(network.parameters(), rate)
    steps = epochs * len(data[3]) / ROWS
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    for epoch in range(epochs):
        total = 0.0
        for batch in batches(data, torch.randperm(len(data[3]))):
            value, guess = read(network, point, batch)
            error = (value - batch[3]).square().mean() / variance
            loss = error + MOVES_WEIGHT * torch.nn.functional.nll_loss(guess.flatten(0, 1), batch[2].flatten())
            optimizer.zero_grad()
            loss.backward()
            if symmetric:
                networks.symmetrize({name: value.grad for name, value in weights.items()}, network.obs)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(value)
        if symmetric:  # but for rounding, it already is
            networks.symmetrize(weights, network.obs)
        report(f"  epoch {epoch + 1}: loss {total / len(data[3]):.3f}")


@torch.no_grad()
def quality(network, point, data):
    """The share of the variance of what followed that the value explains, and how often the first guess is the move played."""
    reads = [(*read(network, point, batch), batch[2]) for batch in batches(data, torch.arange(len(data[3])))]
    left = torch.cat([value for value, _, _ in reads]) - data[3]
    same = torch.cat([(guess.argmax(-1) == made).float().mean(1) for _, guess, made in reads])
    return 1 - left.square().mean().item() / data[3].var().item(), same.mean().item()


def improve(start, save, search="puct64", rounds=3, games=1280, processes=2, epochs=3, rate=2e-4, seed=1, report=print):
    """Returns `quality` before and after each round, on one in eight batches of its games, which are not learned from."""
    torch.manual_seed(seed)
    network = networks.load(start)
    record = REWARDS | network.record
    point = record["reward_scale"] * (1 + record["rival_reward"])
    everything, results = [], []
    for number in range(rounds):
        begin = time.monotonic()
        team = f"{save if number else start}:{search}"
        played, held = play_all(team, record["gamma"], (seed * 1000 + number) * 1000, games, processes)
        report(f"round {number + 1}: {games} games in {(time.monotonic() - begin) / 60:.1f} min")
        everything += played
        before = quality(network, point, held)
        fit(network, point, together(everything), epochs, rate, report)
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
