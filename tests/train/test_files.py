"""The files of a run, read by PyTorch, TensorBoard, and the next run."""

import json
import re
import shutil
import signal
import socket
import time
import zipfile

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from processes import (BINARY, BUILD, DATA, EPISODE, SOURCE, TINY, call, fingerprint, flags, free_port, help_groups, only_json,
                       ranks_by_hand, run_folder, starter)

PROBE = str(BUILD / "tests" / "train" / "train_probe")
UPSTREAM = DATA / "upstream_actor_2000.pth"
OBS_26 = torch.rand(50, 3, 26, generator=torch.Generator().manual_seed(1)) * 20
OBS_30 = torch.rand(50, 3, 30, generator=torch.Generator().manual_seed(2)) * 20


def train(folder, *more, cwd=None, **settings):
    done = call(*flags(TINY | {"runs_dir": folder} | settings), *more, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return run_folder(done.stdout), done.stdout


def weights(path):
    return torch.load(path, weights_only=True)


def models(folder):
    return sorted(path.name for path in (folder / "trained_model").iterdir())


def probe(tmp_path, *arguments):
    with starter(tmp_path) as start:
        run = start([PROBE, *arguments])
        assert run.wait() == 0, run.text()


def answers(tmp_path, head, actor, obs):
    """The outputs of our program's forward pass for raw features."""
    torch.save({"obs": obs}, tmp_path / "obs.pth")
    probe(tmp_path, "act", head, actor, tmp_path / "obs.pth", tmp_path / "values.pth")
    return weights(tmp_path / "values.pth")["values"]


def reference_actor(state, head, obs):
    """The reference's network in plain PyTorch, in double."""
    h = state["prev_dense.0.bias"].shape[0]
    net = torch.nn.ModuleDict({
        "prev_dense": torch.nn.Sequential(torch.nn.Linear(obs.shape[-1], h)),
        "post_dense": torch.nn.Sequential(
            torch.nn.Linear(*reversed(state["post_dense.0.weight"].shape)), torch.nn.ReLU(),
            torch.nn.Linear(*reversed(state["post_dense.2.weight"].shape))),
    })
    if "comm_net.lstm.weight_ih_l0" in state:
        net["comm_net"] = torch.nn.ModuleDict({"lstm": torch.nn.LSTM(h, h, batch_first=True, bidirectional=True)})
    net.load_state_dict(state)
    net.double()
    first = net["prev_dense"](obs.double())
    out = net["post_dense"](net["comm_net"]["lstm"](first)[0] if "comm_net" in net else first)
    return (out.softmax(-1) if head == "softmax" else out.tanh()).detach().float()


def close(a, b, limit):
    assert a.shape == b.shape
    assert float((a - b).abs().max()) < limit


# Weights


@pytest.mark.parametrize("head, obs", [("softmax", OBS_30), ("tanh", OBS_26)], ids=["softmax", "tanh"])
def test_python_reads_the_weights_and_computes_the_same(tmp_path, head, obs):
    features = obs.shape[-1]
    folder, _ = train(tmp_path, output_activation=head, obs=features, save_interval=4, max_episodes=8, model_episode=100)
    assert models(folder) == ["actor_104.pth", "actor_108.pth", "critic_104.pth", "critic_108.pth"]
    actor, critic = (weights(folder / "trained_model" / f"{name}_108.pth") for name in ("actor", "critic"))
    h = 16
    assert {name: list(t.shape) for name, t in actor.items()} == {
        "prev_dense.0.weight": [h, features], "prev_dense.0.bias": [h], "post_dense.0.weight": [h, h],
        "post_dense.0.bias": [h], "post_dense.2.weight": [4, h], "post_dense.2.bias": [4]}
    assert {name: list(t.shape) for name, t in critic.items()} == {
        "prev_dense.0.weight": [h, features + 4], "prev_dense.0.bias": [h], "post_dense.0.weight": [h, h],
        "post_dense.0.bias": [h], "post_dense.2.weight": [1, h], "post_dense.2.bias": [1]}
    golden = weights(DATA / "ddpg_softmax_updates.pth")
    for part, state in (("actor0.", actor), ("critic0.", critic)):
        assert {name.removeprefix(part) for name in golden if name.startswith(part)} == set(state)
    assert all(t.dtype == torch.float32 and t.isfinite().all() for t in [*actor.values(), *critic.values()])
    earlier = weights(folder / "trained_model" / "actor_104.pth")
    assert not torch.equal(earlier["post_dense.2.weight"], actor["post_dense.2.weight"])
    close(answers(tmp_path, head, folder / "trained_model" / "actor_108.pth", obs), reference_actor(actor, head, obs), 1e-6)


@pytest.mark.parametrize("head, obs", [("softmax", OBS_30), ("tanh", OBS_26)], ids=["softmax", "tanh"])
def test_python_reads_bicnet_and_computes_the_same_and_eval_plays_it(tmp_path, head, obs):
    features, h = obs.shape[-1], 16
    folder, _ = train(tmp_path, algo="bicnet", output_activation=head, obs=features, updates_per_step=0.5)
    actor, critic = (weights(folder / "trained_model" / f"{name}_4.pth") for name in ("actor", "critic"))
    golden = weights(DATA / f"bicnet_{head}_updates.pth")
    for part, state, wide in (("actor0.", actor, features), ("critic0.", critic, features + 4)):
        # The reference's names in its order; its recording has 32 hidden units.
        expected = {name.removeprefix(part): list(t.shape) for name, t in golden.items() if name.startswith(part)}
        assert list(state) == list(expected)
        halved = {name: [n // 2 if n % 32 == 0 else n for n in shape] for name, shape in expected.items()}
        halved["prev_dense.0.weight"] = [h, wide]
        assert {name: list(t.shape) for name, t in state.items()} == halved
        assert all(t.dtype == torch.float32 and t.isfinite().all() for t in state.values())
    path = folder / "trained_model" / "actor_4.pth"
    close(answers(tmp_path, head, path, obs), reference_actor(actor, head, obs), 1e-6)
    for team in (f"{path}", f"{path}:argmax"):
        reported = only_json(call("eval", "--json", "--team_a", team, "--team_b", "random", "--games", "10").stdout)
        assert reported["games"] == 10 and reported["score_a"] > 0


def test_bicnet_continues_from_its_files(tmp_path):
    folder, _ = train(tmp_path, algo="bicnet", updates_per_step=0.2)
    again, _ = train(tmp_path, "--load_model", algo="bicnet", load_model_run=1, load_model_run_episode=4,
                     a_lr=0, c_lr=0, updates_per_step=0.2)
    before, after = (weights(run / "trained_model" / "actor_4.pth") for run in (folder, again))
    assert list(before) == list(after)
    for name in before:
        assert torch.allclose(before[name], after[name], atol=1e-5), name
    refused = call(*flags(TINY | {"runs_dir": tmp_path, "load_model_run": 1, "load_model_run_episode": 4}), "--load_model")
    assert refused.returncode == 4 and "--algo" in refused.stderr


def test_a_critic_with_layer_norm_brings_its_own_names(tmp_path):
    folder, _ = train(tmp_path, "--layer_norm")
    critic = weights(folder / "trained_model" / "critic_4.pth")
    assert {"post_norm.weight", "post_norm.bias"} <= set(critic)


def test_the_reference_s_network_gives_the_recorded_outputs(tmp_path):
    # Its logits reach 84 and its recorded outputs are float32: in double the same network is 1e-5 away from them, and
    # PyTorch's own float32 differs by as much from machine to machine. So the 1e-6 of other files is impossible here.
    limit = 5e-5
    recorded = weights(DATA / "upstream_actor_2000_io.pth")
    ours = answers(tmp_path, "softmax", UPSTREAM, recorded["obs"])
    close(ours, recorded["probs"], limit)
    close(ours, reference_actor(weights(UPSTREAM), "softmax", recorded["obs"]), limit)
    assert torch.equal(ours.argmax(-1), recorded["probs"].argmax(-1))
    reported = only_json(call("eval", "--json", "--team_a", f"{UPSTREAM}:softmax:argmax", "--team_b", "random", "--games", "100").stdout)
    assert reported["win_rate"] > 0.5 and reported["score_a"] > reported["score_b"], "it was trained for this"


# The record of an actor's file


def record_of(path):
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("/snake_ddp.json"))
        return json.loads(archive.read(name))


def with_record(path, change):
    """The file with another record; nothing for none."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (n for n in entries if n.endswith("/snake_ddp.json"))
    text = change(json.loads(entries.pop(name)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for entry, content in (entries | ({name: text} if text else {})).items():
            archive.writestr(entry, content)


def score(actor):
    done = only_json(call("eval", "--json", "--team_a", actor, "--team_b", "level2", "--games", 100, "--seed", 3).stdout)
    return done["wins"], done["score_a"], done["score_b"]


def test_an_actor_is_the_same_player_outside_its_run(tmp_path):
    folder, _ = train(tmp_path, output_activation="tanh", a_lr=0.01)
    actor, alone = folder / "trained_model" / "actor_4.pth", tmp_path / "alone.pth"
    shutil.copy(actor, alone)
    record = record_of(actor)
    assert record.pop("version").startswith("snake_ddp ")
    assert record == {"format": 1, "learner": "ddpg", "obs": "30", "view_radius": 0, "tokens": "", "head": "tanh",
                      "hidden_size": 16, "mask_fatal": False, "reward": "v1_2", "rival_reward": 0.0, "reward_scale": 1.0, "gamma": 0.99}
    assert score(alone) == score(actor)
    for safe in (True, False):
        assert list(torch.load(alone, weights_only=safe)) == list(weights(actor))
    assert list(torch.load(alone, map_location="cpu")) == list(weights(actor)), "as the platform loads it"
    done = call("export", "--actor", alone, "--format", "submission", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert record_of(tmp_path / "out" / "alone.pth") == record_of(actor)
    assert 'tanh' in (tmp_path / "out" / "submission.py").read_text()
    assert only_json(call("info", alone, "--json").stdout)["record"] == record_of(actor)

    with_record(alone, lambda _: "")
    typed = score(f"{alone}:softmax")
    assert score(f"{alone}:tanh") == score(actor)
    shutil.copy(actor, alone)
    with_record(alone, lambda r: json.dumps(r | {"head": "softmax"}))
    assert score(alone) == typed != score(actor)


def test_a_limited_view_is_that_of_the_record(tmp_path):
    folder, _ = train(tmp_path, algo="dqn", obs="window", view_radius=3, updates_per_step=0.2)
    actor = folder / "trained_model" / "actor_4.pth"
    assert [record_of(actor)[key] for key in ("learner", "obs", "view_radius", "head")] == ["dqn", "window", 3, "values"]
    near = score(actor)
    with_record(actor, lambda r: json.dumps(r | {"view_radius": 0}))
    assert score(actor) != near


@pytest.mark.parametrize("change, words", [
    ({"obs": "26"}, 'observation "26"'), ({"head": "values"}, "an actor's"), ({"hidden_size": 17}, "hidden_size 17"),
    ({"format": 2}, "later version"), ({"obs": 7}, "obs 7: not a known value"), ({"view_radius": 3}, "view_radius 3"),
    ({"tokens": "there"}, "with tokens"), ({"head": "relu"}, "relu"), (None, "not JSON")], ids=str)
def test_a_record_that_contradicts_its_weights_is_rejected(tmp_path, change, words):
    folder, _ = train(tmp_path)
    actor = folder / "trained_model" / "actor_4.pth"
    with_record(actor, lambda r: "{" if change is None else json.dumps(r | change))
    again = [*flags(TINY | {"runs_dir": tmp_path, "load_model_run": 1, "load_model_run_episode": 4}), "--load_model"]
    for line in (["eval", "--team_a", actor, "--team_b", "level0", "--games", "2"], again,
                 ["export", "--actor", actor, "--format", "torchscript", "--output", tmp_path / "a.pt"]):
        refused = call(*line)
        assert refused.returncode == 4, refused.stderr
        assert "actor_4.pth: its record snake_ddp.json: " in refused.stderr and words in refused.stderr, refused.stderr


# Starting from the weights of a run


UNCHANGED = {"a_lr": 0, "c_lr": 0, "max_episodes": 1, "num_envs": 1}


def same_weights(folder, name, other_folder, other_name):
    for network in ("actor", "critic"):
        a, b = weights(folder / f"{network}_{name}.pth"), weights(other_folder / f"{network}_{other_name}.pth")
        assert list(a) == list(b)
        assert all(torch.equal(a[key], b[key]) for key in a), network


def test_a_run_continues_from_another(tmp_path):
    first, _ = train(tmp_path / "runs")
    second, _ = train(tmp_path / "runs", "--load_model", load_model_run=1, load_model_run_episode=4, seed=9, **UNCHANGED)
    assert second.name.startswith("run2_")
    same_weights(first / "trained_model", 4, second / "trained_model", 1)
    fresh, _ = train(tmp_path / "runs", seed=9, **UNCHANGED)
    with pytest.raises(AssertionError):
        same_weights(first / "trained_model", 4, fresh / "trained_model", 1)


def test_all_ranks_continue_from_a_run_in_the_old_place(tmp_path):
    first, _ = train(tmp_path / "elsewhere")
    old = tmp_path / "rl_trainer" / "models" / "snakes_3v3" / "run2" / "trained_model"
    old.mkdir(parents=True)
    for network in ("actor", "critic"):
        shutil.copy(first / "trained_model" / f"{network}_4.pth", old / f"{network}_4000.pth")
    with starter(tmp_path) as start:
        line = flags(TINY | {"runs_dir": "runs"} | UNCHANGED)
        ranks = ranks_by_hand(lambda command, **variables: start(["env", "-C", tmp_path, *command], **variables), 2, *line,
                              "--load_model")
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text()
        assert len(fingerprint(ranks[0].text())["ranks"]) == 2
        second = tmp_path / run_folder(ranks[0].text())
    same_weights(old, 4000, second / "trained_model", 1)


def test_weights_that_do_not_fit_are_reported(tmp_path):
    train(tmp_path / "runs")
    line = flags(TINY | {"runs_dir": tmp_path / "runs", "load_model_run": 1, "load_model_run_episode": 4}) + ["--load_model"]
    for more, words in ((["--hidden_size", "8"], ["actor_4.pth", "[16, 30]", "[8, 30]", "--hidden_size"]),
                        (["--obs", "26"], ["actor_4.pth", "--obs"]),
                        (["--layer_norm"], ["critic_4.pth", "post_norm"]),
                        (["--load_model_run", "5"], ["run 5", "run1_", "(episodes 4)"]),
                        (["--load_model_run_episode", "5"], ["episode 5", "run1_"])):
        done = call(*line, *more)
        assert done.returncode == 4, done.stderr
        assert all(word in done.stderr for word in words), done.stderr
    assert len(list((tmp_path / "runs" / "snakes_3v3").iterdir())) == 1, "a start that fails leaves no folder"


def test_a_start_that_fails_on_one_rank_leaves_no_folder(tmp_path):
    first, _ = train(tmp_path / "here" / "runs")
    line = flags(TINY | {"runs_dir": "runs", "load_model_run": 1, "load_model_run_episode": 4, "join_timeout": 2})
    with starter(tmp_path) as start:
        def in_its_folder(command, **variables):
            there = tmp_path / ("here" if variables["RANK"] == 0 else "elsewhere")
            there.mkdir(exist_ok=True)
            return start(["env", "-C", there, *command], **variables)

        ranks = ranks_by_hand(in_its_folder, 2, *line, "--load_model")
        assert [rank.wait() for rank in ranks] == [3, 4], ranks[0].text() + ranks[1].text()
        assert "no weights of run 1, episode 4" in ranks[1].text()
        alone = start(["env", "-C", tmp_path / "here", BINARY, *line], RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=free_port())
        assert alone.wait() == 3, alone.text()
    assert list(first.parent.iterdir()) == [first] and list((tmp_path / "elsewhere").iterdir()) == []


# The folder


def test_the_settings_are_written_down(tmp_path):
    (tmp_path / "snakes_3v3" / "run7").mkdir(parents=True)
    with starter(tmp_path) as start:
        ranks = ranks_by_hand(start, 2, *flags(TINY | {"runs_dir": tmp_path, "gamma": 0.875, "log_dir": "a note"}),
                              each=lambda rank: [f"--local_rank={rank}"])
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text()
        folder = run_folder(ranks[0].text())
    stamp = re.fullmatch(r"run8_(\d{8}_\d{6})", folder.name)[1]
    assert abs(time.mktime(time.strptime(stamp, "%Y%m%d_%H%M%S")) - time.time()) < 300
    assert {path.name.split(".out.")[0] for path in folder.iterdir()} == {"config.json", "train.log", "trained_model", "events",
                                                                              "checkpoints", "train.rank1.log", "metrics.jsonl"}
    written = json.loads((folder / "config.json").read_text())
    assert {"gamma": 0.875, "hidden_size": 16, "log_dir": "a note", "tau": 0.01, "load_model": False}.items() <= written.items()
    assert {"world_size": 2, "hosts": [socket.gethostname()] * 2, "backend": "gloo", "device": "cpu"}.items() <= written["run"].items()
    assert written["run"]["version"] == call("--version").stdout.strip()
    known = {name for group in help_groups(call("train", "--help").stdout).values() for name in group}
    assert {"seed", "n_step", "eval_interval"} <= known
    not_settings = {"help", "config", "check_settings", "ddp", "world_size", "learning_rate"}
    assert known - not_settings <= set(written)


def listed(page):
    """First column of the table in a page of the reference."""
    table = re.search(r"<!-- table (.*?)<!-- end -->", (SOURCE / "docs" / "reference" / page).read_text(encoding="utf-8"), re.S)[1]
    return re.findall(r"^\| `([^`]+)` \|", table, re.M)


def test_a_run_writes_the_files_and_tags_that_the_reference_lists(tmp_path):
    settings = TINY | {"runs_dir": tmp_path, "max_episodes": 10**6, "opponent_mix": "level0:0.5,league:0.5", "league_interval": 8, "league_games": 100,
                       "eval_interval": 8, "eval_games": 20, "record_interval": 4, "checkpoint_interval": 8}
    with starter(tmp_path) as start:
        ranks = ranks_by_hand(start, 2, *flags(settings))
        for done in ("Evaluation at", "League at", "Checkpoint step [1-9]"):
            ranks[0].wait_for(done)
        folder = run_folder(ranks[0].text())
        while "perf/" not in (folder / "metrics.jsonl").read_text():
            assert ranks[0].popen.poll() is None
            time.sleep(0.1)
        ranks[0].popen.send_signal(signal.SIGTERM)
        assert [rank.wait() for rank in ranks] == [75, 75], ranks[0].text()
    done = call("report", folder, "--html", tmp_path / "report.html", "--ladder_games", "1")
    assert done.returncode == 0, done.stderr
    patterns = {name: re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(name).replace("\\*", ".+")) for name in listed("run_folder.md")}
    written = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    assert [path for path in written if not any(re.fullmatch(pattern, path) for pattern in patterns.values())] == []
    assert [name for name, pattern in patterns.items() if not any(re.fullmatch(pattern, path) for path in written)] == []
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    reports = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert set(events.Tags()["scalars"]) == set(listed("tags.md")) == {key for report in reports for key in report if "/" in key}


def test_curves_go_by_steps_of_boards_if_asked(tmp_path):
    folder, _ = train(tmp_path, "--step_axis", "env", "--log_every_episode", max_episodes=6, num_envs=2, checkpoint_interval=3)
    again = call("--resume", folder, "--max_episodes", 12)
    assert again.returncode == 0, again.stderr
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    drawn = [point.step for point in events.Scalars("reward/total")]
    assert len(drawn) >= 10 and drawn == sorted(drawn) and set(drawn) <= set(steps) and drawn[-1] > 12


def test_tensorboard_and_the_log_say_what_the_console_said(tmp_path):
    folder, console = train(tmp_path, "--log_every_episode", max_episodes=10**6, max_minutes=0.03, eval_interval=10**5,
                            eval_games=8, epsilon_speed=0.999)
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "reward/snake_1", "reward/snake_2", "reward/snake_3", "reward/total", "loss/actor", "loss/critic",
        "perf/env_steps_per_second", "perf/updates_per_second", "perf/allreduce_ms", "perf/allreduce_share", "perf/memory_mb", "perf/gpu_memory_mb",
        "train/epsilon", "train/difficulty", "train/actor_grad_norm", "train/critic_grad_norm", "train/q_mean",
        "train/buffer_size", *(f"collect/{name}" for name in (
            "episodes", "env_steps", "transitions", "play_seconds", "episode_steps", "team_return", "rival_return", "win_rate")),
        "eval/win_rate", "eval/score", "eval/opponent_score",
        *(f"deaths/{name}" for name in ("head_on", "boxed_in", "tail", "body", "mate", "length_lost_early", "length_lost_late"))}
    points = {tag: [(p.step, p.value) for p in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    blocks = re.findall(r"^\[Episode (\d{5,})\] total_reward: (-?\d+) epsilon: ([\d.]+) \[v3.0\] difficulty: (\d)\n"
                        r"\t\t\t\tsnake_1: (-?\d+) snake_2: (-?\d+) snake_3: (-?\d+)\n"
                        r"\t\t\t\ta_loss (-?[\d.]+) c_loss ([\d.]+)$", console, re.M)
    episodes = [int(block[0]) for block in blocks]
    assert len(episodes) >= 4 and episodes == list(range(1, len(episodes) + 1))
    assert points["reward/total"] == [(int(b[0]), float(b[1])) for b in blocks]
    for snake in (1, 2, 3):
        assert points[f"reward/snake_{snake}"] == [(int(b[0]), float(b[3 + snake])) for b in blocks]
    for b in blocks:
        assert int(b[1]) == int(b[4]) + int(b[5]) + int(b[6])
    assert [f"{value:.3f}" for _, value in points["loss/critic"]] == [b[8] for b in blocks]
    # Means are of the games since the point before.
    ended = [0, *(round(value) for _, value in points["collect/episodes"])]
    means = iter(points["collect/team_return"])
    totals = [int(b[1]) for b in blocks]
    for before, now in zip(ended, ended[1:]):
        if now > before:
            assert next(means)[1] == pytest.approx(sum(totals[before:now]) / (now - before), abs=1e-4)
    assert next(means, None) is None and len(ended) > 2 and ended[-1] == len(blocks)
    epsilons = [float(b[2]) for b in blocks]
    assert epsilons == sorted(epsilons, reverse=True) and epsilons[-1] < epsilons[0] <= 0.5
    steps_per_s, updates_per_s = (points[f"perf/{name}_per_second"][-1][1] for name in ("env_steps", "updates"))
    assert steps_per_s > 0 and updates_per_s > 0
    assert points["eval/win_rate"] == [(points["eval/win_rate"][0][0], pytest.approx(points["eval/win_rate"][0][1]))]
    log = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", "", (folder / "train.log").read_text(), flags=re.M)
    assert re.sub(r"^Settings hash.*\n", "", log, flags=re.M) == console


def test_rank_0_reports_for_all_ranks_and_the_others_log_briefly(tmp_path):
    with starter(tmp_path) as start:
        ranks = ranks_by_hand(start, 2, *flags(TINY | {
            "runs_dir": tmp_path, "max_episodes": 10**6, "eval_interval": 6, "eval_games": 20, "eval_opponent": "level0",
            "target_win_rate": 0.01, "checkpoint_interval": 3}))
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text()
        console = ranks[0].text()
    folder = run_folder(console)
    log = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", "", (folder / "train.rank1.log").read_text(), flags=re.M)
    # Both ranks stop after the same evaluation, at the same step.
    steps, updates, episodes = map(int, re.search(r"^Finished at step (\d+) after (\d+) updates, (\d+) episodes$", log,
                                                  re.M).groups())
    reported = re.search(r"Training completed! (\d+) episodes, (\d+) steps, (\d+) updates", console)
    assert (2 * steps * TINY["num_envs"], updates) == (int(reported[2]), int(reported[3]))
    won = [round(20 * float(percent) / 100) for percent in re.findall(r"\[Evaluation at .*: won ([\d.]+) %", console)]
    judged = re.findall(r"^Evaluation at episode \d+, step (\d+): won (\d+) of 20$", log, re.M)
    assert [int(wins) for _, wins in judged] == won and won[-1] > 0 and int(judged[-1][0]) == steps
    hashes = [re.findall(r"^(?:\S+ \S+ )?Settings hash, .*: ([0-9a-f]{16})$", (folder / name).read_text(), re.M)
              for name in ("train.log", "train.rank1.log")]
    assert hashes[0] == hashes[1] and len(hashes[0]) == 1
    assert "rank 1 of 2 on " in log and "Wrote this rank's part of checkpoint step 0\n" in log
    # Rank 0's reports cover both.
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    last = {tag[8:]: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"] if tag.startswith("collect/")}
    assert last["episodes"] == int(reported[1]) + episodes and last["env_steps"] == int(reported[2])
    assert last["transitions"] == last["env_steps"] and last["play_seconds"] > 0
    assert last["episode_steps"] == TINY["episode_length"] and 0 <= last["win_rate"] <= 1


@pytest.mark.parametrize("dies", [0, 1])
def test_a_rank_that_survives_says_in_its_log_why_it_ends(tmp_path, dies):
    with starter(tmp_path) as start:
        ranks = ranks_by_hand(start, 2, *flags(TINY | {"runs_dir": tmp_path, "max_episodes": 10**6, "dist_timeout": 3}))
        ranks[0].wait_for(EPISODE)
        ranks[dies].popen.kill()
        assert ranks[1 - dies].wait() == 3
    log = run_folder(ranks[0].text()) / ("train.rank1.log" if dies == 0 else "train.log")
    reason = re.search(r"snake_ddp: (rank \d on .*to continue from the last checkpoint.*)", ranks[1 - dies].text())[1]
    assert f"no word from rank {dies} on" in reason and reason in log.read_text()


def test_a_signal_that_ends_a_rank_at_once_is_in_its_log(tmp_path):
    endless = flags(TINY | {"runs_dir": tmp_path, "max_episodes": 10**6, "max_minutes": 5})
    with starter(tmp_path) as start:
        crashed = start([BINARY, *endless])
        crashed.wait_for(EPISODE)
        crashed.popen.send_signal(signal.SIGSEGV)
        assert crashed.wait() == -signal.SIGSEGV, crashed.text()
        stuck = start([PROBE, "run", "stall", 2, 0, *endless])
        stuck.wait_for("Run folder: ")
        for _ in range(3):
            stuck.popen.send_signal(signal.SIGINT)
            time.sleep(0.2)
        assert stuck.wait() == 130, stuck.text()
    assert re.search(r"^Ended by signal 11 \(", (run_folder(crashed.text()) / "train.log").read_text(), re.M)
    assert re.search(r"^Ended by the third SIGINT$", (run_folder(stuck.text()) / "train.log").read_text(), re.M)
