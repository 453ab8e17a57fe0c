#!/usr/bin/env python3
"""Measures the Python package beside the C++ program, in steps of a board per second of processor time.

  bench/python_door.py [--program ./snake_ddp] [--seconds 0.02] [--windows 60] [--levels v2,v3,v4]

Needs an environment with the package (docs/python.md) and a built program. Prints Markdown tables: the best of the windows, so
that what else runs on the machine counts little. Moves are random and drawn before; a game that ends is dealt anew in the same step.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHAMPION = str(ROOT / "models/champion.pth")
SIZES = (1, 64, 1024, 16384)
# Name, the batch's arguments, and the C++ measurement that does the same work (the random opponent's 10 to 20 ns apart).
ROWS = [
    ("game alone, six random snakes", dict(obs="none", opponent="none"), "game_step_random"),
    ("30 features of a team, against level0", dict(obs="30", opponent="level0"), "game_step_and_observe_30"),
    ("30 features of a team, against level2", dict(obs="30", opponent="level2"), None),
    ("30 features of both teams", dict(obs="30", opponent="none"), None),
    ("view of a team, against level0", dict(obs="view", opponent="level0"), "game_step_and_observe_view"),
    ("view of a team, against level2", dict(obs="view", opponent="level2"), None),
    ("view of both teams", dict(obs="view", opponent="none"), None),
    ("view of a team, against territory", dict(obs="view", opponent="territory"), None),
]  # fmt: skip


def best_rate(round_, per_round, seconds, windows):
    """Things per second of processor time, in the best window. `round_(n)` does them n times."""
    count, best = 1, 0.0
    while True:  # how often fills a window
        start = time.process_time()
        round_(count)
        if (took := time.process_time() - start) > seconds / 4:
            break
        count *= 2
    count = max(1, round(count * seconds / took))
    for _ in range(windows):
        start = time.process_time()
        round_(count)
        best = max(best, per_round * count / (time.process_time() - start))
    return best


def stepping(num_boards, arguments):
    import snake_ddp

    batch = snake_ddp.Boards(num_boards, autoreset="same_step", **arguments)
    batch.reset(seed=1)
    rng = np.random.default_rng(1)
    actions = [rng.integers(0, 4, (num_boards, batch.acting), dtype=np.uint8) for _ in range(32)]

    def round_(count):
        for k in range(count):
            batch.step(actions[k % 32])

    return round_


def playing(num_boards):
    import snake_ddp

    team = snake_ddp.Team(CHAMPION)
    batch = snake_ddp.Boards(num_boards, obs="view", opponent="level2", autoreset="same_step")
    batch.reset(seed=1)

    def round_(count):
        for _ in range(count):
            batch.step(team.moves(batch.observations, batch.open_moves()))

    return round_


def measured(seconds, windows):
    """All of Python's figures at the level that this process has."""
    import snake_ddp
    from snake_ddp import _core

    figures = {name: [best_rate(stepping(n, arguments), n, seconds, windows) for n in SIZES] for name, arguments, _ in ROWS}
    figures["champion.pth by Team.moves, against level2"] = [best_rate(playing(n), n, seconds, windows // 4) for n in (64, 1024)]
    champion = snake_ddp.Team(CHAMPION)
    figures["champion.pth by evaluate, against level2"] = [
        best_rate(lambda count: snake_ddp.evaluate(champion, "level2", games=64 * count), 64 * 200, seconds, windows // 10)
    ]
    return {"level": _core.level(), "figures": figures}


def child_seconds():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime + resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime


def program_rows(program, seconds):
    rows = {}
    for what in ("game", "encode"):
        text = subprocess.run([program, "bench", what, "--seconds", str(seconds * 100), "--json"], capture_output=True, text=True, check=True).stdout
        rows |= {row["name"]: row["value"] for row in json.loads(text)["benches"]}
    return rows


def program_eval(program, windows):
    """Steps per processor second of a match, without the program's start."""
    def run(games):
        before = child_seconds()
        subprocess.run([program, "eval", "--team_a", CHAMPION, "--team_b", "level2", "--games", str(games), "--json"],
                       capture_output=True, check=True)  # fmt: skip
        return child_seconds() - before

    start = min(run(1) for _ in range(windows))
    return max(1024 * 200 / (run(1024) - start) for _ in range(windows))


def text_of(value):
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:.0f} k"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "snake_ddp"))
    parser.add_argument("--seconds", type=float, default=0.02, help="of a window")
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--levels", default="", help="x86-64 levels to measure [the best that this processor has]")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.seconds, options.windows)))
        return
    theirs, theirs_eval = program_rows(options.program, options.seconds), program_eval(options.program, 3)
    for level in options.levels.split(","):
        done = subprocess.run([sys.executable, __file__, "--child", "--seconds", str(options.seconds), "--windows", str(options.windows)],
                              capture_output=True, text=True, env={**os.environ, "SNAKE_DDP_CPU": level})  # fmt: skip
        if done.returncode != 0:
            sys.exit(done.stderr)
        mine = json.loads(done.stdout)
        print(f"\nModule {mine['level']}:\n\n| | {' | '.join(f'{n:,}' for n in SIZES)} | the program | 1,024 : program |")
        print(f"|---|{'---|' * (len(SIZES) + 2)}")
        for name, _, same in ROWS:
            values = mine["figures"].pop(name)
            other = theirs.get(same)
            print(f"| {name} | {' | '.join(map(text_of, values))} | {text_of(other) if other else ''} | {f'{values[2] / other:.2f}' if other else ''} |")
        print("\n| trained team | 64 boards | 1,024 | the program's `eval` | the last : program |\n|---|---|---|---|---|")
        for name, values in mine["figures"].items():
            cells = [*map(text_of, values), ""][:2]
            print(f"| {name} | {' | '.join(cells)} | {text_of(theirs_eval)} | {values[-1] / theirs_eval:.2f} |")


main()
