#!/usr/bin/env python3
"""What each part of a preset is worth: trains variants that differ in one setting for the same time or steps, and evaluates them.

  dev/ablation.py --minutes 5 --seeds 1 101 201 --out ablation                   writes ablation.json
  dev/ablation.py --steps 2000000 --out champion --config configs/champion.json --opponent territory --only base again window
  dev/ablation.py --steps 48000000 … --networks DIR --against_base "" look1 puct100      matches of each variant with the preset

Each run is one rank with one thread, pinned to its own core; as many run at once as --cores names. With --minutes a faster variant makes
more steps; with --steps other programs on the machine do not change the result. The final actor of each plays --games games against
--opponent, sides swapped, always the same games. "again" is the preset with other seeds: what differs from it by no more is noise.
Runs that are already in the JSON file are skipped, so that a stopped ablation can be continued. With --against_base each variant's actor
plays the preset's of the same seed, without a search or with each that is named, until a sequential test ends (`eval --sprt`) or --games.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

import presets
from results import interval

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
    "hidden_128_epochs_1": ("half as wide, each rollout once", {"hidden_size": 128, "rollout_epochs": 1}),
    "no_league": ("plays itself instead of the league", {"opponent_mix": "level2:0.1,territory:0.35,self:0.55"}),
    "rollout_epochs_4": ("each rollout four times, twice as many updates", {"rollout_epochs": 4}),
    "c_lr_0.0008": ("twice the learning rate", {"c_lr": 0.0008}),
}
AGAIN = {"again": ("the preset with other seeds", {})}
VARIANTS = {"ddpg": OF_DDPG | AGAIN, "dqn": OF_DQN | AGAIN, "pqn_vdn": OF_PQN_VDN | AGAIN}
OTHER_SEEDS = 1000  # "again" adds this


def as_text(value):
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def flags_of(changes):
    return [f"--{name}={as_text(value)}" for name, value in changes.items()]


def train_line(line, changes, seed, runs_dir):
    budget = ["--max_minutes", "0", "--total_steps", str(line.steps)] if line.steps else [
        "--max_minutes", str(line.minutes), "--max_episodes", "1000000000"]
    return [line.binary, "train", "--config", str(line.config), "--seed", str(seed), "--runs_dir", runs_dir, "--threads", "1",
            "--eval_interval", "0", *budget, *flags_of(changes), *line.flag]


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
    what, changes = line.variants[name]
    with tempfile.TemporaryDirectory() as folder:
        said = checked([*pinned, *train_line(line, changes, seed + OTHER_SEEDS * (name == "again"), folder)])
        run = next((pathlib.Path(folder) / "snakes_3v3").iterdir())
        steps, updates = re.search(r"(\d+) steps, (\d+) updates", said).groups()
        judged = json.loads(checked([*pinned, line.binary, "eval", "--team_a", str(last_actor(run)), "--team_b", line.opponent,
                                     "--games", str(line.games), "--seed", "77", "--json"]))
        if line.networks:
            shutil.copyfile(last_actor(run), line.networks / f"{name}_{seed}.pth")
    return {"variant": name, "what": what, "seed": seed, "steps": int(steps), "updates": int(updates), "win_rate": judged["win_rate"]}


def play_base(line, name, seed, search, core):
    """The variant's actor against the preset's of the same seed, on `core`."""
    teams = [str(line.networks / f"{of}_{seed}.pth") + (search and f":{search}") for of in (name, "base")]
    played = json.loads(checked(["taskset", "-c", str(core), line.binary, "eval", "--team_a", teams[0], "--team_b", teams[1], "--sprt",
                                 *map(str, line.elo), "--games", str(line.games), "--seed", str(seed), "--json"]))
    return {"variant": name, "seed": seed, "search": search,
            **{key: played[key] for key in ("games", "wins", "draws", "losses", "elo", "verdict")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--steps", type=int, help="of all boards, in place of --minutes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 101, 201])
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="path of the JSON file, without its ending")
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help="[all of the preset's]")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0))[:2])
    parser.add_argument("--config", type=pathlib.Path, default=BASE)
    parser.add_argument("--binary", default=str(ROOT / "snake_ddp"))
    parser.add_argument("--flag", action="append", default=[], help="one more flag of every run, as --flag=--hidden_size=64")
    parser.add_argument("--opponent", default="level2", help="opponent in the evaluation")
    parser.add_argument("--networks", type=pathlib.Path, metavar="DIR", help="keeps the final actors as VARIANT_SEED.pth")
    parser.add_argument("--against_base", nargs="+", metavar="SEARCH", help='searches of the matches with the preset, "" for none')
    parser.add_argument("--elo", type=float, nargs=2, default=[-10, 10], help="bounds of the sequential test")
    line = parser.parse_args()
    algo = presets.read(line.config).get("algo", "ddpg")
    if algo not in VARIANTS:
        parser.error(f"--config {line.config}: --algo {algo}; there are variants of {', '.join(VARIANTS)}")
    line.variants = VARIANTS[algo]
    if line.against_base and not line.networks:
        parser.error("--against_base needs --networks")
    unknown = sorted(set(line.only or []) - set(line.variants))
    if unknown:
        parser.error(f"--only {' '.join(unknown)}: of {algo} there are {' '.join(line.variants)}")
    line.only = line.only or list(line.variants)

    setting = {"config": presets.read(line.config), "games": line.games, "flags": line.flag, "opponent": line.opponent,
               **({"steps": line.steps} if line.steps else {"minutes": line.minutes})}
    json_file = line.out.with_name(line.out.name + ".json")
    json_file.parent.mkdir(parents=True, exist_ok=True)
    if line.networks:
        line.networks.mkdir(parents=True, exist_ok=True)
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

    def work(play, store, job):
        core = cores.get()
        try:
            found = play(line, *job, core)
        finally:
            cores.put(core)
        with writing:
            document[store].append(found)
            json_file.write_text(json.dumps(document, indent=1) + "\n")
        said = f"{100 * found['win_rate']:.1f} %" if store == "runs" else f"{found['search']} {found['verdict']}, {found['elo'][0]:+.0f} Elo"
        print(f"{found['variant']} seed {found['seed']}: {said}", flush=True)

    def work_all(play, store, jobs):
        with concurrent.futures.ThreadPoolExecutor(len(line.cores)) as pool:
            for done in [pool.submit(work, play, store, job) for job in jobs]:
                done.result()

    work_all(run_one, "runs", todo)
    if line.against_base:
        made = {(match["variant"], match["seed"], match["search"]) for match in document.setdefault("matches", [])}
        matches = [(name, seed, search) for search in line.against_base for seed in line.seeds for name in line.only]
        work_all(play_base, "matches", [job for job in matches if job not in made and job[0] not in ("base", "again")])
    for name in line.only:
        rates = [run["win_rate"] for run in document["runs"] if run["variant"] == name]
        low, high = interval(rates, line.games)
        print(f"{name:<18} {len(rates)} seeds, {100 * statistics.mean(rates):.1f} % [{100 * low:.1f}, {100 * high:.1f}]  {line.variants[name][0]}")


if __name__ == "__main__":
    main()
