"""Checkpoints: exact continuation after a stop, damage, and resuming."""

import contextlib
import errno
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event, SessionLog

from processes import (BINARY, BUILD, EPISODE, SOURCE, TINY, call, fingerprint, flags, free_port, only_json, ranks_by_hand, run_folder,
                       starter, suspend, torchrun, wait_until_gone, wait_until_listening, worker_pids)

CHAMPION = SOURCE / "models" / "champion.pth"
LEARNERS = only_json(call("info", "--json").stdout)["learners"]
# Every part of the state matters here: windows of n steps, decaying epsilon, a slower actor, a full replay.
RUN = TINY | {"max_episodes": 12, "n_step": 3, "buffer_size": 600, "checkpoint_interval": 2,
              "opponent_difficulty_strategy": "linear", "eval_interval": 8, "eval_games": 8}
# Until it is stopped; not all of its settings may depend on when that is.
ENDLESS = RUN | {"max_episodes": 10**9, "opponent_difficulty_strategy": "fixed:2", "updates_per_step": 0.25}


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin


def train(*more, expected=0, **settings):
    done = call(*flags(RUN | settings), *more)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout


def checkpoints(run):
    return sorted(path for path in (run / "checkpoints").iterdir() if path.name.startswith("step_"))


def manifest(checkpoint):
    return json.loads((checkpoint / "manifest.json").read_text())


def is_whole(run):
    done = call("info", "--json", run)
    assert done.returncode in (0, 4)
    reported = only_json(done.stdout)
    assert reported["whole"] == (done.returncode == 0)
    return reported["whole"]


# Bits


# PQN's own returns take the place of n-step ones; a rollout is cut off in the middle.
ROLLOUT = {"n_step": 1, "updates_per_step": 1, "rollout_steps": 12, "td_lambda": 0.8}
WINDOWS = {"n_step": 1, "sequence_length": 6, "burn_in": 2}
OWN = {"ddpg": {}, "bicnet": {}, "pqn": ROLLOUT, "pqn_vdn": ROLLOUT, "rqmix": WINDOWS}
GAMES = {algo: {"algo": algo} | OWN.get(algo, {}) for algo in LEARNERS} | {
    "a team from a file": {"algo": "dqn", "obs": "ahead", "mask_fatal": True,
                           "opponent_mix": f"level2:0.2,self:0.3,file:{CHAMPION}:0.5"},
    "pqn against itself": ROLLOUT | {"algo": "pqn", "opponent_mix": "level2:0.5,self:0.5"},
    "league": {"algo": "dqn", "obs": "view", "mask_fatal": True, "opponent_mix": "territory:0.3,self:0.3,league:0.4",
               "league_interval": 3, "league_games": 100, "league_win_rate": 0}}


@pytest.mark.parametrize("game", GAMES)
def test_a_resumed_run_equals_one_that_was_never_stopped(start, tmp_path, game):
    settings = ENDLESS | GAMES[game]
    stopped = start([BINARY, *flags(settings | {"runs_dir": tmp_path / "parts"})])
    stopped.wait_for(EPISODE)
    stopped.popen.send_signal(signal.SIGTERM)
    assert stopped.wait() == 75, stopped.text()
    run = run_folder(stopped.text())
    assert (run / "checkpoints" / "resumable").exists()
    first = manifest(checkpoints(run)[-1])
    assert first["episode"] > 0
    total = first["episode"] + 20
    again = call("--resume", run, "--max_episodes", total)  # the other settings are the run's own
    assert again.returncode == 0, again.stderr
    assert run_folder(again.stdout) == run and f"Resumed from checkpoint step {first['step']}: " in again.stdout
    assert f"Changed: --max_episodes 1000000000 -> {total}\n" in again.stdout
    assert fingerprint(again.stdout)["line"] == fingerprint(
        train(**(settings | {"runs_dir": tmp_path / "whole", "max_episodes": total})))["line"]
    assert not (run / "checkpoints" / "resumable").exists()
    assert is_whole(run)


def test_a_team_from_a_file_must_be_the_one_that_the_run_began_with(tmp_path):
    there = tmp_path / "rival.pth"
    shutil.copy(CHAMPION, there)
    settings = GAMES["a team from a file"] | {"opponent_mix": f"file:{there}", "max_episodes": 5}
    run = run_folder(train(runs_dir=tmp_path / "runs", **settings))
    other = max((run / "trained_model").glob("actor_*.pth"), key=os.path.getmtime)
    shutil.copy(other, there)
    refused = call("--resume", run, "--max_episodes", 12)
    assert refused.returncode == 4
    assert f"file:{there}" in refused.stderr and "put the file back" in refused.stderr
    # Another path is another opponent, and the first one goes on.
    for path, episodes in ((other, 12), (there, 20)):
        again = call("--resume", run, "--opponent_mix", f"file:{path}", "--max_episodes", episodes)
        assert again.returncode == 0 and "Resumed from" in again.stdout, again.stderr
        shutil.copy(CHAMPION, there)


# Teams that play themselves die at different times on each rank, and decide in different numbers: each rank has its own epsilon.
@pytest.mark.parametrize("mix", [{}, {"opponent_mix": "level2:0.5,self:0.5"}], ids=["a schedule", "self"])
def test_two_ranks_that_are_stopped_resume_to_the_same_bits(start, tmp_path, mix):
    def two(*more, code=0, stop=False, **settings):
        ranks = ranks_by_hand(start, 2, *flags(ENDLESS | mix | settings), *more)
        if stop:
            ranks[0].wait_for(EPISODE)
            ranks[1].popen.send_signal(signal.SIGTERM)
        assert [rank.wait() for rank in ranks] == [code, code], ranks[0].text() + ranks[1].text()
        return ranks[0].text()

    run = run_folder(two(runs_dir=tmp_path / "parts", stop=True, code=75))
    held = manifest(checkpoints(run)[-1])
    assert {f["name"] for f in held["files"]} == {"shared.pth", "rank_0.pth", "rank_0.replay", "rank_1.pth", "rank_1.replay"}
    total = held["episode"] + 20
    again = two("--resume", run, max_episodes=total)
    assert fingerprint(again)["line"] == fingerprint(two(runs_dir=tmp_path / "whole", max_episodes=total))["line"]


def test_more_episodes_for_a_finished_run(tmp_path):
    level = {"opponent_difficulty_strategy": "fixed:2"}
    run = run_folder(train(runs_dir=tmp_path, max_episodes=5, **level))
    twice = train("--resume", run, runs_dir=tmp_path, max_episodes=12, **level)
    assert "Changed: --max_episodes 5 -> 12\n" in twice
    assert fingerprint(twice)["line"] == fingerprint(train(runs_dir=tmp_path / "whole", **level))["line"]


def contents(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


LIMITS = {"max_episodes": ({"max_episodes": 5}, {"max_episodes": 9}),
          "max_minutes": ({"max_episodes": 10**9, "max_minutes": 0.01}, {"max_minutes": 0.03}),
          "target_win_rate": ({"target_win_rate": 0.01, "eval_opponent": "level0", "eval_games": 60, "eval_interval": 2},
                              {"target_win_rate": 0.99, "max_episodes": 20})}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_finished_run_stays_as_it_is_until_its_limit_is_raised(tmp_path, limit):
    settings, raised = LIMITS[limit]
    settings = {"runs_dir": tmp_path, "opponent_difficulty_strategy": "fixed:0"} | settings
    text = train(**settings)
    run = run_folder(text)
    assert "Training completed!" in text
    before = contents(run)
    for resume in (run, "auto", checkpoints(run)[-1]) if limit == "max_episodes" else (run,):
        again = train("--resume", resume, **settings)
        assert run_folder(again) == run and "Nothing to do, the run is finished: " in again and f"--{limit}" in again, again
        assert "Resumed" not in again and contents(run) == before
    if limit == "max_episodes":
        ranks = call("--ddp", "--world_size", 2, "--resume", run)
        assert ranks.returncode == 0 and "Nothing to do" in ranks.stdout and contents(run) == before
    assert "Resumed from checkpoint" in train("--resume", run, **(settings | raised))
    assert contents(run) != before


def test_a_finished_run_whose_networks_are_gone_is_ended_again(tmp_path):
    run = run_folder(train(runs_dir=tmp_path, max_episodes=5))
    saved = max((run / "trained_model").glob("actor_*.pth"), key=os.path.getmtime)
    saved.unlink()
    assert "Training completed!" in train("--resume", run, runs_dir=tmp_path, max_episodes=5) and saved.exists()


def test_another_epsilon_starts_its_decay_again(tmp_path):
    def first_epsilon(said):
        return float(re.search(r" epsilon: ([\d.]+)", said[said.index("Resumed"):] if "Resumed" in said else said)[1])

    run = run_folder(train(runs_dir=tmp_path, max_episodes=5, epsilon_speed=0.9))
    assert first_epsilon(train("--resume", run, "--log_every_episode", max_episodes=10, epsilon_speed=0.9)) < 0.01
    assert first_epsilon(train("--resume", run, "--log_every_episode", max_episodes=15, epsilon_speed=1, epsilon=0.75)) == 0.75


def test_a_symmetric_run_may_go_on_without_but_not_the_other_way_round(tmp_path):
    settings = {"algo": "dqn", "obs": "view", "runs_dir": tmp_path}
    run = run_folder(train("--mirror_symmetric", max_episodes=5, **settings))
    assert "--mirror_symmetric true -> false" in train("--resume", run, "--mirror_symmetric=off", max_episodes=10, **settings)
    refused = call(*flags(RUN | settings | {"max_episodes": 15}), "--resume", run, "--mirror_symmetric")
    assert refused.returncode == 2 and "--mirror_symmetric (the run: without)" in refused.stderr, refused.stderr


def test_without_replay_a_run_continues_as_soon_as_it_has_a_batch_again(tmp_path):
    run = run_folder(train("--checkpoint_replay", "off", runs_dir=tmp_path, max_episodes=5))
    newest = checkpoints(run)[-1]
    assert {f["name"] for f in manifest(newest)["files"]} == {"shared.pth", "rank_0.pth"}
    again = train("--resume", run, "--checkpoint_replay", "off", runs_dir=tmp_path)
    assert " 0 transitions in replay" in again
    updates = int(re.search(r"(\d+) updates in", again)[1])
    assert updates > manifest(newest)["updates"]


# Other ranks


@pytest.mark.parametrize("before, after", [(2, 1), (1, 3)])
def test_another_number_of_ranks_redistributes_the_replay(start, tmp_path, before, after):
    def several(size, *more, **settings):
        ranks = ranks_by_hand(start, size, *flags(RUN | {"runs_dir": tmp_path} | settings), *more)
        assert [rank.wait() for rank in ranks] == [0] * size, "\n".join(rank.text() for rank in ranks)
        return ranks[0].text()

    run = run_folder(several(before, max_episodes=5))
    held = manifest(checkpoints(run)[-1])
    row_bytes = 4 * (3 * 31 * 2 + 3 * 4 + 3 + 3)
    rows = sum(f["bytes"] for f in held["files"] if f["name"].endswith(".replay")) // row_bytes
    text = several(after, "--resume", run)
    assert f"Changed: {before} -> {after} rank{'s' * (after > 1)}; replay is redistributed" in text
    reported = int(re.search(r", (\d+) transitions in replay", text)[1])
    assert reported == min(rows, after * RUN["buffer_size"])
    assert len(fingerprint(text)["ranks"]) == after
    assert manifest(checkpoints(run)[-1])["world_size"] == after


@pytest.mark.parametrize("settings, reported", [
    (GAMES["rqmix"], "replay starts empty: consecutive rows of a game cannot be redistributed"),
    (GAMES["pqn"], "each rank starts a new rollout"),
    ({"checkpoint_replay": "off"}, "replay starts empty: the checkpoint has none")], ids=["windows", "rollouts", "none kept"])
def test_replay_that_cannot_be_redistributed_is_reported_as_empty(start, tmp_path, settings, reported):
    ranks = ranks_by_hand(start, 2, *flags(RUN | settings | {"runs_dir": tmp_path, "max_episodes": 5}))
    assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text()
    text = train("--resume", run_folder(ranks[0].text()), **(settings | {"runs_dir": tmp_path}))
    assert f"Changed: 2 -> 1 rank; {reported}\n" in text
    assert re.search(r", 0 transitions in (?:replay|a rollout)\n", text) and "is redistributed" not in text


def test_points_of_a_resumed_run_replace_later_ones(tmp_path):
    run = run_folder(train(runs_dir=tmp_path, max_episodes=5))
    again = train("--resume", run, runs_dir=tmp_path, max_episodes=12)
    began = [(event.session_log.status, event.step) for path in run.glob("events.out.tfevents.*")
             for event in map(Event.FromString, RawEventFileLoader(str(path)).Load()) if event.HasField("session_log")]
    # TensorBoard drops what it has from this step on.
    ended = int(re.search(r"Resumed from checkpoint step \d+: episode (\d+),", again)[1])
    assert ended > 0 and began == [(SessionLog.START, ended + 1)]


def test_a_run_that_was_killed_and_resumed_reports_each_step_once(start, tmp_path):
    run = start([BINARY, *flags(ENDLESS | {"runs_dir": tmp_path})])
    run.wait_for(r"(\nCheckpoint step [1-9](?s:.*)){3}\n\[Evaluation ")
    run.popen.kill()
    run.wait()
    folder = run_folder(run.text())
    shutil.rmtree(checkpoints(folder)[-1])  # so that some reports become void
    void = (folder / "metrics.jsonl").read_text().splitlines()[-1]
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step":')  # as a kill may leave it
    more = json.loads(void)["episode"] + 40
    text = train("--resume", folder, **(ENDLESS | {"runs_dir": tmp_path, "max_episodes": more}))
    assert int(re.search(r"Resumed from checkpoint step (\d+)", text)[1]) * ENDLESS["num_envs"] < json.loads(void)["step"]
    reports = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for column in ("step", "episode", "minutes"):
        assert [report[column] for report in reports] == sorted(report[column] for report in reports)
    points = [(report["episode"], tag) for report in reports for tag in report if tag.startswith("reward/")]
    assert len(points) == len(set(points)) == 4 * reports[-1]["episode"]
    assert reports[-1]["step"] == int(re.search(r"Training completed! \d+ episodes, (\d+) steps", text)[1])
    shown = only_json(call("report", folder, "--json", "--ladder_games", "0").stdout)["runs"][0]
    assert shown["damage"] == [] and shown["steps"] == reports[-1]["step"]
    judged = [report["episode"] for report in reports if "eval/win_rate" in report]
    assert [point["episodes"] for point in shown["evaluations"]] == judged and len(judged) == len(set(judged)) >= 2


def test_the_best_actor_stays_until_a_better_one_comes(tmp_path):
    # Weights that stay win as often as before; against a stronger team they win less, and the same as before is no best then.
    still = {"runs_dir": tmp_path, "a_lr": 0, "c_lr": 0, "eval_interval": 4, "eval_games": 60, "checkpoint_interval": 4, "seed": 7}
    text = train(**(still | {"max_episodes": 4, "eval_opponent": "level0"}))
    run, texts = run_folder(text), [text]
    best = run / "trained_model" / "actor_best.pth"
    saved = best.stat().st_mtime_ns
    for episodes, opponent in ((8, "level4"), (12, "level0")):
        texts.append(train("--resume", run, **(still | {"max_episodes": episodes, "eval_opponent": opponent})))
    rates = [float(re.findall(r"^\[Evaluation at episode .* won ([\d.]+) %", text, re.M)[-1]) for text in texts]
    assert rates[0] > rates[1] and rates[2] == rates[0], rates
    assert best.stat().st_mtime_ns == saved


def test_other_networks_are_rejected_and_other_settings_listed(tmp_path):
    run = run_folder(train(runs_dir=tmp_path, max_episodes=5))
    written = (run / "config.json").read_bytes()
    refused = call(*flags(RUN | {"hidden_size": 8}), "--resume", run)
    assert refused.returncode == 2 and "--hidden_size 8 (the run: 16)" in refused.stderr
    assert (run / "config.json").read_bytes() == written
    changed = train("--resume", run, runs_dir=tmp_path, num_envs=3, gamma=0.9)
    assert "--num_envs 4 -> 3" in changed and "--gamma 0.99 -> 0.9" in changed
    assert "1 rank starts new games" in changed
    assert json.loads((run / "config.json").read_text())["gamma"] == 0.9
    assert train("--config", run / "config.json", runs_dir=tmp_path, max_episodes=1), "a run's settings are a preset"


def test_other_intervals_count_from_the_checkpoint_on(tmp_path):
    run = run_folder(train(runs_dir=tmp_path, max_episodes=8, checkpoint_interval=1, eval_interval=1))
    rarer = train("--resume", run, runs_dir=tmp_path, max_episodes=29, checkpoint_interval=9, eval_interval=9)
    evaluated = [int(episode) // 9 for episode in re.findall(r"\[Evaluation at episode (\d+)", rarer)]
    assert evaluated[:-1] == [1, 2, 3], rarer  # the last one is that of the end
    # One that falls due while the last is still being written is left out.
    assert 2 <= rarer.count("\nCheckpoint step ") <= 4, rarer


def test_a_run_continues_without_further_checkpoints(tmp_path):
    run = run_folder(train(runs_dir=tmp_path, max_episodes=5))
    held = checkpoints(run)
    step = manifest(held[-1])["step"]
    none = {"runs_dir": tmp_path, "checkpoint_interval": 0, "num_envs": 1}
    for resume, total in ((run, 9), ("auto", 10)):  # beyond the 8 that four boards end with
        again = train("--resume", resume, max_episodes=total, **none)
        assert run_folder(again) == run and f"Resumed from checkpoint step {step}: " in again
        assert f"No more checkpoints (--checkpoint_interval 0): after step {step} " in again
        assert checkpoints(run) == held and (run / "trained_model" / f"actor_{total}.pth").exists()
    fresh = run_folder(train("--resume", "auto", max_episodes=1, checkpoint_interval=0, runs_dir=tmp_path / "empty"))
    assert not (fresh / "checkpoints").exists()
    refused = call("--resume", fresh, "--max_episodes", "2")
    assert refused.returncode == 4 and "has no checkpoint to resume from" in refused.stderr


# Damage


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGE = {
    "a flipped bit in the weights": lambda c: flip(c / "shared.pth"),
    "a flipped bit in replay": lambda c: flip(c / "rank_0.replay"),
    "a flipped bit in the manifest": lambda c: flip(c / "manifest.json"),
    "a file cut short": lambda c: os.truncate(c / "rank_0.replay", (c / "rank_0.replay").stat().st_size - 1),
    "an empty manifest": lambda c: os.truncate(c / "manifest.json", 0),
    "no manifest": lambda c: (c / "manifest.json").unlink(),
    "a rank's part missing": lambda c: (c / "rank_0.pth").unlink(),
}


@pytest.fixture(scope="module")
def damaged_run(tmp_path_factory):
    """A run of which a copy may be damaged, and the line that every continuation must end with."""
    folder = tmp_path_factory.mktemp("damaged")
    run = run_folder(train(runs_dir=folder, keep_checkpoints=2))
    assert len(checkpoints(run)) == 2
    return run


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_checkpoint_is_skipped(damaged_run, tmp_path, damage):
    run = tmp_path / "run1_x"
    shutil.copytree(damaged_run, run)
    older, newest = checkpoints(run)
    damage(newest)
    assert not is_whole(run)
    reported = call("info", "--json", newest)
    assert reported.returncode == 4 and not only_json(reported.stdout)["whole"]
    again = call("--resume", run)
    assert again.returncode == 0, again.stderr
    assert f"Checkpoint step {int(newest.name[5:])} is damaged: rank 0 on " in again.stdout
    assert f"Resumed from checkpoint step {int(older.name[5:])}: " in again.stdout
    assert fingerprint(again.stdout)["line"] in (damaged_run / "train.log").read_text()
    assert is_whole(run) and (run / "checkpoints" / f"damaged_{newest.name}").is_dir()


@pytest.fixture(scope="module")
def two_ranks_run(tmp_path_factory):
    """A run of two ranks, as damaged_run is one of one."""
    folder = tmp_path_factory.mktemp("two")
    with starter(folder) as begin:
        ranks = ranks_by_hand(begin, 2, *flags(RUN | {"runs_dir": folder, "keep_checkpoints": 2}))
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text() + ranks[1].text()
        return run_folder(ranks[0].text())


@pytest.mark.parametrize("name", ["rank_1.pth", "rank_1.replay"])
def test_damage_that_only_rank_1_sees_is_skipped_by_all(start, two_ranks_run, tmp_path, name):
    run = tmp_path / "run1_x"
    shutil.copytree(two_ranks_run, run)
    older, newest = checkpoints(run)
    flip(newest / name)
    ranks = ranks_by_hand(start, 2, "--resume", run)
    assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text() + ranks[1].text()
    text = ranks[0].text()
    assert re.search(rf"Checkpoint step {int(newest.name[5:])} is damaged: rank 1 on \S+: {newest / name}: its checksum is ", text)
    assert f"Resumed from checkpoint step {int(older.name[5:])}: " in text
    assert fingerprint(text)["line"] in (two_ranks_run / "train.log").read_text()
    assert (run / "checkpoints" / f"damaged_{newest.name}").is_dir()


# What cannot be read


FAULTY_DISK = BUILD / "tests" / "train" / "libfaulty_disk.so"


def fault(operation, path, number):
    return {"LD_PRELOAD": FAULTY_DISK, "SD_FAULT": f"{operation}:{path}:{number}"}


def names(run):
    return sorted(path.name for path in (run / "checkpoints").iterdir())


@pytest.mark.parametrize("operation, name, number", [
    ("open", "rank_0.replay", errno.EACCES), ("read", "rank_0.replay", errno.EIO), ("open", "shared.pth", errno.ESTALE),
    ("open", "rank_0.pth", errno.EMFILE), ("read", "manifest.json", errno.EIO)])
def test_an_unreadable_file_does_not_count_as_damage(damaged_run, tmp_path, operation, name, number):
    run = tmp_path / "run1_x"
    shutil.copytree(damaged_run, run)
    older, newest = checkpoints(run)
    before = names(run)
    done = call("--resume", run, **fault(operation, f"{newest.name}/{name}", number))
    assert done.returncode == 4, done.stdout + done.stderr
    assert re.search(rf"cannot resume from {newest}: rank 0 on \S+: cannot read '{newest / name}': {os.strerror(number)}",
                     done.stderr), done.stderr
    assert f"--resume {older}\n" in done.stderr
    assert names(run) == before


def test_a_part_that_only_rank_1_cannot_read_stops_all_and_is_there_for_the_next_start(start, two_ranks_run, tmp_path):
    run = tmp_path / "run1_x"
    shutil.copytree(two_ranks_run, run)
    before, newest = names(run), checkpoints(run)[-1]
    ranks = ranks_by_hand(start, 2, "--resume", run, **fault("open", "rank_1.pth", errno.EACCES))
    assert [rank.wait() for rank in ranks] == [4, 4], ranks[0].text() + ranks[1].text()
    assert re.search(rf"rank 1 on \S+: cannot read '{newest}/rank_1.pth': Permission denied", ranks[0].text()), ranks[0].text()
    assert names(run) == before
    ranks = ranks_by_hand(start, 2, "--resume", run, "--max_episodes", 20)
    assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text() + ranks[1].text()
    assert f"Resumed from checkpoint step {int(newest.name[5:])}: " in ranks[0].text()


def test_a_checkpoint_of_a_newer_format_does_not_count_as_damage(damaged_run, tmp_path):
    run = tmp_path / "run1_x"
    shutil.copytree(damaged_run, run)
    before, path = names(run), checkpoints(run)[-1] / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2').replace("snake_ddp ", "snake_ddp 9"))
    done = call("--resume", run)
    assert done.returncode == 4, done.stdout
    assert f'{path} is of format 2, written by "snake_ddp 9' in done.stderr and "reads format 1" in done.stderr
    assert names(run) == before


# Runs, and other entries beside them


def test_a_checkpoint_set_aside_is_not_replaced_by_a_new_run_and_can_be_resumed_by_name(damaged_run, tmp_path):
    run = tmp_path / "snakes_3v3" / "run1_x"
    shutil.copytree(damaged_run, run)
    whole = checkpoints(run)
    for checkpoint in whole:
        flip(checkpoint / "shared.pth")
    # It keeps all: on a slow disk the two are early ones, and the rest of the run writes more.
    auto = flags(RUN | {"runs_dir": tmp_path, "resume": "auto", "keep_checkpoints": 100})
    aside = [checkpoint.parent / f"damaged_{checkpoint.name}" for checkpoint in whole]
    for reason in ("shared.pth: its checksum is", "Set aside as damaged: "):
        done = call(*auto)
        assert done.returncode == 4, done.stdout + done.stderr
        assert f"no checkpoint of {run} is whole" in done.stderr and reason in done.stderr
        assert f"{aside[1].name}, {aside[0].name}; " in done.stderr and f"--resume {aside[1]}" in done.stderr
        assert "--resume never" in done.stderr
    assert list((tmp_path / "snakes_3v3").iterdir()) == [run]
    refused = call("--resume", aside[0])
    assert refused.returncode == 4 and f"{aside[0]} is damaged: rank 0 on " in refused.stderr
    assert all(path.is_dir() for path in aside)
    flip(aside[0] / "shared.pth")
    taken = call("--resume", f"{aside[0]}/", "--keep_checkpoints", 100)
    assert taken.returncode == 0, taken.stderr
    assert f"Resumed from checkpoint step {int(whole[0].name[5:])}: " in taken.stdout
    assert fingerprint(taken.stdout)["line"] in (damaged_run / "train.log").read_text()
    assert whole[0].is_dir() and not aside[0].exists() and aside[1].is_dir() and is_whole(run)
    again = call(*auto)
    assert again.returncode == 0 and run_folder(again.stdout) == run, again.stderr
    gone = call("--resume", aside[0])
    assert gone.returncode == 4 and f"--resume {run} resumes" in gone.stderr


def test_a_checkpoint_by_name_leaves_later_ones_behind_and_a_restart_does_not_go_back_again(damaged_run, tmp_path):
    run = tmp_path / "run1_x"
    shutil.copytree(damaged_run, run)
    older, newest = checkpoints(run)
    job = {"SLURM_JOB_ID": 7, "RANK": 0, "WORLD_SIZE": 1}
    back = call("--resume", older, **job)
    assert back.returncode == 0, back.stderr
    assert f"Set aside, no longer used as checkpoints: left_{newest.name}\n" in back.stdout
    assert f"Resumed from checkpoint step {int(older.name[5:])}: " in back.stdout
    assert fingerprint(back.stdout)["line"] in (damaged_run / "train.log").read_text()
    assert (run / "checkpoints" / f"left_{newest.name}").is_dir() and is_whole(run)
    last = checkpoints(run)[-1]
    restarted = call("--resume", older, "--max_episodes", 20, **job, TORCHELASTIC_RESTART_COUNT=1)
    assert restarted.returncode == 0, restarted.stderr
    assert f"Resumed from checkpoint step {int(last.name[5:])}: " in restarted.stdout


@pytest.fixture
def nobody():
    """A folder that everybody may write to, and what a child does to have no rights that root has."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="snake_ddp_nobody."))
    folder.chmod(0o777)

    def renounce():
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    tried = subprocess.run([BINARY, "--version"], preexec_fn=renounce, capture_output=True, text=True)
    if tried.returncode != 0:
        assert "CI" not in os.environ, tried.stderr
        pytest.skip("nobody may not start the program here")
    yield folder, renounce
    subprocess.run(["chmod", "-R", "u+rwx", folder], check=True)
    shutil.rmtree(folder)


def test_entries_of_others_in_the_runs_folder_are_skipped(nobody):
    runs, renounce = nobody

    def auto(**more):
        done = call(*flags(RUN | {"runs_dir": runs, "resume": "auto", "max_episodes": 3} | more), preexec_fn=renounce)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = run_folder(auto())
    game = runs / "snakes_3v3"
    (game / "run7_20260101.tar.gz").write_text("an archive")
    (game / "run8_gone").symlink_to("nowhere")
    (game / "run9_circle").symlink_to("run9_circle")
    colleague = game / "run12_20260101_000000"
    (colleague / "checkpoints").mkdir(parents=True)
    colleague.chmod(0o000 if os.getuid() else 0o700)
    text = auto(max_episodes=5)
    assert run_folder(text) == first and f"Skipped {colleague}: " in text and "Permission denied" in text
    new = run_folder(auto(resume="never"))
    assert new.name.startswith("run13_")
    forbidden = checkpoints(first)[-1] / "rank_0.replay"
    forbidden.chmod(0o000)
    before = names(first)
    done = call("--resume", first, preexec_fn=renounce)
    assert done.returncode == 4 and f"cannot read '{forbidden}': Permission denied" in done.stderr, done.stdout + done.stderr
    assert names(first) == before


def test_a_restart_that_cannot_tell_its_own_run_begins_no_other(tmp_path):
    job = {"SLURM_JOB_ID": 7, "RANK": 0, "WORLD_SIZE": 1}
    line = flags(RUN | {"runs_dir": tmp_path, "resume": "auto", "max_episodes": 3})
    run = run_folder(call(*line, **job).stdout)
    os.truncate(run / "config.json", 100)
    done = call(*line, **job, TORCHELASTIC_RESTART_COUNT=1)
    assert done.returncode == 4 and f"{run} has checkpoints, but its config.json is damaged" in done.stderr, done.stdout
    assert list(run.parent.iterdir()) == [run]


def test_a_removed_setting_is_named_and_ignored_by_resume_only(damaged_run, tmp_path):
    run = tmp_path / "run1_x"
    shutil.copytree(damaged_run, run)
    config = run / "config.json"
    config.write_text(config.read_text().replace("{", '{\n  "old_flag": [1, 2],', 1))
    strict = call("--config", config, "--runs_dir", tmp_path, "--check_settings")
    assert strict.returncode == 2 and 'unknown key "old_flag"' in strict.stderr
    done = call("--resume", run, "--max_episodes", 20)
    assert done.returncode == 0, done.stderr
    assert "Ignored in config.json, because this version has no such setting: old_flag\n" in done.stdout
    assert "old_flag" not in config.read_text()


def test_a_checkpoint_of_another_run_is_rejected(damaged_run, tmp_path):
    run = run_folder(train(runs_dir=tmp_path, max_episodes=3))
    stranger = run / "checkpoints" / checkpoints(damaged_run)[-1].name
    shutil.copytree(checkpoints(damaged_run)[-1], stranger)
    before = names(run)
    done = call("--resume", run)
    assert done.returncode == 4 and f"{stranger} is a checkpoint of another run" in done.stderr, done.stdout
    assert names(run) == before


def test_a_run_without_a_complete_checkpoint_is_an_error_that_says_why(damaged_run, tmp_path):
    run = tmp_path / "run1_x"
    shutil.copytree(damaged_run, run)
    for checkpoint in checkpoints(run):
        flip(checkpoint / "shared.pth")
    written = (run / "config.json").read_bytes()
    done = call("--resume", run, "--gamma", "0.5")
    assert done.returncode == 4 and (run / "config.json").read_bytes() == written
    assert f"no checkpoint of {run} is whole" in done.stderr and done.stderr.count("shared.pth: its checksum is") == 2
    nowhere = call("--resume", tmp_path / "nowhere")
    assert nowhere.returncode == 4 and "not the folder of a run" in nowhere.stderr


def test_a_manifest_cannot_lead_out_of_its_folder(damaged_run, tmp_path):
    run = tmp_path / "run1_x"
    shutil.copytree(damaged_run, run)
    newest = checkpoints(run)[-1]
    text = (newest / "manifest.json").read_text()
    (newest / "manifest.json").write_text(text.replace('"rank_0.pth"', '"../rank_0.pth"'))
    reported = only_json(call("info", "--json", newest).stdout)
    assert not reported["whole"]


# Room


def test_without_room_for_replay_training_continues_and_says_so(start, tmp_path):
    settings = ENDLESS | {"buffer_size": 1200, "hidden_size": 8}
    cramped = start(["prlimit", "--fsize=500000", BINARY, *flags(settings | {"runs_dir": tmp_path})])
    cramped.wait_for(r"\nNo checkpoint at step \d+: rank 0 on .*rank_0.replay': File too large.* Training continues")
    cramped.popen.send_signal(signal.SIGTERM)
    assert cramped.wait() == 4
    assert "no final checkpoint: rank 0 on " in cramped.text()
    run = run_folder(cramped.text())
    held = checkpoints(run)
    assert held and is_whole(run) and not list((run / "checkpoints").glob(".step_*")), "the ones before are still there"
    assert not (run / "checkpoints" / "resumable").exists()
    total = manifest(held[-1])["episode"] + 20
    again = call("--resume", run, "--max_episodes", total)
    assert again.returncode == 0, again.stderr
    assert fingerprint(again.stdout)["line"] == fingerprint(
        train(**(settings | {"runs_dir": tmp_path / "whole", "max_episodes": total})))["line"]


def test_a_single_rank_without_room_is_named_and_training_continues(start, tmp_path):
    def begin(command, **variables):
        return start([*(["prlimit", "--fsize=500000"] if variables["RANK"] == 1 else []), *command], **variables)

    ranks = ranks_by_hand(begin, 2, *flags(ENDLESS | {"runs_dir": tmp_path, "buffer_size": 1200, "hidden_size": 8}))
    reported = ranks[0].wait_for(r"\nNo checkpoint at step (\d+): rank 1 on (\S+): cannot write '[^']*/rank_1.replay': "
                             r"File too large.* Training continues(?s:.*)\nepisode ")
    run = run_folder(ranks[0].text())
    step = int(reported[1])
    assert reported[2] == socket.gethostname()
    assert step not in [manifest(path)["step"] for path in checkpoints(run)]
    ranks[0].popen.send_signal(signal.SIGTERM)
    assert [rank.wait() for rank in ranks] == [4, 4]
    assert "no final checkpoint: rank 1 on " in ranks[0].text() and "no final checkpoint: " in ranks[1].text()
    assert re.search(rf"Could not write this rank's part of checkpoint step {step}: cannot write '.*/rank_1.replay'", (run / "train.rank1.log").read_text())
    assert checkpoints(run) and is_whole(run) and not list((run / "checkpoints").glob(".step_*"))
    assert not (run / "checkpoints" / "resumable").exists() and list((run / "trained_model").glob("actor_*.pth"))


def forget_file(checkpoint, name):
    """The checkpoint's manifest does not name this file any more."""
    path = checkpoint / "manifest.json"
    text = re.sub(r',\n    \{\n      "name": "%s",[^}]*\}' % re.escape(name), "", path.read_text())
    compact = re.sub(r"\n *", "", re.sub(r',\n  "checksum": \d+', "", text)).replace('": ', '":')
    path.write_text(re.sub(r'"checksum": \d+', f'"checksum": {zlib.crc32(compact.encode())}', text))
    (checkpoint / name).unlink()


def test_all_ranks_wait_for_the_one_whose_replay_is_missing(start, tmp_path):
    def two(*more, **settings):
        ranks = ranks_by_hand(start, 2, *flags(RUN | {"runs_dir": tmp_path} | settings), *more)
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text() + ranks[1].text()
        return ranks[0].text()

    run = run_folder(two(max_episodes=5))
    forget_file(checkpoints(run)[-1], "rank_1.replay")
    then = manifest(checkpoints(run)[-1])
    text = two("--resume", run, max_episodes=9)
    assert is_whole(run) and f"Resumed from checkpoint step {then['step']}: " in text
    moves, updates = map(int, re.search(r"Training completed! \d+ episodes, (\d+) steps, (\d+) updates", text).groups())
    envs = RUN["num_envs"]
    steps = moves // (2 * envs)  # the moves are those of both ranks
    # A window of n steps is stored when its last one is played.
    first = then["step"] + RUN["batch_size"] // envs + RUN["n_step"] - 1
    assert updates == then["updates"] + (steps - first + 1) * envs


def test_training_continues_while_a_slow_disk_takes_a_checkpoint(start, tmp_path):
    run = start([BINARY, "--ddp", "--world_size", "2", *flags(ENDLESS | {"runs_dir": tmp_path, "keep_checkpoints": 9})],
                LD_PRELOAD=BUILD / "tests" / "train" / "libslow_disk.so")
    run.wait_for(r"(?s)(Checkpoint step [1-9].*){2}\n")  # the one of step 0 is not one of training
    run.popen.send_signal(signal.SIGTERM)
    assert run.wait() == 75, run.text()
    begun = {manifest(path)["step"]: manifest(path)["episode"] for path in checkpoints(run_folder(run.text()))}
    reported = list(re.finditer(r"Checkpoint step ([1-9]\d*): .* in ([\d.]+) s", run.text()))
    assert len(reported) >= 2, run.text()
    for line in reported[:2]:
        reached = int(re.findall(r"pisode (\d+)\]", run.text()[:line.start()])[-1])
        assert float(line[2]) > 1.2 and reached >= begun[int(line[1])] + 5, run.text()


def test_only_so_many_checkpoints_are_kept(tmp_path):
    for keep in (1, 3):
        said = train(runs_dir=tmp_path, keep_checkpoints=keep)
        run = run_folder(said)
        kept = checkpoints(run)
        # One that falls due while the last is still being written is left out, so a slow disk makes fewer.
        written = [int(step) for step in re.findall(r"Checkpoint step (\d+)", said)]
        assert [manifest(path)["step"] for path in kept] == written[-keep:]
        assert (run / "checkpoints" / "latest").read_text() == kept[-1].name + "\n"
    none = run_folder(train(runs_dir=tmp_path, checkpoint_interval=0))
    assert not (none / "checkpoints").exists()


# Death


def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(start, tmp_path):
    seed = random.randrange(10**6)
    moments = random.Random(seed)
    run = None
    for _ in range(5):
        process = start([BINARY, *flags(ENDLESS | {"runs_dir": tmp_path / "parts"}), *(["--resume", run] if run else [])])
        process.wait_for(r"\nCheckpoint step |\nResumed from ")
        run = run_folder(process.text())
        time.sleep(moments.uniform(0, 0.3))
        process.popen.kill()
        process.wait()
        assert is_whole(run), f"seed {seed}"
    total = manifest(checkpoints(run)[-1])["episode"] + 20
    last = call("--resume", run, "--max_episodes", total)
    assert last.returncode == 0, last.stderr
    assert fingerprint(last.stdout)["line"] == fingerprint(
        train(**(ENDLESS | {"runs_dir": tmp_path / "whole", "max_episodes": total})))["line"], f"seed {seed}"


@pytest.mark.parametrize("through", ["", '"$@"; exit'], ids=["directly", "a script"])
def test_torchrun_resumes_by_itself_when_a_rank_dies(through, start, tmp_path):
    settings = ENDLESS | {"eval_interval": 0, "dist_timeout": 20}
    program = ["sh", "-c", through, "sh", BINARY] if through else [BINARY]
    run = torchrun(start, 2, *program, *flags(settings | {"runs_dir": tmp_path / "runs"}), more=["--max-restarts=3"])
    folder = run_folder_when_there(run)
    run.wait_for(r"Checkpoint step (?!0:)\d+: ")
    os.kill(worker_pids(run, 2)[1], signal.SIGKILL)
    run.wait_for(r"\nResumed from checkpoint step [1-9]\d*: (?s:.*)\nCheckpoint step ")
    os.kill(worker_pids(run, 2)[0], signal.SIGTERM)  # torchrun counts that as done
    assert run.wait() == 0, run.text()
    assert list((tmp_path / "runs" / "snakes_3v3").iterdir()) == [folder]
    assert (folder / "checkpoints" / "resumable").exists() and is_whole(folder)


def test_torchrun_begins_no_new_run_when_all_checkpoints_are_damaged(start, tmp_path):
    (tmp_path / "snakes_3v3").mkdir()
    (tmp_path / "snakes_3v3" / "run7_20260101.tar.gz").write_text("what is no run stops no start")
    settings = ENDLESS | {"eval_interval": 0, "dist_timeout": 20, "runs_dir": tmp_path}
    run = torchrun(start, 1, BINARY, *flags(settings), more=["--max-restarts=2"])
    folder = run_folder_when_there(run)
    run.wait_for(r"Checkpoint step (?!0:)\d+: ")
    worker = worker_pids(run, 1)[0]
    suspend(worker)
    for checkpoint in checkpoints(folder):
        flip(checkpoint / "shared.pth")
    os.kill(worker, signal.SIGKILL)
    assert run.wait() == 1, run.text()
    assert "shared.pth: its checksum is" in run.text() and "once repaired, resume from one of them by name" in run.text()
    assert len(list((tmp_path / "snakes_3v3").iterdir())) == 2 and not checkpoints(folder)


def test_an_elastic_job_continues_with_the_machine_that_is_left(start, tmp_path):
    settings = ENDLESS | {"eval_interval": 0, "dist_timeout": 20, "runs_dir": tmp_path}
    agents = []
    port = free_port()
    for _ in range(2):
        agents.append(start([sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc_per_node=1",
                             "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=elastic",
                             f"--rdzv-endpoint=127.0.0.1:{port}", "--local-addr=127.0.0.1",
                             "--rdzv-conf=last_call_timeout=6,keep_alive_interval=1,keep_alive_max_attempt=3",
                             "--no-python", BINARY, *flags(settings)], TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1))
        wait_until_listening(port)  # the first one keeps the store
    run_folder_when_there(agents[0])
    agents[0].wait_for(r": 2 CPU ranks on (?s:.*)Checkpoint step [1-9]\d*: ")
    for pid in [*worker_pids(agents[1], 1).values(), agents[1].popen.pid]:
        os.kill(pid, signal.SIGKILL)
    agents[0].wait_for(r"\nResumed from checkpoint step [1-9]\d*: .*\nChanged: 2 -> 1 rank;(?s:.*)\nCheckpoint step ")
    os.kill(worker_pids(agents[0], 1)[0], signal.SIGTERM)
    assert agents[0].wait() == 0, agents[0].text()
    assert is_whole(run_folder(agents[0].text()))


def run_folder_when_there(process):
    process.wait_for(r"Run folder: .+\n")
    return run_folder(process.text())


def test_two_processes_do_not_write_into_one_run(start, tmp_path):
    first = start([BINARY, *flags(RUN | {"max_episodes": 10**9, "runs_dir": tmp_path})])
    run = run_folder_when_there(first)
    second = call("--resume", run)
    assert second.returncode == 4 and "is being written by another process" in second.stderr
    first.popen.send_signal(signal.SIGTERM)
    assert first.wait() == 75


def test_auto_continues_with_the_newest_run_and_with_a_jobs_own(tmp_path):
    auto = {"resume": "auto", "runs_dir": tmp_path}
    first = run_folder(train(max_episodes=3, **auto))
    assert run_folder(train(max_episodes=5, **auto)) == first

    def in_job(job, **settings):
        done = call(*flags(RUN | auto | settings), SLURM_JOB_ID=job, RANK=0, WORLD_SIZE=1)
        assert done.returncode == 0, done.stderr
        return run_folder(done.stdout)

    second = in_job(7, max_episodes=3)
    assert second != first
    third = in_job(8, max_episodes=3)
    assert third not in (first, second)
    assert in_job(7, max_episodes=5) == second
    assert run_folder(train(max_episodes=3, runs_dir=tmp_path)) not in (first, second, third)


def test_auto_takes_the_newest_run_of_its_own_learner(tmp_path):
    def auto(algo, **settings):
        return train("--resume", "auto", **({"algo": algo, "runs_dir": tmp_path, "max_episodes": 3} | GAMES[algo] | settings))

    first = run_folder(auto("ddpg"))
    text = auto("dqn")
    second = run_folder(text)
    assert second != first and f"A new run: there is none with --algo dqn; passed over: {first.name} (ddpg)\n" in text
    text = auto("ddpg", max_episodes=6)
    assert run_folder(text) == first and "Resumed from checkpoint" in text
    assert f"This is the newest run with --algo ddpg; passed over: {second.name} (dqn)\n" in text
    assert "passed over" not in auto("dqn", max_episodes=6)


def reported(run):
    done = call("report", run, "--json", "--ladder_games", 0)
    assert done.returncode == 0, done.stderr
    return only_json(done.stdout)["runs"][0]


def test_readers_agree_on_steps_and_points_after_any_chain_of_restarts(tmp_path):
    """Also from the checkpoint of episode 0, and in a copy of the folder."""
    settings = {"runs_dir": tmp_path / "runs", "keep_checkpoints": 100, "eval_interval": 3, "log_every_episode": True}
    run = run_folder(train(**settings)).rename(tmp_path / "copied")
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    for number in range(4):
        kept = checkpoints(run)
        checkpoint = kept[0] if number == 0 else dice.choice(kept[:-1])
        text = train("--resume", checkpoint, **(settings | {"max_episodes": 12 + number}))
        steps = int(re.search(r"Training completed! \d+ episodes, (\d+) steps", text)[1])
        assert steps == manifest(checkpoints(run)[-1])["step"] * RUN["num_envs"]
        shown = reported(run)
        assert shown["steps"] == steps, f"seed {seed}, after {checkpoint.name}"
        for tag in ("reward/total", "eval/win_rate"):
            episodes = shown["curves"][tag]["episodes"]
            assert episodes == sorted(set(episodes)), f"seed {seed}, after {checkpoint.name}: {tag}"
        assert shown["curves"]["reward/total"]["episodes"][-1] == manifest(checkpoints(run)[-1])["episode"]
        assert shown["curves"]["collect/env_steps"]["steps"] == sorted(shown["curves"]["collect/env_steps"]["steps"])


def test_a_clock_that_jumps_lengthens_no_run(tmp_path):
    jump = BUILD / "tests" / "train" / "libjumping_clock.so"
    settings = {"runs_dir": tmp_path, "max_episodes": 10**9, "max_minutes": 0.06, "eval_interval": 0}
    done = call(*flags(RUN | settings), LD_PRELOAD=jump)
    assert done.returncode == 0, done.stderr
    run = run_folder(done.stdout)
    marks = reported(run)["marks"]
    assert [mark["minutes"] for mark in marks] == sorted(mark["minutes"] for mark in marks)
    assert marks[-1]["kind"] == "end" and 0.05 < marks[-1]["minutes"] < 0.1, marks
    again = call("--resume", run, "--max_minutes", 0.12, LD_PRELOAD=jump)
    assert again.returncode == 0 and "Resumed from" in again.stdout, again.stderr
    shown = reported(run)
    minutes = float(re.search(r"updates in ([\d.]+) min", again.stdout)[1])
    assert abs(shown["minutes"] - minutes) < 0.1, shown["minutes"]
    assert all(0 <= point <= shown["minutes"] for curve in shown["curves"].values() for point in curve["minutes"])
