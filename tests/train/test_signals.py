"""Signals at any moment: from the first instruction on, while games are judged, from a closed terminal."""

import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from processes import (BINARY, BUILD, EPISODE, PATIENCE_S, SOURCE, STARTER, TINY, call, clean_environment, descendants, fingerprint, flags,
                       only_json, ranks_by_hand, run_folder, starter, torchrun, wait_until_loading, worker_pids)

ENDLESS = TINY | {"max_episodes": 10**9, "checkpoint_interval": 1000}
LEAGUE = {"algo": "dqn", "obs": "view", "opponent_mix": "level0:0.2,level2:0.2,league:0.6", "league_interval": 4,
          "league_games": 120, "league_win_rate": 0}
PROBE = BUILD / "tests" / "train" / "train_probe"


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin


def checkpoints(run):
    return sorted((run / "checkpoints").glob("step_*"))


def check_stopped(run):
    """A whole checkpoint is there, and the marker."""
    reported = call("info", "--json", run)
    assert reported.returncode == 0 and only_json(reported.stdout)["whole"] and checkpoints(run), reported.stdout
    assert (run / "checkpoints" / "resumable").exists()


# The first moments


def own_ranks(start, ranks, *more, **settings):
    return start([STARTER, "--ddp", "--world_size", ranks, *flags(settings), *more])


def test_signals_that_come_while_libraries_load_stop_a_process(start, tmp_path):
    process = start([STARTER, *flags(ENDLESS | {"runs_dir": tmp_path})])
    wait_until_loading(process.popen.pid)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        process.popen.send_signal(number)
    assert process.wait() == 75, process.text()
    check_stopped(run_folder(process.text()))


def test_a_request_to_save_that_comes_while_libraries_load_is_heeded(start, tmp_path):
    process = start([STARTER, *flags(TINY | {"runs_dir": tmp_path})])
    wait_until_loading(process.popen.pid)
    process.popen.send_signal(signal.SIGUSR2)
    assert process.wait() == 0, process.text()
    assert re.search(r"\nSaved at episode \d+, requested by a signal\n", process.text())


def test_a_launcher_passes_on_what_comes_while_its_libraries_load(start, tmp_path):
    launcher = own_ranks(start, 2, **ENDLESS, runs_dir=tmp_path)
    wait_until_loading(launcher.popen.pid)
    launcher.popen.send_signal(signal.SIGUSR1)
    assert launcher.wait() == 75, launcher.text()
    check_stopped(run_folder(launcher.text()))


def a_rank_below(process):
    until = time.monotonic() + PATIENCE_S
    while not (found := descendants(process.popen.pid)):
        assert process.popen.poll() is None and time.monotonic() < until, process.text()
    return found[-1]


@pytest.mark.parametrize("launcher, number, code", [("--ddp", signal.SIGTERM, 75), ("torchrun", signal.SIGHUP, 0)])
def test_a_rank_heeds_a_signal_that_comes_while_its_libraries_load(start, tmp_path, launcher, number, code):
    settings = ENDLESS | {"runs_dir": tmp_path}
    run = own_ranks(start, 2, **settings) if launcher == "--ddp" else torchrun(start, 2, STARTER, *flags(settings))
    rank = a_rank_below(run)
    wait_until_loading(rank)
    os.kill(rank, number)
    assert run.wait() == code, run.text()
    check_stopped(run_folder(run.text()))


def test_other_commands_end_by_a_signal_as_programs_do(start, tmp_path):
    os.mkfifo(tmp_path / "games")
    waits = start([STARTER, "verify-trace", tmp_path / "games"])
    wait_until_loading(waits.popen.pid)
    waits.popen.send_signal(signal.SIGTERM)
    assert waits.wait() == -signal.SIGTERM and waits.took_s < 20


# A closed terminal


def test_a_closed_terminal_stops_a_run(tmp_path):
    master, slave = pty.openpty()

    def own_terminal():
        import fcntl
        import termios
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    run = subprocess.Popen([STARTER, "--ddp", "--world_size", "2", *flags(ENDLESS | {"runs_dir": tmp_path})], stdin=slave,
                           stdout=slave, stderr=slave, env=clean_environment(), preexec_fn=own_terminal)
    try:
        os.close(slave)
        text = b""
        while b"episode 1  " not in text:
            text += os.read(master, 4096)
        os.close(master)
        assert run.wait(PATIENCE_S) == 75
        check_stopped(next(tmp_path.glob("snakes_3v3/run1_*")))
    finally:
        run.kill()
        run.wait()


def test_a_hangup_of_torchrun_stops_its_ranks(start, tmp_path):
    run = torchrun(start, 2, BINARY, *flags(ENDLESS | {"runs_dir": tmp_path}))
    run.wait_for(EPISODE)
    run.popen.send_signal(signal.SIGHUP)
    run.wait()
    check_stopped(run_folder(run.text()))


def test_under_nohup_a_hangup_stops_nothing(start, tmp_path):
    run = start(["nohup", STARTER, "--ddp", "--world_size", "2", "--log_every_episode", *flags(ENDLESS | {"runs_dir": tmp_path})])
    run.wait_for(r"\[Episode \d+\]")
    for pid in (run.popen.pid, *worker_pids(run, 2).values()):
        os.kill(pid, signal.SIGHUP)
    before = run.text()
    while run.text().count("[Episode") < before.count("[Episode") + 3:
        assert run.popen.poll() is None, run.text()
        time.sleep(0.1)
    run.popen.send_signal(signal.SIGTERM)
    assert run.wait() == 75, run.text()


# Games that are judged


@pytest.mark.parametrize("games", [{"eval_interval": 1, "eval_games": 10**7}, LEAGUE | {"league_interval": 1, "league_games": 10**7}],
                         ids=["an evaluation", "a judgement"])
def test_a_stop_is_noticed_between_games(start, tmp_path, games):
    settings = ENDLESS | games | {"runs_dir": tmp_path}
    run = start([BINARY, "--ddp", "--world_size", "2", *flags(settings)])
    run.wait_for(EPISODE)
    time.sleep(1)  # it would judge for hours
    os.kill(worker_pids(run, 2)[1], signal.SIGTERM)
    assert run.wait() == 75, run.text()
    check_stopped(run_folder(run.text()))
    episode = json.loads((checkpoints(run_folder(run.text()))[-1] / "manifest.json").read_text())["episode"]
    again = call("--ddp", "--world_size", "2", "--resume", run_folder(run.text()), *flags({
        "max_episodes": episode, "eval_games": 8, "league_games": 100}))
    assert again.returncode == 0, again.stderr
    assert f"[{'Evaluation' if 'eval_games' in games else 'League'} at episode {episode}]" in again.stdout or "league_games" in games


@pytest.mark.parametrize("teams", [["--team_a", "level2", "--team_b", "level4"], ["--ladder", "level0", "level2", "level4"]],
                         ids=["a match", "a ladder"])
def test_a_match_that_is_stopped_says_so_on_all_ranks(start, tmp_path, teams):
    ranks = ranks_by_hand(start, 2, "eval", *teams, "--games", "100000000", "--json", program=STARTER)
    for rank in ranks:
        wait_until_loading(rank.popen.pid)
    time.sleep(2)  # they play by then; on a busy machine they may still load, and end the same
    ranks[1].popen.send_signal(signal.SIGINT)
    assert [rank.wait() for rank in ranks] == [75, 75]
    for number, rank in enumerate(ranks):
        assert re.fullmatch(rf"snake_ddp: rank {number} on .*: stopped by a signal before all games were played; "
                            "there is no result\n", rank.text())


# Long steps and long searches


SEARCHER = {"algo": "dqn", "obs": "view", "reward": "score", "mask_fatal": True, "hidden_size": 1024, "updates_per_step": 0.1}
LONG_SEARCH = "puct500000"  # with these networks a move on four boards takes longer than a test waits, in 2 GB of memory


def test_a_stop_ends_a_search_within_a_move(start, tmp_path):
    settings = ENDLESS | SEARCHER | {"eval_interval": 1, "eval_games": 8, "eval_search": LONG_SEARCH, "runs_dir": tmp_path}
    run = start([BINARY, "--ddp", "--world_size", "2", *flags(settings)])
    run.wait_for(EPISODE)
    time.sleep(1)
    os.kill(worker_pids(run, 2)[1], signal.SIGTERM)
    assert run.wait() == 75, run.text()
    check_stopped(run_folder(run.text()))


def test_a_stop_ends_a_match_within_a_move(start):
    champion = f"{SOURCE / 'models' / 'champion.pth'}:puct@60000ms"  # for each board
    match = start([STARTER, "eval", "--team_a", champion, "--team_b", "level2", "--games", "64"])
    wait_until_loading(match.popen.pid)
    time.sleep(2)
    match.popen.send_signal(signal.SIGTERM)
    assert match.wait() == 75 and "stopped by a signal" in match.text(), match.text()


LONG_STEP = TINY | {"num_envs": 64, "episode_length": 16, "checkpoint_interval": 1000, "dist_timeout": 60}
LONG_STEPS = {"replay": {"algo": "dqn", "updates_per_step": 4, "opponent_mix": "level0:0.5,self:0.5", "epsilon_speed": 0.999},
              "weights averaged": {"algo": "ddpg", "updates_per_step": 4, "local_updates": 20, "outer_momentum": 0.5},
              "a rollout": {"algo": "pqn", "rollout_steps": 8, "rollout_epochs": 16, "n_step": 1}}


@pytest.mark.parametrize("step", LONG_STEPS)
def test_a_run_that_is_stopped_within_a_step_ends_with_the_same_bits(start, tmp_path, step):
    settings = LONG_STEP | LONG_STEPS[step]

    def run(*more, **changed):
        return start([BINARY, "--ddp", "--world_size", "2", *flags(settings | changed), *more])

    for attempt in range(5):  # a signal may come just between two steps
        stopped = run(runs_dir=tmp_path / f"parts{attempt}", max_episodes=10**9, opponent_difficulty_strategy="fixed:2")
        stopped.wait_for(EPISODE)
        os.kill(worker_pids(stopped, 2)[1], signal.SIGTERM)
        assert stopped.wait() == 75, stopped.text()
        folder = run_folder(stopped.text())
        check_stopped(folder)
        held = json.loads((checkpoints(folder)[-1] / "manifest.json").read_text())
        if held["updates"] % (512 if step == "a rollout" else 256) != 0:  # those of a step, or of a rollout
            break
    else:
        raise AssertionError("no stop came within a step")
    total = {"max_episodes": held["episode"] + 40, "opponent_difficulty_strategy": "fixed:2"}
    again = run("--resume", folder, **total)
    assert again.wait() == 0, again.text()
    whole = run(runs_dir=tmp_path / "whole", **total)
    assert whole.wait() == 0, whole.text()
    assert fingerprint(again.text())["line"] == fingerprint(whole.text())["line"]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_whose_updates_are_slow_stops_between_two_votes_and_ends_with_the_same_bits(start, tmp_path, ranks):
    # One update a step, and twenty steps from vote to vote.
    settings = TINY | {"algo": "dqn", "hidden_size": 256, "batch_size": 8192 // ranks, "num_envs": 64, "updates_per_step": 1 / 64,
                       "buffer_size": 10000, "dist_timeout": 60, "opponent_difficulty_strategy": "fixed:2"}

    def run(*more, **changed):
        return start([BINARY, "--ddp", "--world_size", ranks, *flags(settings | changed), *more])

    for attempt in range(5):  # a signal may come just before a vote
        stopped = run(runs_dir=tmp_path / f"parts{attempt}", max_episodes=10**9)
        stopped.wait_for(r"First update")
        time.sleep(1)
        os.kill(worker_pids(stopped, ranks)[ranks - 1], signal.SIGTERM)
        assert stopped.wait() == 75, stopped.text()
        folder = run_folder(stopped.text())
        check_stopped(folder)
        steps = int(checkpoints(folder)[-1].name[5:])
        if steps % 20 != 0:
            break
    else:
        raise AssertionError("no stop came between two votes")
    total = {"total_steps": steps * settings["num_envs"] * ranks}  # all are played; what remains are the steps up to the vote
    again = run("--resume", folder, **total)
    assert again.wait() == 0, again.text()
    whole = run(runs_dir=tmp_path / "whole", **total)
    assert whole.wait() == 0, whole.text()
    assert fingerprint(again.text())["line"] == fingerprint(whole.text())["line"]


# What was due when the stop came


def judged(text):
    """Lines about evaluations and judgements, without the time."""
    return re.findall(r"^\[(?:Evaluation|League) at .*?(?=, [\d.]+ min since|$)", text, re.M)


DUE = TINY | LEAGUE | {"updates_per_step": 0.25, "episode_length": 50, "eval_interval": 4, "eval_games": 8, "checkpoint_interval": 4,
                       "buffer_size": 600}


@pytest.mark.parametrize("step, max_episodes", [(60, 16), (100, 8)], ids=["under way", "at the end"])
def test_what_is_due_at_the_vote_of_a_stop_is_played_by_the_next_start(start, tmp_path, step, max_episodes):
    settings = DUE | {"max_episodes": max_episodes}
    stopped = start([PROBE, "run", "stop", step, 60000, *flags(settings | {"runs_dir": tmp_path / "parts"})])
    assert stopped.wait() == 75, stopped.text()
    run = run_folder(stopped.text())
    assert int(checkpoints(run)[-1].name[5:]) == step
    again = call("--resume", run)
    assert again.returncode == 0, again.stderr
    whole = call(*flags(settings | {"runs_dir": tmp_path / "whole"}))
    assert whole.returncode == 0, whole.stderr
    kinds = [line.split()[0] for line in judged(whole.stdout)]
    assert kinds.count("[Evaluation") >= 2 and "[League" in kinds
    assert judged(stopped.text()) + judged(again.stdout) == judged(whole.stdout)
    weights_and_boards = [re.sub(r" batch \w+", "", fingerprint(text)["line"]) for text in (again.stdout, whole.stdout)]
    assert weights_and_boards[0] == weights_and_boards[1]


# Exit codes


def test_what_torchrun_left_in_a_shell_does_not_change_the_exit_code(start, tmp_path):
    run = start([BINARY, "--ddp", "--world_size", "2", *flags(ENDLESS | {"runs_dir": tmp_path})], TORCHELASTIC_RUN_ID="left over",
                TORCHELASTIC_RESTART_COUNT=1, TORCHELASTIC_USE_AGENT_STORE="True")
    run.wait_for(EPISODE)
    run.popen.terminate()
    assert run.wait() == 75, run.text()


def test_a_stop_without_a_checkpoint_ends_neither_as_resumable_nor_as_done(start, tmp_path):
    run = start([BINARY, "--ddp", "--world_size", "2", *flags(ENDLESS | {"runs_dir": tmp_path, "checkpoint_interval": 0})])
    run.wait_for(EPISODE)
    run.popen.terminate()
    assert run.wait() == 4, run.text()
    assert ". Without checkpoints (--checkpoint_interval 0) the run cannot be resumed\n" in run.text()
    assert not (run_folder(run.text()) / "checkpoints").exists()


# A checkpoint that takes long


def unfinished(run):
    return {path.name for path in (run / "checkpoints").glob(".step_*")}


def wait_for_an_unfinished_one(process, run):
    until = time.monotonic() + PATIENCE_S
    while not unfinished(run):
        assert process.popen.poll() is None and time.monotonic() < until, process.text()
        time.sleep(0.005)


def test_signals_while_a_slow_checkpoint_is_written_are_heeded_after_it(start, tmp_path):
    settings = ENDLESS | {"runs_dir": tmp_path, "keep_checkpoints": 9, "checkpoint_interval": 10**9}  # only those asked for
    process = start([BINARY, "--ddp", "--world_size", "2", *flags(settings)],
                    LD_PRELOAD=BUILD / "tests" / "train" / "libslow_disk.so")
    process.wait_for(r"Checkpoint step 0: ")
    run = run_folder(process.text())
    for written in (1, 2):
        process.popen.send_signal(signal.SIGUSR2)
        if written == 1:
            wait_for_an_unfinished_one(process, run)
    process.wait_for(r"(?s)(Checkpoint step [1-9].*){2}")  # one for each request
    process.popen.send_signal(signal.SIGUSR2)
    wait_for_an_unfinished_one(process, run)
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 75, process.text()
    check_stopped(run)
    reported = [int(step) for step in re.findall(r"Checkpoint step (\d+): ", process.text())]
    assert len(reported) == 5 and reported == sorted(set(reported)), process.text()
    log = (run / "train.rank1.log").read_text()
    assert checkpoints(run)[-1].name == f"step_{reported[-1]:012d}" and f"Stopped by a signal at step {reported[-1]} " in log


# The watchdog


def test_a_rank_that_gets_stuck_while_it_plays_is_ended(start, tmp_path):
    settings = ENDLESS | {"runs_dir": tmp_path, "dist_timeout": 3}
    stuck = start([PROBE, "run", "stall", 2, 0, *flags(settings)])
    assert stuck.wait() == 3, stuck.text()
    assert stuck.took_s < 90 and re.search(r"no progress for \d+\.\d s after playing \(tick \d+\)", stuck.text()), stuck.text()


def test_playing_is_progress(start, tmp_path):
    settings = TINY | {"runs_dir": tmp_path, "dist_timeout": 4, "batch_size": 1000, "episode_length": 32, "checkpoint_interval": 0}
    slow = start([PROBE, "run", "slow", 24, 0, *flags(settings)])  # six seconds without an update
    assert slow.wait() == 0, slow.text()


def test_waiting_for_a_slower_rank_that_judges_is_no_lack_of_progress(start):
    ranks = ranks_by_hand(start, 2, "judge", program=PROBE)
    assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text()
    assert all(rank.took_s > 3 for rank in ranks), "one second longer than the faster one's games"


# Shells of other launchers


def test_own_ranks_start_in_a_shell_of_srun_and_not_among_several_ranks(tmp_path):
    shell = {"SLURM_STEP_ID": 0, "SLURM_PROCID": 0, "SLURM_NTASKS": 1, "SLURM_LOCALID": 0, "SLURM_NODEID": 0, "SLURM_JOB_ID": 7,
             "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_JOB_NODELIST": "localhost"}
    done = call("--ddp", "--world_size", 2, *flags(TINY | {"runs_dir": tmp_path}), **shell)
    assert done.returncode == 0, done.stderr
    assert sorted(fingerprint(done.stdout)["ranks"]) == [0, 1]
    several = shell | {"SLURM_NTASKS": 3, "SLURM_STEP_TASKS_PER_NODE": "3"}
    done = call("--ddp", "--world_size", 2, *flags(TINY | {"runs_dir": tmp_path}), **several)
    assert done.returncode == 2 and "--world_size 2: this process is already one of the 3 ranks of srun" in done.stderr
