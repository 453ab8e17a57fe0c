#!/usr/bin/env python3
"""Plays and measures what docs/results.md says of the shipped teams and presets, and writes that page.

  dev/results.py play [--only WORD ...] [--minutes 20] [--games 200]   win rates; other programs on the machine do not change them
  dev/results.py ablation                                   parts of the champion's preset at equal steps; likewise
  dev/results.py full --seeds 1                             its width, epochs and league at its full length: five long runs for each seed
  dev/results.py time speed --minutes 25 [--checkout PYTHON_TRAINER --python PYTHON]   with two cores, on an idle machine
  dev/results.py platform --checkout PLATFORM               the exported expert on the platform's own code
  dev/results.py beat --minutes 30                          trains opponents against the expert
  dev/results.py page                                       docs/results.md, and the results in both READMEs

Rows are stored in docs/results.json: a new one takes the place of that with the same table, name and machine. What is there, of the same
command and of sources that have not changed, is not played again without --again, so that a stopped `play` goes on. Rows that were measured
on a busy machine (--busy) are kept, but are not on the page. The page needs no program and no machine.
"""
import argparse
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ["src", "include", "configs", "models", "cmake", "CMakeLists.txt"]
OF_GAMES = ["src/core", "src/game", "src/kernels", "src/play", "src/nets", "include", "models"]  # what decides a game
CHAMPION, EXPERT = "models/champion.pth", "models/expert.pth"
# (table, team, against, games, seed), quick ones first
MATCHES = [("strength", CHAMPION, foe, 3000, 77) for foe in ("random", "level2", "level4", "evasion", "territory")] + [
    ("strength", EXPERT, "level2", 3000, 77), ("strength", EXPERT, "territory", 3000, 77),
    ("search", f"{CHAMPION}:look1", "territory", 1000, 77), ("search", f"{CHAMPION}:look4", "territory", 1000, 77),
    ("search", f"{EXPERT}:look4", "territory", 1000, 77), ("search", f"{EXPERT}:look4", "level2", 1000, 77),
    ("search", f"{CHAMPION}:puct100", "territory", 1000, 77), ("search", f"{EXPERT}:puct100", "territory", 1000, 77),
    ("search", f"{EXPERT}:puct100", "level2", 1000, 77), ("search", f"{EXPERT}:puct100", f"{CHAMPION}:puct100", 1000, 501),
    ("beats", f"{EXPERT}:puct400", f"{EXPERT}:puct100", 400, 76), ("search", f"{EXPERT}:puct400", "territory", 1000, 77),
    ("search", f"{EXPERT}:puct400", "level2", 1000, 77)]
LADDER = ["random", "level1", "level2", "level4", "evasion", "territory", "tests/data/upstream_actor_2000.pth:softmax", EXPERT, CHAMPION]
LEVELS, SEEDS = (0.8, 0.9, 0.95), (1, 101, 201)  # rank r plays with seed + r: neighbours would share games
# preset: (opponent in the evaluations, episodes between them, share of the minutes for each seed)
TIMES = {"champion.json": ("territory", 1000, 0.13), "ddpg.json": ("level2", 500, 0.08)}
# bench with its flags: {row: what the page calls it}
BENCHES = {
    "game": {"game_step_random": "steps of a board, random moves"},
    "encode": {"game_step_and_observe_view": "steps of a board, and what six snakes see"},
    "search": {"search_evaluations": "evaluations of a team, champion's network", "search_look4": "moves with look4", "search_puct100": "moves with puct100"},
    "update --config configs/champion.json": {"pqn_vdn_update_batch_256": "update, `champion.json`, batch 256"},
    "update --config configs/ddpg.json": {"ddpg_update_batch_128": "update, `ddpg.json`, batch 128"},
    "update --config configs/reference.json": {"ddpg_update_batch_128": "update, `reference.json`, batch 128"},
    "train --rounds 1 --config configs/champion.json": {
        "train_one_rank": "run of one rank, `champion.json`", "train_steps_2_ranks": "run of two ranks, `champion.json`"}}
ON_GPU = {
    "game --device cuda --boards 65536": {"device_game_step_random_65536_boards": "steps of 65,536 boards on the GPU, random moves"},
    "update --device cuda --config configs/dqn.json": {"device_dqn_layer_norm_update_batch_384": "update on the GPU, `dqn.json`, batch 384"}}
FULL = ["base", "hidden_128", "rollout_epochs_1", "hidden_128_epochs_1", "no_league"]
FULL_SEARCHES = ("", "look1", "puct100")
ABLATED = ["base", "again", "window", "no_symmetry", "hidden_128", "self_only", "no_mask", "td_lambda_0.9", "rollout_epochs_1", "pqn"]


# ---- rows ----------------------------------------------------------------------------------------------------------

def wilson(rate, games, z=1.959963984540054):
    """The 95 % interval of a win rate, as `eval` prints it."""
    middle = (rate + z * z / (2 * games)) / (1 + z * z / games)
    half = z * math.sqrt(rate * (1 - rate) / games + z * z / (4 * games * games)) / (1 + z * z / games)
    return middle - half, middle + half


# Two-sided 95 % points of Student's t by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def interval(rates, games):
    """95 % of the mean: over seeds by Student's t, of a single seed by its games (Wilson)."""
    if len(rates) == 1:
        return wilson(rates[0], games)
    half = T_95.get(len(rates) - 1, 1.96) * statistics.stdev(rates) / math.sqrt(len(rates))
    return max(0.0, statistics.mean(rates) - half), min(1.0, statistics.mean(rates) + half)


def commit():
    """The newest one that changed the program, a preset or a team; with + if there are changes besides."""
    newest, changes = (output_of(["git", *words, "--", *SOURCES]).strip() for words in (["log", "-1", "--format=%h", "--abbrev=8"], ["status", "--porcelain"]))
    return newest + ("+" if changes else "")


def machine():
    said = pathlib.Path("/proc/cpuinfo").read_text("utf-8")
    cpu = {key.strip(): value.strip() for key, _, value in (row.partition(":") for row in said.split("\n\n")[0].splitlines())}
    flags = cpu["flags"].split()
    name = re.sub(r"\(R\)|\(TM\)|CPU|@.*|\d+-Core|Processor", "", cpu["model name"])
    if cpu["vendor_id"] == "AuthenticAMD":
        name += {"25": " (Zen 4)" if "avx512f" in flags else " (Zen 3)", "26": " (Zen 5)"}.get(cpu["cpu family"], "")
    vectors = next((word for flag, word in (("amx_bf16", "AMX"), ("avx512_bf16", "AVX512-BF16"), ("avx512f", "AVX-512"), ("avx2", "AVX2"))
                    if flag in flags), "no AVX2")
    gpu = shutil.which("nvidia-smi") and output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).split("\n")[0]
    return ", ".join([" ".join(name.split()), f"{len(os.sched_getaffinity(0))} cores", vectors, gpu or "no GPU"])


def is_idle(seconds=2.0):
    """Whether other programs leave this machine's cores alone."""
    counted = [(time.sleep(pause), pathlib.Path("/proc/stat").read_text("utf-8").splitlines()[0].split()[1:9])[1] for pause in (0, seconds)]
    spent = [int(after) - int(before) for before, after in zip(*counted)]
    return spent[3] + spent[4] > 0.9 * sum(spent)


def key_of(row):
    return row["table"], row["name"], row["machine"]


def stored(path):
    return json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []


def keep(line, table, name, command, found):
    """Stores a row at once, so that what follows may be stopped."""
    found = json.loads(json.dumps(found), parse_float=lambda word: float(f"{float(word):.5g}"))
    row = {"table": table, "name": name, "machine": line.machine, "commit": commit(), "command": command} | found | (
        {"busy": True} if line.busy and table in ("time", "speed", "trainer", "beats") else {})
    rows = sorted([other for other in stored(line.store) if key_of(other) != key_of(row)] + [row], key=key_of)
    line.store.write_text('{"rows": [\n' + ",\n".join(json.dumps(one, ensure_ascii=False) for one in rows) + "\n]}\n", "utf-8")
    print(f"{table}: {name}: {json.dumps(found)}"[:200], flush=True)


def is_known(line, table, name, command):
    """Whether a row of this command is there, and nothing that decides a game has changed since."""
    row = next((row for row in stored(line.store) if key_of(row) == (table, name, line.machine) and row["command"] == command), None)
    return bool(row) and not line.again and subprocess.run(
        ["git", "-C", str(ROOT), "diff", "--quiet", row["commit"].rstrip("+"), "--", *OF_GAMES], capture_output=True).returncode == 0


def output_of(command):
    """What a command prints; ./snake_ddp and files are those of the repository."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {' '.join(command)}")
    return done.stdout


def ours(line, words):
    return output_of([str(line.program), *words.split()])


def match_row(team, against, seed, result):
    return {"team": team, "against": against, "seed": seed} | {
        name: result[name] for name in ("games", "wins", "draws", "losses", "win_rate_ci95", "score_a", "score_b")}


# ---- measurements --------------------------------------------------------------------------------------------------

def short(team):
    return re.sub(r"^models/(\w+)\.pth", r"\1", team)


def play(line):
    command = f"eval --ladder {' '.join(LADDER)} --games {min(1000, line.games)} --seed 1 --anchor random"
    if not line.only and not is_known(line, "ladder", "all pairs", f"./snake_ddp {command}"):
        keep(line, "ladder", "all pairs", f"./snake_ddp {command}", {"ladder": [{name: one[name] for name in (
            "team", "elo", "elo_ci95", "wins", "draws", "losses")} for one in json.loads(ours(line, f"{command} --json"))["ladder"]]})
    until = time.monotonic() + 60 * line.minutes
    for table, team, foe, games, seed in MATCHES:
        name, games = f"{short(team)} against {short(foe)}", min(games, line.games)
        command = f"eval --team_a {team} --team_b {foe} --games {games} --seed {seed}"
        if time.monotonic() < until and all(word in name for word in line.only) and not is_known(line, table, name, f"./snake_ddp {command}"):
            keep(line, table, name, f"./snake_ddp {command}", match_row(short(team), short(foe), seed, json.loads(ours(line, f"{command} --json"))))


def measure_time(line):
    for preset, (opponent, interval, share) in TIMES.items():
        minutes = share * line.minutes * (1.5 if "speed" not in line.what else 1)
        config = line.preset or f"configs/{preset}"
        command = (f"--ddp --world_size 2 --config {config} --eval_opponent {opponent} --eval_interval {interval} --target_win_rate {LEVELS[-1]} "
                   f"--max_minutes {minutes:.2g}")
        runs = []  # for each seed the seconds until the first evaluation that reaches each level
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                ours(line, f"{command} --seed {seed} --runs_dir {folder}")
                reports = [json.loads(text) for text in next(pathlib.Path(folder).glob("*/*/metrics.jsonl")).read_text("utf-8").splitlines()]
            runs.append([next((round(60 * one["minutes"], 1) for one in reports if (one.get("eval/win_rate") or 0) >= level), None) for level in LEVELS])
        keep(line, "time", f"{preset} against {opponent}", f"./snake_ddp {command} --seed SEED", {
            "preset": preset, "against": opponent, "seeds": SEEDS, "limit_s": round(60 * minutes), "seconds": dict(zip(map(str, LEVELS), zip(*runs)))})


def measure_speed(line):
    for what, names in (BENCHES | ({} if line.machine.endswith("no GPU") else ON_GPU)).items():
        seconds = line.minutes * (0.2 if what.startswith("train") else 0.1) * (1 if "time" in line.what else 2)
        command = f"{what} --seconds {max(0.01, seconds):.2g}"
        rounds = [{row["name"]: row for row in json.loads(output_of([str(line.bench), *command.split(), "--json"]))["benches"]}
                  for _ in range(3 if line.minutes >= 1 else 1)]
        for name, words in names.items():
            found = [one[name] for one in rounds]
            keep(line, "speed", words, f"build/release/dev/bench/bench {command}", {"unit": found[0]["unit"]} | {
                part: [of([row[part] for row in found]) for of in (statistics.median, min, max)] for part in ("value", "limit", "ratio")})
    if line.checkout:
        words = f"--seconds {line.minutes * 60 / 60:.2g} --our_seconds {line.minutes * 60 / 150:.2g} --rounds 2"
        said = output_of([sys.executable, "dev/python_reference.py", line.checkout, "--python", line.python, "--bench", str(line.bench), "--json",
                          *words.split()])
        for row in json.loads(said):
            keep(line, "trainer", f"{row['ranks']} ranks", f"dev/python_reference.py CHECKOUT {words}", row)


def ablation(line):
    out = ROOT / "build" / "ablation"
    words = (f"--config {line.preset or 'configs/champion.json'} --opponent territory --steps {line.steps} --seeds {' '.join(map(str, SEEDS))} "
             f"--games 3000 --only {' '.join(ABLATED)}")
    output_of([sys.executable, "dev/ablation.py", "--out", str(out), "--binary", str(line.program), *words.split()])
    runs = json.loads(out.with_suffix(".json").read_text("utf-8"))["runs"]
    for variant in dict.fromkeys(run["variant"] for run in runs):
        found = [run for run in runs if run["variant"] == variant]
        keep(line, "ablation", variant, f"dev/ablation.py --out build/ablation {words}", {
            "what": found[0]["what"], "seeds": [run["seed"] for run in found], "win_rates": [run["win_rate"] for run in found],
            "steps": found[0]["steps"], "updates": found[0]["updates"]})


def full(line):
    out = ROOT / "build" / "full"
    words = ["--config", "configs/champion.json", "--opponent", "territory", "--steps", "48000000", "--games", "3000", "--only", *FULL, "--seeds",
             *map(str, line.seeds), "--networks", "build/full", "--against_base", *FULL_SEARCHES]
    output_of([sys.executable, "dev/ablation.py", "--out", str(out), "--binary", str(line.program), *words])
    found = json.loads(out.with_suffix(".json").read_text("utf-8"))
    for run in (run for run in found["runs"] if run["seed"] in line.seeds):
        matches = {match["search"]: [match[name] for name in ("wins", "draws", "losses", "verdict")] for match in found["matches"]
                   if (match["variant"], match["seed"]) == (run["variant"], run["seed"])}
        keep(line, "full", f"{run['variant']}, seed {run['seed']}", "dev/ablation.py --out build/full " + " ".join(word or '""' for word in words),
             {"variant": run["variant"], "what": run["what"], "seed": run["seed"], "win_rate": run["win_rate"], "matches": matches})


def platform(line):
    with tempfile.TemporaryDirectory() as folder:
        ours(line, f"export --actor {EXPERT} --format submission --output {folder}/team")
        games, cores = min(200, line.games), sorted(os.sched_getaffinity(0))
        command = [line.python, "dev/platform_games.py", "--platform", line.checkout, "--submission", f"{folder}/team", "--json"]
        playing = [subprocess.Popen(["taskset", "-c", str(core), *command, "--games", str(games // len(cores)), "--seed", str(seed)],
                                    cwd=ROOT, stdout=subprocess.PIPE, text=True) for seed, core in enumerate(cores, 1)]
        results = [json.loads(one.communicate()[0].splitlines()[-1]) for one in playing]
    total = {key: sum(one[key] for one in results) for key in ("games", "wins", "draws", "losses")}
    total |= {key: statistics.mean(one[key] for one in results) for key in ("score_a", "score_b")}
    total["win_rate_ci95"] = wilson(total["wins"] / total["games"], total["games"])
    keep(line, "platform", "the submission against territory",
         f"dev/platform_games.py --platform CHECKOUT --submission team --games {games // len(cores)} --seed SEED, one seed on each core",
         match_row("expert as a submission", "territory", ", ".join(map(str, range(1, 1 + len(cores)))), total))


def beat(line):
    with tempfile.TemporaryDirectory() as folder:
        words = (f"{EXPERT} --player_search puct100 --search puct100 --games {min(200, line.games)} --seed 76 --ranks 2 "
                 f"--minutes {line.minutes:g}")
        output_of([sys.executable, "dev/exploit.py", *words.split(), "--binary", str(line.program), "--runs_dir", f"{folder}/runs",
                   "--output", f"{folder}/found.json", "--", "--total_steps", "1000000000"])
        for row in json.loads(pathlib.Path(folder, "found.json").read_text("utf-8"))["found"]:
            team = {"nothing": "trained from nothing", "player": "trained from its weights"}[row["start"]] + f", {line.minutes:g} minutes, with puct100"
            keep(line, "beats", f"{team} against expert:puct100", f"dev/exploit.py {words}", match_row(team, "expert:puct100", 77, row["result"]))


# ---- pages ---------------------------------------------------------------------------------------------------------

# heads of the results, "to", which of FRONT's opponents; heads of the trainers' speeds, a name
READMES = {"README.md": ("team|against|>games|>win rate|95 % interval", "to", 0, "|>ranks|>game steps per second", "the Python trainer's DDP variant"),
           "README.zh.md": ("队伍|对手|>局数|>胜率|95 % 置信区间", "至", 1, "|>rank 数|>每秒步数", "Python 训练器的 DDP 版本")}
# (table, name, team, opponent in English, in Chinese)
FRONT = [("strength", "champion against level2", "`champion.pth`", "level 2, the platform's greedy script", "level 2，平台自带的贪心脚本"),
         ("strength", "champion against territory", "`champion.pth`", "territory", "territory"),
         ("search", "champion:look4 against territory", "`champion.pth:look4`", "territory", "territory"),
         ("search", "expert:puct400 against territory", "`expert.pth:puct400`", "territory", "territory"),
         ("platform", "the submission against territory", "`expert.pth`, exported", "territory, on the platform's code", "territory，在平台官方环境中")]


def percent(*rates):
    """Texts of rates in percent, with two decimals where one hides the losses."""
    digits = 2 if min(rates) > 0.99 else 1
    return [re.sub(r"^100\.0+$", "100", f"{100 * rate:.{digits}f}") for rate in rates]


def figures(row):
    """Win rate and its interval."""
    rate, low, high = percent(row["wins"] / row["games"], *row["win_rate_ci95"])
    return f"{rate} %", f"{low} to {high}"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def grid(heads, rows):
    """Heads that begin with > are of numbers."""
    return ["| " + " | ".join(head.lstrip(">") for head in heads) + " |",
            "|" + "|".join("--:" if head.startswith(">") else "---" for head in heads) + "|",
            *("| " + " | ".join(cells) + " |" for cells in rows)]


def pattern_of(command):
    """A row's command, with what the table's columns say left out."""
    words = {"team_a": "TEAM", "team_b": "AGAINST", "games": "GAMES", "seed": "SEED"}
    return re.sub(rf"--({'|'.join(words)}) \S+", lambda at: f"--{at[1]} {words[at[1]]}", command) if "eval --team_a" in command else command


def with_notes(heads, rows, cells_of):
    """A table, and below it how its rows were made: command, machine, commit. With several of them a column says which."""
    made = [f"`{pattern_of(row['command'])}`; {row['machine']}; commit {row['commit']}." for row in rows]
    notes = list(dict.fromkeys(made))
    if len(notes) == 1:
        return [*grid(heads, [cells for row in rows for cells in cells_of(row)]), "", *notes]
    return [*grid([*heads, ">run"], [[*cells, str(1 + notes.index(note))] for row, note in zip(rows, made) for cells in cells_of(row)]), "",
            *(f"{k}. {note}" for k, note in enumerate(notes, 1))]


def matches(rows):
    return with_notes(["team", "against", ">seed", ">games", ">won", ">drawn", ">lost", ">win rate", "95 % interval", "mean score"], rows, lambda row: [[
        row["team"], row["against"], str(row.get("seed", "")), f"{row['games']:,}", str(row["wins"]), str(row["draws"]), str(row["losses"]), *figures(row),
        f"{row['score_a']:.1f} : {row['score_b']:.1f}"]])


def ladder(rows):
    return with_notes([">Elo", "95 % interval", "team", ">won", ">drawn", ">lost"], rows[:1], lambda row: [[
        f"{one['elo']:.0f}", "{:.0f} to {:.0f}".format(*one["elo_ci95"]) if one["elo_ci95"][0] < one["elo_ci95"][1] else "", short(one["team"]),
        *(f"{one[name]:,}" for name in ("wins", "draws", "losses"))] for one in rows[0]["ladder"]])


def times(rows):
    def cell(row, level):
        found = row["seconds"].get(str(level), [])
        if not found or None in found:
            return f"{sum(one is not None for one in found)} of {len(found)} seeds in {row['limit_s']} s" if found else ""
        return f"{statistics.mean(found):.0f} s" + (f" ({min(found):.0f} to {max(found):.0f})" if len(found) > 1 else "")
    return with_notes(["preset", "against", ">seeds", *(f">{100 * level:.0f} %" for level in LEVELS)], rows, lambda row: [[
        f"`{row['preset']}`", row["against"], str(len(row["seeds"])), *(cell(row, level) for level in LEVELS)]])


def speeds(rows):
    return with_notes(["what", ">value", ">bound", "unit", ">ratio", "least to greatest"], rows, lambda row: [[
        row["name"], number(row["value"][0]), number(row["limit"][0]), row["unit"], f"{row['ratio'][0]:.2f}", f"{row['ratio'][1]:.2f} to {row['ratio'][2]:.2f}"]])


def mean_of(values, to="to"):
    return f"{number(statistics.mean(values))} ({number(min(values))} {to} {number(max(values))})"


def trainers(rows):
    return with_notes([">ranks", ">Python trainer, steps/s", ">snake_ddp, steps/s", ">times"], rows, lambda row: [[
        str(row["ranks"]), mean_of(row["python_steps"]), mean_of(row["our_steps"]), number(statistics.mean(row["our_steps"]) / statistics.mean(row["python_steps"]))]])


def ablations(rows):
    rows = sorted(rows, key=lambda row: (row["name"] != "base", row["name"] != "again", -statistics.mean(row["win_rates"])))
    base, runs = statistics.mean(rows[0]["win_rates"]), len(rows[0]["win_rates"])
    noise = 196 * math.sqrt(statistics.mean(statistics.variance(row["win_rates"]) for row in rows if len(row["win_rates"]) > 1) * 2 / runs)
    return [f"{runs} seeds each; the interval of their mean is Student's. By how much runs of one variant differ, two means of {runs} differ by up to {noise:.1f} points "
            "with nothing changed: smaller differences are noise.", "",
            *with_notes(["variant", "what differs", ">seeds", ">win rate", "95 % interval", ">to the preset"], rows, lambda row: [[
                row["name"], row["what"], str(len(row["seeds"])), f"{percent(statistics.mean(row['win_rates']))[0]} %",
                "{} to {}".format(*percent(*interval(row["win_rates"], 3000))),
                "" if row["name"] == "base" else f"{100 * (statistics.mean(row['win_rates']) - base):+.1f}"]])]


def full_length(rows):
    def cells(variant):
        own = [row for row in rows if row["variant"] == variant]
        low, high = interval([row["win_rate"] for row in own], 3000)
        all_cells = [variant, own[0]["what"], str(len(own)), f"{percent(statistics.mean(row['win_rate'] for row in own))[0]} %", "{} to {}".format(*percent(low, high))]
        for search in FULL_SEARCHES:
            played = [row["matches"][search] for row in own if search in row["matches"]]
            points = [(won + drawn / 2) / (won + drawn + lost) for won, drawn, lost, _ in played]
            said = [verdict for *_, verdict in played]
            all_cells.append(f"{100 * statistics.mean(points):.1f} %, {said.count('above elo0')} stronger, {said.count('below elo1')} weaker" if played else "")
        return all_cells
    variants = dict.fromkeys(row["variant"] for row in sorted(rows, key=lambda row: FULL.index(row["variant"])))
    made = dict.fromkeys(f"`{row['command']}`; {row['machine']}; commit {row['commit']}." for row in rows)
    return [*grid(["variant", "what differs", ">seeds", ">against territory", "95 % interval", *(f"points against the preset{search and ', ' + search}"
                                                                                                  for search in FULL_SEARCHES)], map(cells, variants)), "", *made]


# heading: (table, what is said first, how it is written)
PAGE = {
    "Without a search": ("strength", "Each snake makes its best move that is not certain death.", matches),
    "Ladder": ("ladder", "All pairs, 1,000 games each. `upstream_actor_2000.pth` is a public actor of the Python trainer.", ladder),
    "With a search": ("search", "[What look and puct do](learners/search.md).", matches),
    "Who beats the expert": ("beats", "A team can be strong on average and easy to beat for an opponent that knows it. `dev/exploit.py` trains opponents against the "
                             "team's frozen network; both sides search in the games.", matches),
    "As a submission": ("platform", "`snake_ddp export --format submission`, on the platform's own code, half of the games on each side. The submission searches with up "
                        "to 1,024 simulations within 250 ms a step; a slower machine makes fewer.", matches),
    "Time to strength": ("time", "Seconds of training on two ranks, evaluations included, to the first evaluation that reaches the rate: mean, least and greatest of the "
                         "seeds. An evaluation is 1,000 games: 95 % are 93.5 to 96.2.", times),
    "What each part of the champion's preset is worth": (
        "ablation", "One rank, as many steps for each variant, then 3,000 games against territory without a search.", ablations),
    "Width, epochs and league at full length": (
        "full", "One rank, 48 million steps each; then 3,000 games against territory without a search, and matches with the preset's run of the same seed until a "
        "sequential test of -10 against 10 Elo ends, at most 3,000 games.", full_length),
    "Speed and its bounds": ("speed", "Medians of three rounds. The bound is measured in the same process: for an update its matrix products alone, for a search its "
                             "evaluations, for boards the bytes moved, for a run its parts by themselves or the run of one rank.", speeds),
    "Beside the Python trainer": ("trainer", "The Python trainer's DDP variant with its own flags, one board and one update of batch 128 a step, on the same cores in "
                                  "turn; steps of all ranks: mean, least and greatest of the rounds.", trainers)}
OPENING = """# Results

`dev/results.py` plays and measures what is here, and writes this page from `docs/results.json`. `champion` is `models/champion.pth`, `expert` is
`models/expert.pth`; the others are [scripted teams](reference/commands.md). Win rates count wins only, sides are swapped after each game, and intervals are 95 %
(Wilson). Games are the same on the same kind of processor; on another one a few of a thousand end differently. Below each table: its command, machine and commit."""


def pages(rows):
    """{name: text} of the page and of both READMEs, whose other text stays."""
    rows = [row for row in rows if not row.get("busy")]
    page = [OPENING]
    for heading, (table, says, written) in PAGE.items():
        if found := [row for row in rows if row["table"] == table]:
            page += ["", f"## {heading}", "", says, "", *written(found)]
    made = {"docs/results.md": "\n".join(page) + "\n"}
    for name, (heads, to, language, paces, python) in READMES.items():
        cells = []
        for table, of, team, *foes in FRONT:
            for row in sorted((row for row in rows if (row["table"], row["name"]) == (table, of)), key=lambda row: row["games"])[-1:]:
                cells.append([team, foes[language], f"{row['games']:,}", figures(row)[0], figures(row)[1].replace("to", to)])
        tables = {"results": grid(heads.split("|"), cells)} | {"trainer": grid(paces.split("|"), [
            [python, "2", mean_of(row["python_steps"], to)], ["snake_ddp", "2", mean_of(row["our_steps"], to)]])
            for row in rows if row["table"] == "trainer" and row["ranks"] == 2}
        made[name] = (ROOT / name).read_text("utf-8")
        for block, table in tables.items():
            made[name] = re.sub(rf"(<!-- {block} -->\n).*?(<!-- /{block} -->)", lambda at: "\n".join([at[1] + table[0], *table[1:], at[2]]), made[name], flags=re.S)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=["play", "time", "speed", "ablation", "full", "platform", "beat", "page"])
    parser.add_argument("--minutes", type=float, default=30, help="`play` starts no more games after them; `time`, `speed`, `beat`: as long as they take [30]")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="`play`: matches with all these words in their names")
    parser.add_argument("--games", type=int, default=10**6, help="at most, of each match")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of each run of the ablation [1,000,000]")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of `full`")
    parser.add_argument("--again", action="store_true", help="also what is there")
    parser.add_argument("--busy", action="store_true", help="measure times although other programs run; such rows are not on the page")
    parser.add_argument("--preset", help="in place of those that are trained, for a test")
    parser.add_argument("--checkout", help="a working copy of the Python trainer, for `speed`, or of the platform's repository, for `platform`")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with what these two need")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "snake_ddp")
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/release/dev/bench/bench")
    parser.add_argument("--store", type=pathlib.Path, default=ROOT / "docs" / "results.json")
    line = parser.parse_args()
    line.machine = machine()
    if {"time", "speed", "beat"} & set(line.what) and not line.busy and not is_idle():
        parser.error("other programs use this machine: times would be theirs; wait, or measure with --busy what will not be on the page")
    if "platform" in line.what and not line.checkout:
        parser.error("platform needs --checkout, a working copy of the platform's repository")
    for what in line.what:
        {"play": play, "time": measure_time, "speed": measure_speed, "ablation": ablation, "full": full, "platform": platform, "beat": beat,
         "page": lambda line: [(ROOT / name).write_text(text, "utf-8") for name, text in pages(stored(line.store)).items()]}[what](line)


if __name__ == "__main__":
    main()
