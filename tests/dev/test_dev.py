"""The programs of `dev`: that benches and scripts run and compute correctly, never their speed."""

import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from processes import BINARY, BUILD, SOURCE, TINY, call, flags, help_groups, only_json, run_folder

DEV = SOURCE / "dev"
BENCH = BUILD / "dev" / "bench" / "bench"
sys.path.insert(0, str(DEV))
import ablation  # noqa: E402
import compare  # noqa: E402
import presets  # noqa: E402
import results  # noqa: E402
import scaling_model  # noqa: E402


def script(*line, **variables):
    return subprocess.run([str(word) for word in line], env=os.environ | {name: str(value) for name, value in variables.items()},
                          capture_output=True, text=True, timeout=300)


def bench(*line, least_s="0.01", **variables):
    done = script(BENCH, *line, "--seconds", least_s, "--json", **variables)
    assert done.returncode == 0, done.stderr
    rows = only_json(done.stdout)["benches"]
    assert len({row["name"] for row in rows}) == len(rows) > 0
    for row in rows:
        assert list(row) == ["name", "value", "unit", "limit", "ratio"]
        assert all(math.isfinite(row[field]) and row[field] > 0 for field in ("value", "limit", "ratio")) and row["unit"]
    return {row["name"]: row for row in rows}


def small(tmp_path, **settings):
    """Settings whose first update comes at once."""
    (tmp_path / "small.json").write_text(json.dumps({"hidden_size": 16, "batch_size": 16, "buffer_size": 1000} | settings))
    return "--config", tmp_path / "small.json"


@pytest.mark.parametrize("what, row", [("game", "game_step_random"), ("encode", "observe_30"), ("act", "opponent_level2_ns"),
                                       ("search", "search_evaluations")])
def test_a_bench_prints_values_with_their_limits(what, row):
    assert row in bench(what)


def test_every_learner_has_its_products_in_the_update_bench(tmp_path):
    for algo in only_json(call("info", "--json").stdout)["learners"]:
        rows = bench("update", "--algo", algo, *small(tmp_path, batch_size=32))
        assert list(rows) == [f"{algo}_update_batch_32", "matrix_products_batch_32"]


def test_the_benches_of_devices_run_their_work_on_the_cpu(tmp_path):
    assert list(bench("game", "--device", "pieces", "--boards", "65", "--boards", "3", least_s="0.02")) == [
        f"device_{what}_{boards}_boards" for boards in (65, 3)
        for what in ("game_step_random", "game_step_and_observe_30", "step_ddpg_30_level2", "step_dqn_view_territory")]
    for products in ("float32", "tf32"):
        name = "device_dqn_layer_norm_update" + ("" if products == "float32" else f"_{products}")
        assert list(bench("update", "--device", "pieces", "--products", products, *small(tmp_path, algo="dqn", layer_norm=True))) == [
            f"{name}_batch_16", f"{name}_eager_batch_16"]


def test_the_bench_of_all_reduces_has_both_ways_and_all_sizes(tmp_path):
    rows = bench("allreduce", "--rounds", 1, *small(tmp_path))
    for way in ("shared_memory", "gloo"):
        assert sum(name.endswith(way) for name in rows) == 14


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_bench_of_runs_compares_ranks_with_one(tmp_path):
    rows = bench("train", "--rounds", 1, "--busy", 1, *small(tmp_path))
    parts = {"train_play", "train_draw", "train_learn"}
    assert sum(rows[part]["value"] for part in parts) == pytest.approx(rows["train_one_rank"]["limit"])
    assert set(rows) == parts | {"train_one_rank"} | {f"train_{what}_{way}" for what in ("steps", "updates")
                                              for way in ("1_rank", "2_ranks", "2_runs_apart")}


@pytest.mark.parametrize("line, says", [(["speed"], "speed not in"), (["search", "--products", "tf32"], "float32 or bf16"),
                                        (["update", "--algo", "dnq"], "--algo dnq: not a known value"), (["train", "--ranks", "256"], "needs as many cores"),
                                        (["update", "--algo", "bicnet", "--device", "pieces"], "--algo bicnet has no updates that can be recorded")])
def test_a_bench_that_cannot_run_says_why(line, says):
    done = script(BENCH, *line)
    assert done.returncode == 2 and says in done.stderr and not done.stdout, done.stderr


def test_a_comparison_shows_medians_and_spread(tmp_path):
    for name, step_us, rate in (("a0", 2.0, 100), ("b0", 4.0, 50), ("a1", 2.0, 100), ("b1", 3.0, 200), ("a2", 2.0, 100), ("b2", 2.0, 100)):
        rows = [{"name": "step", "value": step_us, "unit": "us"}, {"name": "runs", "value": rate, "unit": "steps/s"}]
        (tmp_path / f"{name}.json").write_text(json.dumps({"benches": rows}))
    assert list(compare.table(tmp_path, 3)) == [("step", "us", 2.0, 3.0, 1.5, 1.0, 2.0),
                                                     ("runs", "us/step", 1e4, 1e4, 1.0, 0.5, 2.0)]


def test_two_builds_or_presets_can_be_compared(tmp_path):
    done = script(DEV / "compare.sh", BUILD, BUILD, "act", ROUNDS=2, SECONDS_EACH=0.01, CORE="")
    assert done.returncode == 0, done.stderr
    assert all(float(word) > 0 for line in done.stdout.splitlines()[1:] for word in line.split()[2:5])
    done = script(DEV / "compare.sh", tmp_path, tmp_path)
    assert done.returncode == 2 and "neither a preset" in done.stderr
    assert script(DEV / "compare.sh").returncode == 2


def test_the_reference_preset_is_what_the_program_does_without_flags(tmp_path):
    preset = presets.read(SOURCE / "configs" / "reference.json")
    done = call("--runs_dir", tmp_path, "--max_episodes", "1", "--batch_size", "8")
    assert done.returncode == 0, done.stderr
    defaults = json.loads((run_folder(done.stdout) / "config.json").read_text())
    described = {name: said for group in help_groups(call("train", "--help").stdout).values() for name, said in group.items()}
    for name in ("max_episodes", "batch_size"):  # the run's own
        defaults[name] = preset[name]
        assert f"[{preset[name]}]" in described[name], name
    assert {name: defaults[name] for name in preset} == preset
    python_flags = {"game_name", "algo", "max_episodes", "episode_length", "output_activation", "buffer_size", "tau", "gamma", "seed",
                    "a_lr", "c_lr", "batch_size", "epsilon", "epsilon_speed", "save_interval", "model_episode",
                    "opponent_difficulty_strategy", "enable_opponent_evasion", "opponent_evasion_start_episode", "load_model"}
    assert python_flags <= set(preset)


def test_the_scaling_model_finds_the_line_that_it_was_given():
    alpha_us, beta_us = 15.0, 0.0004
    for ranks in (2, 8):
        points = [(size, scaling_model.all_reduce_us(ranks, size, alpha_us, beta_us)) for size in (1e3, 1e4, 1e5, 1e6, 1e7)]
        assert scaling_model.ring(points, ranks) == pytest.approx((alpha_us, beta_us))


@pytest.mark.skipif(os.getuid() != 0 or not os.path.exists("/dev/net/tun") or not shutil.which("ip"),
                    reason="needs root, /dev/net/tun and iproute2")
def test_two_machines_on_a_slow_network_can_be_measured(tmp_path):
    little = flags({name: value for name, value in TINY.items() if name not in ("max_episodes", "threads")})
    done = script(sys.executable, DEV / "nodes.py", "--delay_ms", 1, "--gbit", 1, "--seconds", 1, "--rounds", 1, "--out",
                  tmp_path / "nodes", "--binary", BINARY, "--", *little)
    assert done.returncode == 0, done.stderr
    row, = json.loads((tmp_path / "nodes.json").read_text())
    assert row["round_trip_us"] > 2000
    assert min(row[kind] for kind in ("apart", "nodes", "local")) > 0
    done = script(DEV / "scaling_model.py", "compare", tmp_path / "nodes.json")
    assert done.returncode == 0 and done.stdout.count("\n") == 3, done.stdout


def test_the_scaling_model_of_machines_sends_one_message_between_two():
    assert scaling_model.machines_us(2, 1000, 2.0, 0.01) == pytest.approx(2.0 + 10)
    assert scaling_model.machines_us(3, 1000, 2.0, 0.01) == scaling_model.all_reduce_us(3, 1000, 2.0, 0.01)
    row = {"ranks": 2, "delay_ms": 0.1, "gbit": 1.0, "round_trip_us": 300.0, "apart": 2000.0, "nodes": 1.0}
    (_, shares), = scaling_model.compared([row], 10_000, 2)
    assert shares == {"nodes": pytest.approx(2000 / (2000 + 2 * (300 + 80)))}


def test_the_scaling_model_of_local_updates_counts_their_share_of_a_message_and_of_the_votes():
    network = (10_000, 2, 300.0, 0.008)  # bytes, calls, alpha, beta: 460 us for an update's gradients
    assert scaling_model.local_us(2000, 2, *network, 10) == pytest.approx(2000 + (300 + 640) / 10 + 15)
    assert scaling_model.local_us(2000, 2, *network, 40) == pytest.approx(2000 + (300 + 640) / 40 + 7.5)
    row = {"ranks": 2, "gbit": 1.0, "round_trip_us": 300.0, "apart": 2000.0, "local": 1.0, "interval": 40}
    (_, shares), = scaling_model.compared([row], 10_000, 2)
    assert shares == {"local": pytest.approx(2000 / 2031)}


def test_the_scaling_model_counts_messages_and_bytes():
    # Four ranks: six messages, each byte one and a half times.
    assert scaling_model.all_reduce_us(4, 1000, 2.0, 0.01) == pytest.approx(6 * 2.0 + 1.5 * 1000 * 0.01)
    assert scaling_model.all_reduce_us(1, 1000, 2.0, 0.01) == 0
    assert scaling_model.update_us(4, 100, 1000, 2, 2.0, 0.01) == pytest.approx(154)
    assert scaling_model.efficiency(4, 100, 1000, 2, 2.0, 0.01) == pytest.approx(100 / 154)
    least = scaling_model.least_compute_us(4, 1000, 2, 2.0, 0.01)
    assert scaling_model.efficiency(4, least, 1000, 2, 2.0, 0.01) == pytest.approx(0.9)


def test_the_scaling_model_reads_what_the_bench_prints(tmp_path):
    rows = [{"name": f"allreduce_{name}_{way}", "value": 2 * a + size * b, "unit": "us", "limit": 2 * 30 + size * 0.001, "ratio": 1}
            for way, a, b in (("shared_memory", 1.0, 0.0002), ("gloo", 40.0, 0.0005))
            for name, size in (("1kB", 1e3), ("100kB", 1e5), ("10MB", 1e7))]
    (tmp_path / "allreduce.json").write_text(json.dumps({"benches": rows}))
    done = script(sys.executable, DEV / "scaling_model.py", "fit", tmp_path / "allreduce.json")
    assert done.returncode == 0, done.stderr
    assert [line.split(" | ")[:3] for line in done.stdout.splitlines()[2:]] == [
        ["| shared_memory", "1.0", "0.200"], ["| gloo", "40.0", "0.500"], ["| plain", "30.0", "1.000"]]
    predicted = script(sys.executable, DEV / "scaling_model.py", "predict", "--compute_us", 750)
    assert predicted.returncode == 0 and "nodes on Ethernet" in predicted.stdout and "NVLink" in predicted.stdout


TINY_RUN = {name: value for name, value in TINY.items() if name not in ("max_episodes", "threads")}


def test_an_ablation_trains_judges_and_continues_where_it_stopped(tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps(TINY_RUN))
    core = str(min(os.sched_getaffinity(0)))
    line = [sys.executable, DEV / "ablation.py", "--config", tmp_path / "tiny.json", "--binary", BINARY, "--minutes", "0.01",
            "--games", "20", "--out", tmp_path / "found", "--cores", core, "--networks", tmp_path / "networks",
            "--seeds", "1", "--only"]
    done = script(*line, "base")
    assert done.returncode == 0, done.stderr
    more = script(*line, "base", "n_step_1", "--against_base", "")
    assert more.returncode == 0, more.stderr
    assert "base seed 1:" in done.stdout and "base seed 1:" not in more.stdout and "n_step_1 seed 1:" in more.stdout
    runs = json.loads((tmp_path / "found.json").read_text())["runs"]
    assert [(run["variant"], run["seed"]) for run in runs] == [("base", 1), ("n_step_1", 1)]
    assert all(0 <= run["win_rate"] <= 1 and run["steps"] > 0 and run["updates"] > 0 for run in runs)
    assert re.search(r"^base +1 seeds, [\d.]+ % \[", more.stdout, re.M)
    match, = json.loads((tmp_path / "found.json").read_text())["matches"]
    assert match["variant"] == "n_step_1" and match["games"] == match["wins"] + match["draws"] + match["losses"] > 0
    assert f"n_step_1 seed 1:  {match['verdict']}, {match['elo'][0]:+.0f} Elo" in more.stdout
    assert sorted(path.name for path in (tmp_path / "networks").iterdir()) == ["base_1.pth", "n_step_1_1.pth"]
    other = script(*line, "base", "--games", "21")
    assert other.returncode == 1 and "other settings" in other.stderr


def test_runs_of_full_length_are_a_table_of_variants():
    rows = [{"table": "full", "name": f"{variant}, seed {seed}", "machine": "M", "commit": "C", "command": "D", "variant": variant, "what": f"is {variant}",
             "seed": seed, "win_rate": rate, "matches": {} if variant == "base" else {"": [60, 20, 20, "above elo0"]}}
            for variant, seed, rate in (("no_league", 1, 0.9), ("base", 1, 0.95), ("base", 101, 0.97))]
    page = results.pages(rows)["docs/results.md"]
    assert "| base | is base | 2 | 96.0 % |" in page and re.search(r"\| no_league .*\| 70\.0 %, 1 stronger, 0 weaker \|", page)
    assert page.index("| base |") < page.index("| no_league |")


@pytest.mark.parametrize("preset", ["ddpg", "dqn", "champion"])
def test_each_variant_changes_a_setting_of_the_preset(preset):
    file = SOURCE / "configs" / f"{preset}.json"
    base = presets.read(file)
    variants = ablation.VARIANTS[base.get("algo", "ddpg")]
    assert variants["base"][1] == {}
    by_algo = {}
    for name, (_, changes) in variants.items():
        assert all(base.get(flag) != value for flag, value in changes.items()), f"{name} changes nothing"
        by_algo.setdefault(changes.get("algo"), {}).update(changes)
    for together in by_algo.values():
        done = call("train", "--config", file, "--check_settings", *ablation.flags_of(together))
        assert done.returncode == 0, done.stderr


def test_the_interval_of_several_seeds_is_students():
    low, high = ablation.interval([0.40, 0.42, 0.44], 1000)
    assert (low + high) / 2 == pytest.approx(0.42) and high - low == pytest.approx(2 * 4.303 * 0.02 / math.sqrt(3), rel=1e-3)
    low, high = ablation.interval([0.5], 1000)
    assert low == pytest.approx(0.4691, abs=1e-3) and high == pytest.approx(0.5309, abs=1e-3)


def test_what_needs_other_programs_says_so(tmp_path):
    done = script(sys.executable, DEV / "python_reference.py", tmp_path)
    assert done.returncode == 2 and "main_ddp.py" in done.stderr
    assert script(sys.executable, DEV / "python_reference.py", "--help").returncode == 0


def test_opponents_are_trained_against_a_frozen_team_and_measured(tmp_path):
    player, output = SOURCE / "models" / "champion.pth", tmp_path / "found.json"
    done = script(sys.executable, DEV / "exploit.py", player, "--binary", BINARY, "--games", 6, "--player_search", "look1", "--minutes", 1,
                  "--runs_dir", tmp_path / "our runs", "--output", output, "--", "--num_envs", 2, "--batch_size", 16, "--max_episodes", 3)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())["found"]
    assert [row["start"] for row in found] == ["nothing", "player"] and len(done.stdout.splitlines()) == 3
    for row in found:
        assert f"--opponent_mix file:{player}:1" in row["training"] and f"--team_b {player}:look1" in row["match"]
        again = only_json(call(*shlex.split(row["match"])[1:], "--json").stdout)
        assert again["wins"] == row["result"]["wins"] and again["score_a"] == row["result"]["score_a"] and row["weights"] in done.stdout
    nothing, own = (row["result"]["score_a"] for row in found)
    assert nothing < own / 2, "the second one began with the player's weights"
    failed = script(sys.executable, DEV / "exploit.py", player, "--binary", BINARY, "--runs_dir", tmp_path, "--", "--batch_size", "many")
    assert failed.returncode == 2 and "--batch_size many" in failed.stderr


def test_a_start_that_does_not_apply_to_an_actor_is_left_out(tmp_path):
    done = script(sys.executable, DEV / "exploit.py", f"{SOURCE / 'tests' / 'data' / 'upstream_actor_2000.pth'}:softmax", "--obs", "26", "--binary", BINARY,
                  "--games", 4, "--minutes", 1, "--runs_dir", tmp_path, "--", "--num_envs", 2, "--batch_size", 16, "--max_episodes", 3)
    assert done.returncode == 0, done.stderr
    left_out, _, nothing = done.stdout.splitlines()
    assert left_out.startswith("left out: a start from the player's weights") and nothing.startswith("nothing ")


# ---- results -------------------------------------------------------------------------------------------------------

STORED = json.loads((SOURCE / "docs" / "results.json").read_text())["rows"]
PAGES = {name: (SOURCE / name).read_text(encoding="utf-8") for name in ("docs/results.md", "README.md", "README.zh.md")}


def measured(store, *line):
    done = script(sys.executable, DEV / "results.py", *line, "--store", store, "--program", BINARY, "--bench", BENCH)
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(store.read_text())["rows"]}


def test_the_page_of_results_is_what_the_stored_ones_make():
    made = results.pages(STORED)
    assert {name: made[name] == text for name, text in PAGES.items()} == dict.fromkeys(PAGES, True), "run dev/results.py page"
    assert len(PAGES["docs/results.md"].splitlines()) <= 200


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_each_figure_of_a_front_page_is_among_the_results(name):
    table = re.search(r"<!-- results -->\n(.*?)<!-- /results -->", PAGES[name], re.S).group(1)
    rows = table.splitlines()[2:]
    found = [figure for row in rows for figure in re.findall(r"(?<![\w:])\d[\d.,]*(?![\w:])", re.sub(r"level \d", "", row.replace("至", "to")))]
    assert len(rows) == 5 and len(found) == 20
    assert [figure for figure in found if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d.,]*\d)", PAGES["docs/results.md"])] == []


def test_each_stored_result_says_how_it_was_made():
    assert [results.key_of(row) for row in STORED] == sorted({results.key_of(row) for row in STORED})
    for row in STORED:
        assert re.fullmatch(r"[0-9a-f]{8}", row["commit"]) and row["command"].startswith(("./snake_ddp ", "dev/", "build/"))
        if "wins" in row:
            assert row["wins"] + row["draws"] + row["losses"] == row["games"]
            assert results.wilson(row["wins"] / row["games"], row["games"]) == pytest.approx(row["win_rate_ci95"], abs=2e-5)


def test_games_are_played_once(tmp_path):
    store, line = tmp_path / "results.json", ["play", "--games", 4, "--only", "expert:look4"]
    first = measured(store, *line)
    assert set(first) == {f"expert:look4 against {foe}" for foe in ("level2", "territory")}
    for row in first.values():
        assert row["games"] == 4 and row["command"].startswith("./snake_ddp eval --team_a models/expert.pth:look4 --team_b ")
    written = store.stat().st_mtime_ns
    assert measured(store, *line) == first and store.stat().st_mtime_ns == written
    assert measured(store, *line, "--again") == first and store.stat().st_mtime_ns > written


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_times_and_speeds_are_measured_with_their_spread_and_busy_ones_are_not_on_the_page(tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps(TINY_RUN | {"algo": "pqn_vdn", "reward": "score", "max_episodes": 12, "eval_games": 8}))
    found = measured(tmp_path / "results.json", "time", "speed", "--busy", "--minutes", 0.1, "--preset", tmp_path / "tiny.json")
    time = found["champion.json against territory"]
    assert set(time["seconds"]) == {"0.8", "0.9", "0.95"} and all(len(seconds) == 3 for seconds in time["seconds"].values())
    speed = found["moves with puct100"]
    assert all(speed[part][1] <= speed[part][0] <= speed[part][2] for part in ("value", "limit", "ratio"))
    assert all(row["busy"] for row in found.values()) and "##" not in results.pages(list(found.values()))["docs/results.md"]
    shown = results.pages([row | {"busy": False} for row in found.values()])["docs/results.md"]
    assert shown.count("`champion.json` | territory") == 1 and "moves with puct100" in shown
