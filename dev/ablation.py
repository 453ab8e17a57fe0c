#!/usr/bin/env python3
"""What each part of a preset is worth: trains variants that differ in one setting for the same time, and evaluates them.

  dev/ablation.py --minutes 5 --seeds 1 101 201 --out ablation         writes ablation.md and ablation.json
  dev/ablation.py --minutes 5 --seeds 1 101 201 --out ablation --only base n_step_1
  dev/ablation.py --config configs/champion.json --opponent territory --search look1 --minutes 1 --out champion

Each run is one rank with one thread, pinned to its own core; as many run at once as --cores names. The final actor
of each plays --games games against --opponent, sides swapped, always the same games, and with --search as many again.
Runs that are already in the JSON file are skipped, so that a stopped ablation can be continued.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs" / "pictures"))
from make_pictures import wilson  # noqa: E402

BASE = ROOT / "configs" / "ddpg.json"

# By learner; name: (what differs, flags over the base)
OF_DDPG = {
    "base": ("the preset", {}),
    "num_envs_16": ("16 boards instead of 256", {"num_envs": 16}),
    "replay_ratio_x2": ("twice the updates per step", {"updates_per_step": 0.0625}),
    "n_step_1": ("1-step returns instead of 3", {"n_step": 1}),
    "reward_scale_0.1": ("rewards times 0.1", {"reward_scale": 0.1}),
    "no_layer_norm": ("no layer norm in the critic", {"layer_norm": False}),
    "no_epsilon_ladder": ("one epsilon for all boards, decaying to 0", {"epsilon_min": 0}),
    "tau_0.001": ("targets ten times slower", {"tau": 0.001}),
    "tau_0.05": ("targets five times faster", {"tau": 0.05}),
    "no_expected_value": ("value of the actor's output itself", {"expected_value": False}),
}
OF_VALUES = {  # for every learner of values
    "base": ("the preset", {}),
    "window": ("does not see where its moves lead", {"obs": "window"}),
    "rival_reward_0": ("the opponents' rewards do not count", {"rival_reward": 0}),
    "gamma_0.97": ("gamma 0.97 instead of 0.99", {"gamma": 0.97}),
    "no_symmetry": ("weights without mirror symmetry", {"mirror_symmetric": False}),
    "hidden_128": ("half as wide", {"hidden_size": 128}),
    "self_only": ("plays only against itself", {"opponent_mix": "self"}),
    "level2_only": ("plays only against level 2", {"opponent_mix": "level2"}),
    "no_mask": ("fatal moves are learned, not masked", {"mask_fatal": False}),
}
OF_DQN = OF_VALUES | {
    "own_reward_1": ("each snake its own reward", {"own_reward": 1}),
    "vdn": ("team values, summed over the snakes", {"algo": "vdn", "own_reward": 1}),  # undoes the preset's: a sum has none
    "qmix": ("team values from a mixing network", {"algo": "qmix", "own_reward": 1, "mirror_symmetric": False}),
    "ddpg": ("DDPG with the preset's settings", {"algo": "ddpg", "expected_value": True, "mirror_symmetric": False}),
    "own_reward_0.5": ("half its own, half the team's", {"own_reward": 0.5}),
    "n_step_1": ("1-step returns instead of 3", {"n_step": 1}),
    "n_step_5": ("5-step returns", {"n_step": 5}),
    "no_layer_norm": ("no layer norm", {"layer_norm": False}),
}
OF_PQN_VDN = OF_VALUES | {
    "pqn": ("values of single snakes, not summed", {"algo": "pqn", "own_reward": 0}),
    "td_lambda_0": ("1-step returns", {"td_lambda": 0}),
    "td_lambda_0.9": ("lambda 0.9 instead of 0.65", {"td_lambda": 0.9}),
    "rollout_epochs_1": ("each rollout once, half as many updates", {"rollout_epochs": 1}),
    "rollout_epochs_4": ("each rollout four times, twice as many updates", {"rollout_epochs": 4}),
    "c_lr_0.0008": ("twice the learning rate", {"c_lr": 0.0008}),
}
VARIANTS = {"ddpg": OF_DDPG, "dqn": OF_DQN, "pqn_vdn": OF_PQN_VDN}
# Two-sided 95 % points of Student's t by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def as_text(value):
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def flags_of(changes):
    return [f"--{name}={as_text(value)}" for name, value in changes.items()]


def train_line(line, changes, seed, runs_dir):
    return [line.binary, "train", "--config", str(line.config), "--seed", str(seed), "--runs_dir", runs_dir, "--threads", "1",
            "--max_minutes", str(line.minutes), "--eval_interval", "0", "--max_episodes", "1000000000",
            *flags_of(changes), *line.flag]


def last_actor(run):
    actors = {int(found[1]): path for path in (run / "trained_model").glob("actor_*.pth")
              if (found := re.fullmatch(r"actor_(\d+)\.pth", path.name))}
    return actors[max(actors)]


def checked(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-500:]}{done.stderr[-1500:]}")
    return done.stdout


def run_one(line, name, seed, core):
    """Trains and evaluates on `core`."""
    pinned = ["taskset", "-c", str(core)]
    with tempfile.TemporaryDirectory() as folder:
        said = checked([*pinned, *train_line(line, line.variants[name][1], seed, folder)])
        run = next((pathlib.Path(folder) / "snakes_3v3").iterdir())
        steps, updates = re.search(r"(\d+) steps, (\d+) updates", said).groups()

        def win_rate(search):
            judged = json.loads(checked([*pinned, line.binary, "eval", "--team_a", f"{last_actor(run)}{search}", "--team_b", line.opponent,
                                         "--games", str(line.games), "--seed", "77", "--json"]))
            return {"win_rate": judged["win_rate"], "ci95": judged["win_rate_ci95"]}

        found = {"variant": name, "seed": seed, "steps": int(steps), "updates": int(updates), **win_rate("")}
        if line.search:
            found["searching"] = win_rate(f":{line.search}")
        if line.keep:
            run.rename(line.keep / f"{name}.seed{seed}")
    return found


def interval(rates, games):
    """95 % of the mean: over seeds by Student's t, of a single seed by its games (Wilson)."""
    if len(rates) == 1:
        return wilson(rates[0], games)
    half = T_95.get(len(rates) - 1, 1.96) * statistics.stdev(rates) / math.sqrt(len(rates))
    return max(0.0, statistics.mean(rates) - half), min(1.0, statistics.mean(rates) + half)


def rates_in_percent(rates, base, games):
    """Cells of a table: mean, extremes, interval of the mean, difference to the base's mean if there is one."""
    low, high = interval(rates, games)
    to_base = f"{100 * (statistics.mean(rates) - statistics.mean(base)):+.1f}" if base else ""
    return f"{100 * statistics.mean(rates):.1f} | {100 * min(rates):.1f} | {100 * max(rates):.1f} | {100 * low:.1f} to {100 * high:.1f} | {to_base} |"


def markdown(line, runs):
    rows = [f"`{line.config.name}`, {line.minutes:g} minutes on one core for each run, {line.games} games against {line.opponent} "
            "with the final actor; win rates in %, 95 % interval of the mean over the seeds.", "",
            "| variant | what differs | seeds | mean | min | max | 95 % interval | to base | "
            + (f"with {line.search} | min | max | 95 % interval | to base | " if line.search else "") + "million steps | thousand updates |",
            "|---|---|---|---|---|---|---|---|---|---|" + ("---|---|---|---|---|" if line.search else "")]
    by_variant = {name: [run for run in runs if run["variant"] == name] for name in line.variants}
    for name, found in by_variant.items():
        if not found:
            continue
        base = by_variant["base"] if name != "base" else []
        row = f"| {name} | {line.variants[name][0]} | {len(found)} | " + rates_in_percent(
            [run["win_rate"] for run in found], [run["win_rate"] for run in base], line.games)
        if line.search:
            row += " " + rates_in_percent([run["searching"]["win_rate"] for run in found],
                                          [run["searching"]["win_rate"] for run in base], line.games)
        rows.append(f"{row} {statistics.mean(run['steps'] for run in found) / 1e6:.1f} | "
                    f"{statistics.mean(run['updates'] for run in found) / 1e3:.1f} |")
    return "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 101, 201])
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="path of the two files, without their endings")
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help="[all of the preset's]")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0))[:2])
    parser.add_argument("--config", type=pathlib.Path, default=BASE)
    parser.add_argument("--binary", default=str(ROOT / "snake_ddp"))
    parser.add_argument("--flag", action="append", default=[], help="one more flag of every run, as --flag=--hidden_size=64")
    parser.add_argument("--keep", type=pathlib.Path, help="move the runs' folders there")
    parser.add_argument("--opponent", default="level2", help="opponent in the evaluation")
    parser.add_argument("--search", help="evaluate with this search, too; for example look1")
    line = parser.parse_args()
    algo = json.loads(line.config.read_text()).get("algo", "ddpg")
    if algo not in VARIANTS:
        parser.error(f"--config {line.config}: --algo {algo}; there are variants of {', '.join(VARIANTS)}")
    line.variants = VARIANTS[algo]
    unknown = sorted(set(line.only or []) - set(line.variants))
    if unknown:
        parser.error(f"--only {' '.join(unknown)}: of {algo} there are {' '.join(line.variants)}")
    line.only = line.only or list(line.variants)

    if line.keep:
        line.keep.mkdir(parents=True, exist_ok=True)
    setting = {"config": json.loads(line.config.read_text()), "minutes": line.minutes, "games": line.games, "flags": line.flag, "opponent": line.opponent}
    if line.search:
        setting["search"] = line.search
    json_file, table_file = line.out.with_name(line.out.name + ".json"), line.out.with_name(line.out.name + ".md")
    document = {"setting": setting, "runs": []}
    if json_file.exists():
        document = json.loads(json_file.read_text())
        if document["setting"] != setting:
            sys.exit(f"{json_file} is from other settings; choose another --out or remove it")
    for name in list(line.only):
        done = subprocess.run([*train_line(line, line.variants[name][1], 1, "runs"), "--check_settings"], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"left out {name}: {done.stderr.strip()}", file=sys.stderr)
            line.only.remove(name)
    made = {(run["variant"], run["seed"]) for run in document["runs"]}
    # Seed by seed, so that an interrupted ablation has compared all variants.
    todo = [(name, seed) for seed in line.seeds for name in line.only if (name, seed) not in made]

    cores = queue.SimpleQueue()
    for core in line.cores:
        cores.put(core)
    writing = threading.Lock()

    def work(job):
        core = cores.get()
        try:
            found = run_one(line, *job, core)
        finally:
            cores.put(core)
        with writing:
            document["runs"].append(found)
            json_file.write_text(json.dumps(document, indent=1) + "\n")
            table_file.write_text(markdown(line, document["runs"]))
        print(f"{found['variant']} seed {found['seed']}: {100 * found['win_rate']:.1f} %", flush=True)

    with concurrent.futures.ThreadPoolExecutor(len(line.cores)) as pool:
        for done in [pool.submit(work, job) for job in todo]:
            done.result()
    print(markdown(line, document["runs"]), end="")


if __name__ == "__main__":
    main()
