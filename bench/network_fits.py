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

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))

import expert_iteration
from network_shapes import SHAPES, of_states
from snake_ddp import networks
from snake_ddp.teams import REWARDS


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
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["plain", "pooled", "attention", "torus"])
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
            network = SHAPES[shape](networks.load(line.start))
            begin = time.monotonic()
            expert_iteration.fit(network, point, data, line.epochs, line.rate)
            minutes = (time.monotonic() - begin) / 60
            explained, foreseen = expert_iteration.quality(network, point, held)
            print(f"| {shape} | {seed} | {100 * explained:.1f} % | {100 * foreseen:.1f} % | {minutes:.1f} |", flush=True)


if __name__ == "__main__":
    main()
