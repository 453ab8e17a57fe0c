"""Training with several processes: what ranks share and what they do not, how they stop, and what ends them."""

import contextlib
import json
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import termios

import pytest
import torch

from processes import (BINARY, BUILD, EPISODE, PATIENCE_S, THROUGH_GLOO, TINY, call, fingerprint, flags, free_port, only_json, ranks_by_hand,
                       run_folder, starter, torchrun, wait_until_gone, wait_until_listening, worker_pids)

PROBE = str(BUILD / "tests" / "train" / "train_probe")
HOST = socket.gethostname()
ENDLESS = TINY | {"max_episodes": 10**9}


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    """Trains under torchrun; the same question is answered from memory."""
    known = {}

    def run(ranks, **settings):
        key = (ranks, *sorted(settings.items()))
        if key not in known:
            folder = tmp_path_factory.mktemp("run")
            with starter(folder) as begin:
                process = torchrun(begin, ranks, BINARY, *flags(TINY | {"runs_dir": folder} | settings))
                assert process.wait() == 0, process.text()
                known[key] = process.text()
        return known[key]

    return run


def train_by_hand(start, tmp_path, size, **settings):
    ranks = ranks_by_hand(start, size, *flags(TINY | {"runs_dir": tmp_path} | settings))
    assert [rank.wait() for rank in ranks] == [0] * size, "\n".join(rank.text() for rank in ranks)
    for other in ranks[1:]:
        assert other.text() == "", "only rank 0 speaks"
    return ranks[0].text()


# Ranks learn the same from different games


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_under_torchrun_hold_the_same_weights_from_different_games(run_once, ranks):
    text = run_once(ranks)
    assert int(re.search(r"(\d+) updates in", text)[1]) >= 200
    assert f"{ranks} CPU ranks on " in text and ", 1 thread each\n" in text
    reported = fingerprint(text)
    assert sorted(reported["ranks"]) == list(range(ranks))
    for hashes in zip(*reported["ranks"].values()):  # boards, then batches
        assert len(set(hashes)) == ranks, reported["line"]


def test_ranks_that_learn_with_bicnet_hold_the_same_weights(run_once):
    reported = fingerprint(run_once(2, algo="bicnet", updates_per_step=0.5))
    for hashes in zip(*reported["ranks"].values()):
        assert len(set(hashes)) == 2, reported["line"]
    assert reported["weights"] != fingerprint(run_once(2))["weights"]


def test_no_moment_of_an_adam_ends_among_the_subnormal_numbers(start, tmp_path):
    # At 20 episodes of the reference's schedule a thousand would be there, in hidden units whose gradient has become zero.
    run = start([BINARY, *flags({"runs_dir": tmp_path, "hidden_size": 64, "max_episodes": 20, "checkpoint_interval": 20, "threads": 2})],
                OMP_WAIT_POLICY="passive")  # threads that spin wait for long where cores are few
    assert run.wait() == 0, run.text()
    state = torch.load(run_folder(run.text()) / "checkpoints" / "step_000000004000" / "shared.pth", weights_only=True)
    smallest = torch.finfo(torch.float32).smallest_normal
    moments = {name: t for name, t in state.items() if ".first." in name}
    assert len(moments) == 12
    for name, moment in moments.items():
        bits = moment.view(torch.int32) & 0x7fffffff
        assert not ((bits > 0) & (moment.abs() < smallest)).any(), name


def test_ranks_of_a_machine_sum_in_memory_that_goes_with_them(start, tmp_path):
    shared = pathlib.Path("/dev/shm")
    before = set(shared.iterdir())
    run = start([BINARY, "--ddp", "--world_size", "2", *flags(TINY | {"runs_dir": tmp_path, "max_episodes": 10**9})])
    run.wait_for(EPISODE)
    pids = worker_pids(run, 2)
    segments = {re.search(r"/memfd:(snake_ddp\.\w+)", pathlib.Path(f"/proc/{pid}/maps").read_text())[1] for pid in pids.values()}
    assert len(segments) == 1
    assert set(shared.iterdir()) == before
    for pid in [run.popen.pid, *pids.values()]:
        os.kill(pid, signal.SIGKILL)
    wait_until_gone(pids.values(), PATIENCE_S)
    assert set(shared.iterdir()) == before


def test_builds_of_one_version_with_other_sources_do_not_join(start, tmp_path):
    """Rank 1 runs the same program with its hash of the sources exchanged."""
    old = re.search(r", sources (\w+)$", only_json(call("info", "--json").stdout)["build"])[1].encode()
    program = pathlib.Path(BINARY).read_bytes()
    assert old in program
    path = tmp_path / "snake_ddp"
    # The first character: a linker lets other strings share the end of this one.
    path.write_bytes(program.replace(old, (b"1" if old.startswith(b"0") else b"0") + old[1:]))
    path.chmod(0o755)
    group = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    line = flags(TINY | {"runs_dir": tmp_path / "runs"})
    ranks = [start([binary, *line], RANK=rank, **group) for rank, binary in enumerate((BINARY, path))]
    assert [rank.wait() for rank in ranks] == [3, 3], ranks[0].text() + ranks[1].text()
    for rank in ranks:
        builds = re.search(r"the builds differ: rank 1 on .* runs '(.*)', rank 0 on .* runs '(.*)'. Start the same binary",
                           rank.text())
        assert builds[1] != builds[2] and builds[2] == only_json(call("info", "--json").stdout)["build"]
    assert not (tmp_path / "runs").exists()


def test_the_same_run_is_the_same_however_it_is_started(run_once, start, tmp_path):
    first = fingerprint(run_once(2))["line"]
    assert fingerprint(train_by_hand(start, tmp_path, 2))["line"] == first
    own = start([BINARY, "--ddp", "--world_size", "2", *flags(TINY | {"runs_dir": tmp_path})])
    assert own.wait() == 0, own.text()
    assert fingerprint(own.text())["line"] == first
    # Two numbers have one sum, whichever way they came together.
    gloo = start([BINARY, "--ddp", "--world_size", "2", *flags(TINY | {"runs_dir": tmp_path})], **THROUGH_GLOO)
    assert gloo.wait() == 0, gloo.text()
    assert fingerprint(gloo.text())["line"] == first


def test_ranks_that_sum_through_gloo_under_torchrun_hold_the_same_weights(start, tmp_path):
    run = torchrun(start, 4, BINARY, *flags(TINY | {"runs_dir": tmp_path}), **THROUGH_GLOO)
    assert run.wait() == 0, run.text()
    assert len(set(fingerprint(run.text())["ranks"].values())) == 4


def test_another_seed_and_another_world_size_are_other_runs(run_once, start, tmp_path):
    two = fingerprint(run_once(2))
    other_seed = fingerprint(train_by_hand(start, tmp_path, 2, seed=11))
    assert other_seed["weights"] != two["weights"]
    assert not set(other_seed["ranks"].values()) & set(two["ranks"].values())
    weights = {two["weights"], fingerprint(run_once(4))["weights"]}
    alone = start([BINARY, *flags(TINY | {"runs_dir": tmp_path})])
    assert alone.wait() == 0, alone.text()
    weights.add(fingerprint(alone.text())["weights"])
    assert len(weights) == 3


def test_a_rank_plays_and_samples_by_the_seed_plus_its_rank(start, tmp_path):
    # If every move is random, experience does not depend on the weights, which the seed alone determines.
    random_play = {"epsilon": 1, "epsilon_speed": 1}
    together = fingerprint(train_by_hand(start, tmp_path, 2, seed=5, **random_play))
    for rank in range(2):
        alone = start([BINARY, *flags(TINY | {"runs_dir": tmp_path, "seed": 5 + rank} | random_play)])
        assert alone.wait() == 0, alone.text()
        assert fingerprint(alone.text())["ranks"][0] == together["ranks"][rank]


def test_an_evaluation_that_reaches_the_target_stops_every_rank(start, tmp_path):
    text = train_by_hand(start, tmp_path, 2, max_episodes=10**6, eval_interval=3, eval_games=16, eval_opponent="level0",
                         target_win_rate=0.01, updates_per_step=0.1)
    judged = re.findall(r"\[Evaluation at episode (\d+)\] against level0: won ([\d.]+) %", text)
    assert float(judged[-1][1]) > 0 and all(float(rate) == 0 for _, rate in judged[:-1])
    # Ranks that had stopped at different steps would have different weights and counts of updates at the end.
    assert "Training completed!" in text and len(fingerprint(text)["ranks"]) == 2


def test_evaluations_are_shared_by_ranks_and_the_best_actor_is_kept(start, tmp_path):
    text = train_by_hand(start, tmp_path, 2, max_episodes=60, eval_interval=8, eval_games=70, eval_opponent="level0", seed=7,
                         updates_per_step=0.1, a_lr=0.02)
    judged = re.findall(r"\[Evaluation at episode \d+\] against level0: won ([\d.]+) % .* of (\d+) games, score ([\d.-]+ : [\d.-]+),",
                        text)
    rates = [float(rate) for rate, _, _ in judged]
    assert len(rates) >= 5 and len(set(rates)) > 1, rates
    rate, games, score = judged[rates.index(max(rates))]
    models = run_folder(text) / "trained_model"
    # A single process, with the weights from the file, plays exactly the same games.
    done = call("eval", "--json", "--team_a", models / "actor_best.pth", "--team_b", "level0", "--games", games, "--seed", 7)
    reported = only_json(done.stdout)
    assert (f"{100 * reported['win_rate']:.1f}", f"{reported['score_a']:.1f} : {reported['score_b']:.1f}") == (rate, score)
    assert (models / "critic_best.pth").exists()


# The mean over ranks is the gradient of the global batch


@pytest.mark.parametrize("algo, head", [("ddpg", "softmax"), ("ddpg", "tanh"), ("bicnet", "softmax")])
def test_two_ranks_learn_what_one_learns_from_both_batches(start, tmp_path, algo, head):
    def state(name, run):
        assert run.wait() == 0, run.text()
        return torch.load(tmp_path / name, weights_only=True)

    together = state("two.pth", torchrun(start, 2, PROBE, "union", algo, head, "cpu", tmp_path / "two.pth"))
    alone = state("one.pth", start([PROBE, "union", algo, head, "cpu", tmp_path / "one.pth"]))
    only_x = state("x.pth", start([PROBE, "union", algo, head, "cpu", tmp_path / "x.pth", "0", "2"]))
    assert list(together) == list(alone)

    def distance(a, b, part):
        return max(float((a[name] - b[name]).abs().max()) for name in a if name.startswith(part))

    # Adam divides a gradient by its own size: where an LSTM's are tiny, the effect of rounding is not.
    limit = {"ddpg": 1e-6, "bicnet": 1e-5}[algo]
    for network in ("actor.", "critic.", "actor_target.", "critic_target."):
        assert distance(together, alone, network) < limit
    for network in ("actor.", "critic."):  # half of the batch is not good enough
        assert distance(together, only_x, network) > 1e-4


def test_moments_are_kept_under_their_names(start, tmp_path):
    # Swapped throughout they would give the same updates, and a state that no other program reads correctly.
    run = start([PROBE, "union", "ddpg", "softmax", "cpu", tmp_path / "state.pth"])
    assert run.wait() == 0, run.text()
    state = torch.load(tmp_path / "state.pth", weights_only=True)
    for network in ("actor", "critic"):
        first, second = (torch.cat([value.flatten() for name, value in state.items() if name.startswith(f"{network}_adam.{moment}.")])
                         for moment in ("first", "second"))
        assert first.shape == second.shape
        assert (first < 0).any() and (first > 0).any()  # a mean of gradients
        assert (second >= 0).all() and (second > 0).any()  # a mean of squares


# Ends


def begin_endless_run(start, tmp_path, ranks, **settings):
    run = torchrun(start, ranks, BINARY, *flags(ENDLESS | {"runs_dir": tmp_path, "dist_timeout": 20} | settings))
    run.wait_for(EPISODE)
    return run, worker_pids(run, ranks)


def test_a_killed_rank_ends_the_others_and_torchrun_names_it(start, tmp_path):
    run, pids = begin_endless_run(start, tmp_path, 3)
    os.kill(pids[1], signal.SIGKILL)
    wait_until_gone(pids.values(), 20)
    assert run.wait() == 1
    root_cause = run.text().split("Root Cause")[1]
    assert "rank      : 1 (local_rank: 1)" in root_cause
    assert "Signal 9 (SIGKILL)" in root_cause
    assert run.text().count(f"no word from rank 1 on {HOST} (pid {pids[1]}), which has ended") >= 2, run.text()


def saved_weights(folder):
    models = {path.name for path in (folder / "trained_model").iterdir()}
    (actor,) = (re.fullmatch(r"actor_(\d+)\.pth", name) for name in models if name.startswith("actor"))
    assert models == {actor[0], f"critic_{actor[1]}.pth"}
    for name in models:
        assert torch.load(folder / "trained_model" / name, weights_only=True)
    return int(actor[1])


def test_a_stopped_torchrun_leaves_saved_weights_and_no_process(start, tmp_path):
    run, pids = begin_endless_run(start, tmp_path, 2)
    run.popen.terminate()
    run.wait()
    wait_until_gone(pids.values(), 1)
    folder = run_folder(run.text())
    episode = saved_weights(folder)
    log = (folder / "train.log").read_text()
    assert f"Stopped by a signal at episode {episode};" in log
    assert "Fingerprint: " in log  # all ranks compared their weights, and none waits for another


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1], ids=lambda s: s.name)
def test_a_signal_to_any_rank_stops_all_at_the_same_step(start, tmp_path, number):
    ranks = ranks_by_hand(start, 2, *flags(ENDLESS | {"runs_dir": tmp_path}))
    ranks[0].wait_for(EPISODE)
    for _ in range(2):  # launchers deliver each twice
        ranks[1].popen.send_signal(number)
    assert [rank.wait() for rank in ranks] == [75, 75], ranks[0].text() + ranks[1].text()
    assert "Stopped by a signal" in ranks[0].text()
    assert len(fingerprint(ranks[0].text())["ranks"]) == 2
    saved_weights(run_folder(ranks[0].text()))


def test_a_signal_before_all_ranks_are_there_ends_the_wait(start, tmp_path):
    port = free_port()
    alone = start([BINARY, *flags(TINY | {"runs_dir": tmp_path})], RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    wait_until_listening(port)
    alone.popen.send_signal(signal.SIGTERM)
    assert alone.wait() == 75, alone.text()
    assert "stopped by a signal before all ranks had joined" in alone.text() and alone.took_s < 60
    assert not list(tmp_path.glob("snakes_3v3/*"))


def test_sigusr2_to_any_rank_saves_and_training_continues(start, tmp_path):
    ranks = ranks_by_hand(start, 2, *flags(ENDLESS | {"runs_dir": tmp_path}))
    ranks[0].wait_for(EPISODE)
    ranks[1].popen.send_signal(signal.SIGUSR2)
    saved = int(ranks[0].wait_for(r"Saved at episode (\d+), requested by a signal").group(1))
    models = run_folder(ranks[0].text()) / "trained_model"
    assert (models / f"actor_{saved}.pth").exists() and (models / f"critic_{saved}.pth").exists()
    ranks[0].wait_for(r"Checkpoint step (?!0:)\d+: ")
    ranks[0].popen.send_signal(signal.SIGTERM)
    assert [rank.wait() for rank in ranks] == [75, 75], ranks[0].text() + ranks[1].text()


def test_ranks_end_with_a_killed_torchrun(start, tmp_path):
    run, pids = begin_endless_run(start, tmp_path, 2)
    run.popen.kill()
    try:
        wait_until_gone(pids.values(), 5)
    finally:  # they are nobody's children now
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


# Ranks that do not fit together


@pytest.mark.parametrize("name, here, there", [("gamma", 0.99, 0.98), ("seed", 1, 2), ("reward", "v1_2", "score")])
def test_settings_that_differ_between_ranks_end_all(start, tmp_path, name, here, there):
    ranks = ranks_by_hand(start, 3, *flags(TINY | {"runs_dir": tmp_path}),
                          each=lambda rank: [f"--{name}", there if rank == 2 else here])
    for rank in ranks:
        assert rank.wait() == 3
        assert "the configuration: not the same on all ranks: rank 2 unlike rank 0" in rank.text()
        assert f"'--{name} {json.dumps(there)} (rank 0: {json.dumps(here)})'" in rank.text()
        assert rank.text().count("snake_ddp: ") == 1
    assert not list(tmp_path.glob("snakes_3v3/*")), "nothing was started"


def test_local_rank_may_differ(start, tmp_path):
    ranks = ranks_by_hand(start, 2, *flags(TINY | {"runs_dir": tmp_path}), each=lambda rank: [f"--local_rank={rank}"])
    assert [rank.wait() for rank in ranks] == [0, 0], ranks[1].text()


def test_variables_set_in_part_are_a_usage_error(start, tmp_path):
    run = start([BINARY, *flags(TINY | {"runs_dir": tmp_path})], RANK=0, MASTER_ADDR="127.0.0.1")
    assert run.wait() == 2
    assert "RANK and MASTER_ADDR are set but WORLD_SIZE is not" in run.text()


def test_a_taken_port_is_a_distributed_failure(start, tmp_path):
    line = flags(TINY | {"runs_dir": tmp_path, "join_timeout": 3})
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        run = start([BINARY, *line], RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        assert run.wait() == 3
        assert f"port {port} is taken" in run.text()


def test_a_master_out_of_reach_is_reported_within_the_join_timeout(start, tmp_path):
    port = free_port()
    run = start([BINARY, *flags(TINY | {"runs_dir": tmp_path, "join_timeout": 3})], RANK=1, WORLD_SIZE=2,
                MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    assert run.wait() == 3
    assert run.took_s < 60
    assert f"rank 1 on {HOST}: " in run.text() and f"nothing answers at 127.0.0.1:{port}" in run.text()


@pytest.mark.parametrize("rank", [1, 2])
def test_weights_that_change_on_one_rank_end_all_at_the_next_comparison(start, tmp_path, rank):
    settings = TINY | {"runs_dir": tmp_path, "check_consistency": 20, "checkpoint_interval": 0}
    words = [str(word) for pair in settings.items() for word in pair]
    port = free_port()
    ranks = [start([PROBE, "perturb", rank, 70, *words], RANK=r, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
             for r in range(3)]
    for process in ranks:
        assert process.wait() == 3, process.text()
        at, who = re.search(r"weights after (\d+) updates: not the same on all ranks: (.*)", process.text()).groups()
        assert 70 <= int(at) <= 100 and who.startswith(f"rank {rank} unlike rank 0"), process.text()
        assert "weights at the end" not in process.text()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_loss_that_is_not_finite_on_one_rank_ends_all_with_one_message(start, tmp_path, rank):
    settings = ENDLESS | {"runs_dir": tmp_path, "check_consistency": 0, "checkpoint_interval": 0}
    words = [str(word) for pair in settings.items() for word in pair]
    port = free_port()
    ranks = [start([PROBE, "spoil", rank, 70, *words], RANK=r, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
             for r in range(2)]
    assert [process.wait() for process in ranks] == [1, 1], ranks[0].text() + ranks[1].text()
    reported = [re.findall(r"the critic's loss is not finite after (\d+) updates: training diverged; lower --c_lr or --reward_scale",
                       process.text()) for process in ranks]
    assert reported[0] == reported[1] and len(reported[0]) == 1 and 70 < int(reported[0][0]) <= 110, ranks[0].text() + ranks[1].text()
    for log in ("train.log", "train.rank1.log"):
        assert "the critic's loss is not finite" in next(tmp_path.glob(f"snakes_3v3/*/{log}")).read_text()


@pytest.mark.parametrize("algo, more, layer", [
    ("ddpg", {}, "prev_dense.0.weight"),
    ("ddpg", {"layer_norm": True, "expected_value": True}, "prev_dense.0.weight"),
    ("dqn", {"obs": "view"}, "q_net.0.weight"),
    ("dqn", {"obs": "view", "layer_norm": True}, "q_net.0.weight"),
    ("pqn", {"obs": "view", "num_envs": 8}, "q_net.0.weight"),
])
def test_numbers_that_are_not_finite_end_the_run(tmp_path, algo, more, layer):
    """In a file they are refused; a weight that large makes them."""
    settings = TINY | {"algo": algo, "runs_dir": tmp_path, "hidden_size": 32, "batch_size": 32} | more
    first = call(*flags(settings | {"max_episodes": 8}))
    assert first.returncode == 0, first.stderr
    path = max((run_folder(first.stdout) / "trained_model").glob("critic_*.pth"))
    episode = int(path.stem.removeprefix("critic_"))
    weights = torch.load(path, weights_only=True)
    for value, code, said in ((math.nan, 4, f"tensor '{layer}' has "), (3e38, 1, "is not finite after")):
        weights[layer][0] = value
        torch.save(weights, path)
        if algo != "ddpg":
            torch.save(weights, path.with_name(path.name.replace("critic", "actor")))
        done = call(*flags(settings | {"max_episodes": 400, "load_model_run": 1, "load_model_run_episode": episode}), "--load_model")
        assert done.returncode == code and said in done.stderr, done.stdout + done.stderr


def test_ranks_end_where_the_parent_ignores_its_children_and_on_a_terminal_that_stops_writers(tmp_path):
    line = [BINARY, "--ddp", "--world_size", "2", *flags(TINY | {"runs_dir": tmp_path})]
    ignoring = subprocess.run(["env", "--ignore-signal=CHLD", *line], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ignoring.returncode == 0, ignoring.stderr
    own, terminal = os.openpty()
    attributes = termios.tcgetattr(terminal)
    attributes[3] |= termios.TOSTOP
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    stopping = ["setsid", "--ctty", "--wait", *line]
    with subprocess.Popen(stopping, stdin=terminal, stdout=terminal, stderr=terminal) as run:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(own, 1 << 16):
                shown += part
        assert run.wait(PATIENCE_S) == 0 and b"Training completed!" in shown, shown
    os.close(own)


def test_world_size_needs_ddp(start, tmp_path):
    for line, words in ((["--world_size", "2"], "--world_size is for --ddp"), (["--ddp"], "--ddp needs --world_size")):
        run = start([BINARY, *line, *flags(TINY | {"runs_dir": tmp_path})])
        assert run.wait() == 2
        assert words in run.text()
