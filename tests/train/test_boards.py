"""Boards, replay and updates beside the learner: the run that a collector and main memory make."""

import signal

import pytest

from processes import BINARY, EPISODE, TINY, call, fingerprint, flags, run_folder, starter, torchrun

RUN = TINY | {"max_episodes": 12, "n_step": 3, "buffer_size": 600, "checkpoint_interval": 4,
              "opponent_difficulty_strategy": "linear", "epsilon_min": 0.05, "eval_interval": 8, "eval_games": 8,
              "updates_per_step": 0.25}
GAMES = {
    "ddpg": {},
    "dqn on the view": {"algo": "dqn", "obs": "view", "mask_fatal": True, "opponent_mix": "level2:0.6,territory:0.4"},
}


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin


def trained(folder, *more, **settings):
    done = call(*flags(RUN | {"runs_dir": folder} | settings), *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("game", GAMES)
def test_boards_on_the_device_make_the_same_run(tmp_path, game):
    host = trained(tmp_path / "host", **GAMES[game])
    device = trained(tmp_path / "device", boards="device", **GAMES[game])
    assert fingerprint(device)["line"] == fingerprint(host)["line"]
    assert "Training completed! 12 episodes" in device


def test_two_ranks_with_boards_on_their_devices_make_the_same_run(start, tmp_path):
    reported = []
    for boards in ("host", "device"):
        process = torchrun(start, 2, BINARY, *flags(RUN | {"runs_dir": tmp_path / boards, "boards": boards,
                                                           "opponent_mix": "level0,level2"}))
        assert process.wait() == 0, process.text()
        reported.append(fingerprint(process.text())["line"])
    assert reported[0] == reported[1]


@pytest.mark.parametrize("later", ["host", "device"])
def test_a_stopped_run_on_the_device_continues_anywhere(start, tmp_path, later):
    endless = RUN | {"boards": "device", "max_episodes": 10**9, "opponent_difficulty_strategy": "fixed:2", "eval_interval": 0}
    process = start([BINARY, *flags(endless | {"runs_dir": tmp_path / "parts"})])
    process.wait_for(EPISODE)
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 75, process.text()
    run = run_folder(process.text())
    again = call("--resume", run, "--max_episodes", "200", "--boards", later)
    assert again.returncode == 0, again.stderr
    whole = trained(tmp_path / "whole", **(endless | {"boards": "host", "max_episodes": 200}))
    assert fingerprint(again.stdout)["line"] == fingerprint(whole)["line"]


def test_what_a_device_cannot_play_is_rejected(tmp_path):
    for wrong, words in (({"record_interval": 5}, ["--record_interval"]),
                         ({"buffer_size": 16, "num_envs": 10}, ["--buffer_size 16", "--n_step 3"]),
                         ({"algo": "bicnet", "cuda_graph": "on"}, ["--cuda_graph", "ddpg"]),
                         ({"algo": "rqmix", "n_step": 1}, ["--boards device does not apply to --algo rqmix"])):
        done = call(*flags(RUN | {"runs_dir": tmp_path, "boards": "device"} | wrong))
        assert done.returncode == 2 and all(word in done.stderr for word in words), done.stderr
