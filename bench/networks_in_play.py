"""What a network learns in play if it sees more: trains networks of several shapes by PQN-VDN, with as many updates each.

    python bench/networks_in_play.py --updates 8000 --seeds 1 2 3

The networks play against themselves (docs/learners/pqn.md; no other opponents, no mirror symmetry). Every shape adds something to the
network called plain: what the other five snakes see, through means over mates and foes or through attention, or what convolutions over the
whole board find at the snake's head. Judges each against territory, bare and with a look one move ahead.
"""

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch

from network_shapes import SHAPES, of_states
from snake_ddp import Boards, Team, evaluate, networks, obs_size, turned_moves
from snake_ddp.state import TEAM
from snake_ddp.teams import REWARDS

OBS = "ahead"
BOARDS, STEPS, EPOCHS, BATCH = 128, 16, 2, 128  # a batch is boards of both teams
UPDATES = EPOCHS * BOARDS * STEPS // BATCH  # of a rollout
GAMMA, RIVAL, LAMBDA = REWARDS["gamma"], REWARDS["rival_reward"], 0.65
RATE, LAST_RATE, CLIP = 4e-4, 0.1, 5.0
EPSILON = np.geomspace(0.3, 0.005, BOARDS)[:, None]


def values_of(network):
    """The network as snake_ddp.Team.of_values takes it."""

    @torch.no_grad()
    def values(observations, states):
        return network(torch.from_numpy(observations), *extras(network, states))

    return values


def extras(network, states):
    return [torch.from_numpy(array) for array in of_states(states)] if network.reads_boards else []


def of_teams(snakes):
    """Sums over each team. Shapes  snakes [..., 6]; returns [..., 2]."""
    return snakes.reshape(*snakes.shape[:-1], 2, TEAM).sum(-1)


def rollout(network, boards, random):
    """STEPS steps of all boards. Returns the rows to learn from: observations, extras, moves [n, 6], returns of the teams [n, 2]."""
    values = values_of(network)
    steps, rewards, worth, ended = [], [], [], []
    for t in range(STEPS + 1):
        states = boards.states.copy()
        q = values(boards.observations, states).numpy()
        directions = turned_moves(boards.observations, OBS)
        may = np.take_along_axis(boards.open_moves(), directions, -1)
        best = np.where(may, q, -np.inf)
        worth.append(of_teams(best.max(-1)))
        if t == STEPS:
            break
        guess = np.where(may, random.random(may.shape), -1).argmax(-1)
        moves = np.where(random.random(guess.shape) < EPSILON, guess, best.argmax(-1))
        over = boards.terminated.copy()  # this step starts a new game
        steps.append((~over, boards.observations.copy(), states, moves))
        boards.step(np.take_along_axis(directions, moves[..., None], -1)[..., 0])
        points = of_teams(boards.rewards)
        rewards.append(points - RIVAL * points[:, ::-1])
        ended.append(boards.terminated.copy())
    returns, following = [], worth[STEPS]
    for t in reversed(range(STEPS)):
        following = rewards[t] + GAMMA * ~ended[t][:, None] * ((1 - LAMBDA) * worth[t + 1] + LAMBDA * following)
        returns.append(following.astype(np.float32))
    rows, seen, states, moves = (np.concatenate(column) for column in zip(*steps))
    seen, moves, returns = (torch.from_numpy(array[rows]) for array in (seen, moves, np.concatenate(returns[::-1])))
    return seen, extras(network, states[rows]), moves, returns


def learn(network, updates, seed):
    random = np.random.default_rng(seed)
    boards = Boards(BOARDS, obs=OBS, opponent="none")
    boards.reset(seed)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, LAST_RATE, updates)
    for _ in range(updates // UPDATES):
        seen, more, moves, returns = rollout(network, boards, random)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(seen)).tensor_split(UPDATES // EPOCHS):
                q = network(seen[rows], *(array[rows] for array in more))
                made = of_teams(q.gather(-1, moves[rows, :, None]).squeeze(-1))
                loss = 0.5 * (made - returns[rows]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
                optimizer.step()
                schedule.step()


def made(shape, seed):
    torch.manual_seed(seed)
    return SHAPES[shape](networks.QNetwork(obs_size(OBS)))


def judged(job):
    """A row of the table."""
    shape, seed, updates, games, searches = job
    torch.set_num_threads(1)
    network = made(shape, seed)
    begin = time.monotonic()
    learn(network, updates, seed)
    cells = [shape, f"{seed}", f"{(time.monotonic() - begin) / 60:.1f}"]
    for search in searches:
        match = evaluate(Team.of_values(values_of(network), search, obs=OBS), "territory", games, seed=77)
        low, high = match.win_rate_ci95
        cells.append(f"{100 * match.win_rate:.1f} % ({100 * low:.1f} to {100 * high:.1f})")
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=8000, help=f"a multiple of {UPDATES}")
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--searches", nargs="*", default=["look1"], help="besides none")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["plain", "pooled", "attention", "small_torus"])
    parser.add_argument("--processes", type=int, default=2)
    line = parser.parse_args()
    jobs = [(shape, seed, line.updates, line.games, [None, *line.searches]) for seed in line.seeds for shape in line.shapes]
    print("| " + " | ".join(["network", "seed", "minutes", "bare", *line.searches]) + " |\n|" + "---|" * (4 + len(line.searches)))
    with ProcessPoolExecutor(line.processes, multiprocessing.get_context("spawn")) as pool:
        for cells in pool.map(judged, jobs):
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
