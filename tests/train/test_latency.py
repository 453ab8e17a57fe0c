"""What hides the network's latency: local updates between averages of weights, in runs of several processes."""

import os
import re
import signal
import socket
import time

import pytest
import torch

from processes import EPISODE, THROUGH_GLOO, TINY, call, fingerprint, flags, ranks_by_hand, run_folder, starter

WAYS = {"local": {"local_updates": 6},
        "outer": {"local_updates": 25, "outer_momentum": 0.8}}
# As in test_resume.py: evaluations, votes between which nothing is equal.
RUN = TINY | {"max_episodes": 12, "n_step": 3, "buffer_size": 600, "checkpoint_interval": 2,
              "eval_interval": 8, "eval_games": 8, "opponent_difficulty_strategy": "fixed:2", "updates_per_step": 0.25}


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin


def run_ranks(start, *more, count=2, code=0, stop=False, variables={}, **settings):
    ranks = ranks_by_hand(start, count, *flags(RUN | settings), *more, **variables)
    if stop:
        ranks[0].wait_for(EPISODE)
        ranks[1].popen.send_signal(signal.SIGTERM)
    assert [rank.wait() for rank in ranks] == [code] * count, "".join(rank.text() for rank in ranks)
    return ranks[0].text()


@pytest.mark.parametrize("algo", ["ddpg", "qmix", "pqn"])
def test_ranks_end_with_equal_weights_and_each_way_is_another(start, tmp_path, algo):
    other = {"algo": algo} if algo == "ddpg" else {"algo": algo, "n_step": 1}
    if algo == "pqn":
        other |= {"updates_per_step": 1}
    weights = {fingerprint(run_ranks(start, runs_dir=tmp_path, **(other | way)))["weights"] for way in [{}, *WAYS.values()]}
    assert len(weights) == 1 + len(WAYS)


@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_that_are_stopped_go_on_to_the_same_bits(start, tmp_path, way):
    settings = WAYS[way] | {"max_episodes": 10**9}
    run = run_folder(run_ranks(start, runs_dir=tmp_path / "parts", stop=True, code=75, **settings))
    episode = int(re.search(r"Stopped by a signal at episode (\d+)", (run / "train.log").read_text())[1])
    total = {"max_episodes": episode + 20}
    again = run_ranks(start, "--resume", run, **(settings | total))
    assert fingerprint(again)["line"] == fingerprint(run_ranks(start, runs_dir=tmp_path / "whole", **(settings | total)))["line"]


def test_a_resumed_run_may_switch_on_and_off_what_hides_latency(start, tmp_path):
    run = run_folder(run_ranks(start, runs_dir=tmp_path, max_episodes=4))
    with_it = run_ranks(start, "--resume", run, max_episodes=8, **WAYS["outer"])
    assert "Changed: " in with_it
    run_ranks(start, "--resume", run, max_episodes=12)


@pytest.mark.parametrize("way", [{}, WAYS["local"]], ids=["now", "local"])
def test_a_symmetric_network_stays_so_however_ranks_round_their_means(start, tmp_path, way):
    # Gloo's ring adds an element and its image in different orders.
    settings = {"runs_dir": tmp_path, "algo": "dqn", "obs": "view", "mirror_symmetric": True, "check_consistency": 1} | way
    run = run_folder(run_ranks(start, count=3, max_episodes=6, variables=THROUGH_GLOO, **settings))
    assert "Resumed from" in run_ranks(start, "--resume", run, count=3, max_episodes=12, variables=THROUGH_GLOO, **settings)


def test_one_rank_without_an_outer_step_is_the_run_without_local_updates(tmp_path):
    lines = []
    for name, way in (("plain", {}), ("local", {"local_updates": 20})):
        done = call(*flags(RUN | way | {"runs_dir": tmp_path / name}))
        assert done.returncode == 0, done.stderr
        lines.append(fingerprint(done.stdout)["line"])
    assert lines[0] == lines[1]


def test_weights_are_saved_at_averages_only(start, tmp_path):
    # The last games end between votes: what is saved for them is what the vote that ends the run finds, the average.
    run = run_folder(run_ranks(start, runs_dir=tmp_path, local_updates=40, max_episodes=5, save_interval=3, episode_length=97,
                               updates_per_step=1, checkpoint_interval=0, eval_interval=0))
    last, end = (torch.load(run / f"trained_model/actor_{episode}.pth", weights_only=True) for episode in (6, 8))
    assert all(torch.equal(last[name], end[name]) for name in end)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank_is_named_by_the_other(start, tmp_path, number):
    limit = 3 if number == signal.SIGSTOP else 300
    ranks = ranks_by_hand(start, 2, *flags(RUN | WAYS["local"] | {"runs_dir": tmp_path, "max_episodes": 10**9, "dist_timeout": limit}))
    ranks[0].wait_for(EPISODE)
    begun = time.monotonic()
    os.kill(ranks[1].popen.pid, number)
    assert ranks[0].wait() == 3
    assert time.monotonic() - begun < 40
    assert f"no word from rank 1 on {socket.gethostname()} (pid {ranks[1].popen.pid})" in ranks[0].text()
    assert f"to continue from the last checkpoint: --resume {run_folder(ranks[0].text())}\n" in ranks[0].text()


@pytest.mark.parametrize("given, message", [
    ({"local_updates": 4, "cuda_graph": "on"}, "--cuda_graph on is for gradients that are averaged in each update"),
    ({"outer_momentum": 0.5}, "set --local_updates too"),
])
def test_what_does_not_go_together_is_refused(tmp_path, given, message):
    done = call(*flags(TINY | given | {"runs_dir": tmp_path / "runs"}))
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()
