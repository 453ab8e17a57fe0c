#!/usr/bin/env python3
"""Measures the Python package beside the C++ program, in steps of a board per second of processor time.

  dev/python_door.py [--program ./snake_ddp] [--bench build/release/dev/bench/bench] [--rounds 3] [--levels v2,v3,v4] [--platform CHECKOUT]

Needs an environment with the package (docs/python.md) and a build. Prints Markdown tables: the best window of each, so
that other load on the machine matters little; all are measured in turn, in rounds. Moves are random and drawn in advance; a new game
starts in the step in which one ends.
CHECKOUT is a working copy of the competition's repository, with its environment in `env` and its trainer's features in
`rl_trainer`; you bring it yourself. It imports gym (gymnasium has all that it uses), torch and pillow.
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
# Name, the batch's arguments, and the C++ measurement of the same work (except for the random opponent's 10 to 20
# ns).
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
TEAM_ROWS = ("champion.pth by Team.moves, against level2", "champion.pth by evaluate, against level2")


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


def platform_figures(checkout, seconds, windows):
    """The platform's own environment: its step, and its step with the 26 features that its trainer computes for a team."""
    import gymnasium

    sys.modules |= {"gym": gymnasium, "gym.utils": gymnasium.utils}
    os.chdir(checkout)  # it reads env/config.json in the current folder
    sys.path[:0] = [checkout, str(pathlib.Path(checkout, "rl_trainer"))]
    from common import get_observations
    from env.chooseenv import make

    game = make("snakes_3v3", conf=None)
    one_hot = np.eye(4, dtype=int).tolist()
    actions = [[[one_hot[a]] for a in row] for row in np.random.default_rng(1).integers(0, 4, (500, 6)).tolist()]

    def stepping(see):
        def round_(count):
            for k in range(count):
                seen = game.reset() if game.is_terminal() else game.step(actions[k % len(actions)])[0]
                see(seen[0])

        return best_rate(round_, 1, seconds, windows)

    return {
        "game alone": [stepping(lambda _: None)],
        "26 features of a team": [stepping(lambda seen: get_observations(seen, [0, 1, 2], 26, game.board_height, game.board_width))],
    }


def measured(seconds, windows):
    """All of Python's figures at the level that this process has."""
    import snake_ddp
    from snake_ddp import _core

    figures = {name: [best_rate(stepping(n, arguments), n, seconds, windows) for n in SIZES] for name, arguments, _ in ROWS}
    figures[TEAM_ROWS[0]] = [best_rate(playing(n), n, seconds, windows // 4) for n in (64, 1024)]
    champion = snake_ddp.Team(CHAMPION)
    figures[TEAM_ROWS[1]] = [
        best_rate(lambda count: snake_ddp.evaluate(champion, "level2", games=64 * count), 64 * 200, seconds, windows // 4)
    ]
    return {"level": _core.level(), "figures": figures}


def child_seconds():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime + resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime


def program_rows(bench, seconds):
    rows = {}
    for what in ("game", "encode"):
        text = subprocess.run([bench, what, "--seconds", str(seconds * 100), "--json"], capture_output=True, text=True, check=True).stdout
        rows |= {row["name"]: [row["value"]] for row in json.loads(text)["benches"]}
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


def module_figures(level, seconds, windows):
    done = subprocess.run([sys.executable, __file__, "--child", "--seconds", str(seconds), "--windows", str(windows)],
                          capture_output=True, text=True, env={**os.environ, "SNAKE_DDP_CPU": level})  # fmt: skip
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def keep_best(best, figures):
    for name, values in figures.items():
        best[name] = [max(pair) for pair in zip(best.get(name, values), values)]


def print_tables(level, mine, theirs, platform):
    print(f"\nModule {level}:\n\n| | {' | '.join(f'{n:,}' for n in SIZES)} | the program | 1,024 : program |")
    print(f"|---|{'---|' * (len(SIZES) + 2)}")
    for name, _, same in ROWS:
        other = theirs[same][0] if same else 0
        print(f"| {name} | {' | '.join(map(text_of, mine[name]))} | {text_of(other) if other else ''} | {f'{mine[name][2] / other:.2f}' if other else ''} |")
    print("\n| trained team | 64 boards | 1,024 | the program's `eval` | the last : program |\n|---|---|---|---|---|")
    other = theirs["eval"][0]
    for name in TEAM_ROWS:
        cells = [*map(text_of, mine[name]), ""][:2]
        print(f"| {name} | {' | '.join(cells)} | {text_of(other)} | {mine[name][-1] / other:.2f} |")
    if platform:
        print("\n| the platform's environment | it | the package, 1,024 boards | the package : it |\n|---|---|---|---|")
    for (name, [value]), row in zip(platform.items(), ROWS):
        print(f"| {name} | {text_of(value)} | {text_of(mine[row[0]][2])} | {mine[row[0]][2] / value:,.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "snake_ddp"))
    parser.add_argument("--bench", default=str(ROOT / "build/release/dev/bench/bench"))
    parser.add_argument("--seconds", type=float, default=0.02, help="of a window")
    parser.add_argument("--windows", type=int, default=20, help="of a figure in a round")
    parser.add_argument("--rounds", type=int, default=3, help="in each, all are measured in turn")
    parser.add_argument("--levels", default="", help="x86-64 levels to measure [the best that this processor has]")
    parser.add_argument("--platform", metavar="CHECKOUT", help="measure its environment, too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seconds, windows = options.seconds, options.windows
    if options.child:
        print(json.dumps(measured(seconds, windows)))
        return
    program, bench = (str(pathlib.Path(path).resolve()) for path in (options.program, options.bench))  # the platform's environment needs another current folder
    theirs, platform, modules = {}, {}, {}
    for _ in range(options.rounds):
        keep_best(theirs, program_rows(bench, seconds) | {"eval": [program_eval(program, 3)]})
        if options.platform:
            keep_best(platform, platform_figures(options.platform, seconds, windows))
        for level in options.levels.split(","):
            mine = module_figures(level, seconds, windows)
            keep_best(modules.setdefault(mine["level"], {}), mine["figures"])
    for level, mine in modules.items():
        print_tables(level, mine, theirs, platform)


main()
