"""Weights without torch, teams, and matches."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import CHAMPION, DATA, ROOT, VIEW_NET

import snake_ddp
from processes import call
from snake_ddp import Team

ACTOR = str(DATA / "upstream_actor_2000.pth")
PLAYER = f"{ACTOR}:softmax"
FILES = sorted(path for folder in ("models", "tests/data") for path in (ROOT / folder).glob("*.pth"))


def flat(tensors):
    return {name: tensor for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_weights_are_those_that_torch_reads(path):
    mine, theirs = snake_ddp.read_weights(path), torch.load(path, weights_only=True)
    assert list(mine) == list(theirs)
    for name, tensor in theirs.items():
        assert mine[name].dtype == tensor.numpy().dtype and np.array_equal(mine[name], tensor.numpy()), name


def test_weights_of_all_kinds_that_torch_writes(tmp_path):
    whole = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    tensors = {
        "part": whole[1:3, 2:5], "turned": whole.t(), "scalar": torch.tensor(3.5), "none": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)), "half": torch.ones(3, dtype=torch.float16),
        **{f"k{k}": torch.ones(2).to(dtype) for k, dtype in enumerate((torch.float64, torch.int64, torch.int32, torch.int16,
                                                                      torch.int8, torch.uint8, torch.bool))},
    }  # fmt: skip
    for name, checked in (("a.pth", True), ("b.pth", False)):
        before = torch.serialization.get_crc32_options()
        torch.serialization.set_crc32_options(checked)
        try:
            torch.save(tensors, tmp_path / name)
        finally:
            torch.serialization.set_crc32_options(before)
        mine = snake_ddp.read_weights(tmp_path / name)
        for key, tensor in tensors.items():
            assert np.array_equal(mine[key], tensor.detach().numpy()) and mine[key].shape == tuple(tensor.shape), key
    torch.save(torch.nn.Linear(3, 2).state_dict(), tmp_path / "linear.pth")
    assert list(snake_ddp.read_weights(tmp_path / "linear.pth")) == ["weight", "bias"]


def test_weights_are_read_without_torch():
    text = f"import sys, snake_ddp; snake_ddp.Team({CHAMPION!r}); assert not {{'torch', 'pettingzoo'}} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0


# ---- moves ---------------------------------------------------------------------------------------------------------

def q_values(weights, observations):
    x = torch.from_numpy(observations)
    for k in range(2):
        x = torch.nn.functional.linear(x, weights[f"q_net.{k}.weight"], weights[f"q_net.{k}.bias"])
        x = torch.nn.functional.layer_norm(x, x.shape[-1:], weights[f"norm_{k}.weight"], weights[f"norm_{k}.bias"]).relu()
    return torch.nn.functional.linear(x, weights["q_net.2.weight"], weights["q_net.2.bias"]).numpy()


def test_a_q_network_makes_the_best_open_move():
    team, weights = Team(VIEW_NET), torch.load(VIEW_NET, weights_only=True)
    assert team.obs == "view"
    batch = snake_ddp.Boards(100, obs="view", opponent="territory")
    batch.reset(seed=1)
    unlike = 0
    for _ in range(20):
        values, open_moves = q_values(weights, batch.observations), batch.open_moves()
        best = np.sort(np.where(open_moves, values, -np.inf), axis=2)
        clear = best[..., 3] - best[..., 2] > 1e-3  # otherwise rounding decides
        moves = team.moves(batch.observations, open_moves)
        wanted = np.where(open_moves, values, -np.inf).argmax(axis=2)
        assert np.array_equal(moves[clear], wanted[clear]) and clear.mean() > 0.95
        unlike += (values.argmax(axis=2) != wanted).sum()
        assert np.array_equal(moves, team.moves_on(batch.states))
        batch.step(moves)
    assert unlike > 0


def test_a_network_that_sees_less_sees_as_much_of_given_observations(tmp_path):
    done = call("train", "--algo", "dqn", "--obs", "window", "--view_radius", 4, "--runs_dir", tmp_path, "--hidden_size", 16,
                "--batch_size", 16, "--num_envs", 4, "--max_episodes", 4, "--episode_length", 40, "--threads", 1)
    assert done.returncode == 0, done.stderr
    team = Team(str(max(tmp_path.rglob("actor_*.pth"))))
    batch = snake_ddp.Boards(100, obs="window", opponent="territory")
    batch.reset(seed=1)
    for _ in range(20):
        moves = team.moves(batch.observations, batch.open_moves())
        assert np.array_equal(moves, team.moves_on(batch.states))
        batch.step(moves)


def test_with_the_heading_up_a_network_s_moves_are_turned_into_directions(tmp_path):
    torch.manual_seed(1)
    layers = {"q_net.0": torch.nn.Linear(309, 32), "q_net.1": torch.nn.Linear(32, 32), "q_net.2": torch.nn.Linear(32, 4)}
    models = tmp_path / "trained_model"
    models.mkdir()
    torch.save({f"{name}.{part}": value for name, layer in layers.items() for part, value in layer.state_dict().items()},
               models / "actor_1.pth")  # fmt: skip
    (tmp_path / "config.json").write_text('{"obs": "ahead"}')
    team = Team(models / "actor_1.pth")
    assert team.obs == "ahead" and pickle.loads(pickle.dumps(team)).obs == "ahead"
    batch = snake_ddp.Boards(100, obs="ahead", opponent="territory")
    batch.reset(seed=1)
    directions = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 1, 0], [3, 2, 0, 1]])  # ahead, back, left, right
    for _ in range(20):
        moves, open_moves = team.moves(batch.observations, batch.open_moves()), batch.open_moves()
        headings = batch.states["directions"][:, :3]
        x = torch.from_numpy(batch.observations)
        for layer in list(layers.values())[:2]:
            x = layer(x).relu()
        with torch.no_grad():
            values = layers["q_net.2"](x).numpy()
        turned = directions[headings]
        values = np.where(np.take_along_axis(open_moves, turned, 2), values, -np.inf)
        best = np.sort(values, axis=2)
        clear = best[..., 3] - best[..., 2] > 1e-4
        wanted = np.take_along_axis(turned, values.argmax(axis=2)[..., None], 2)[..., 0]
        assert np.array_equal(moves[clear], wanted[clear]) and clear.mean() > 0.95
        assert np.array_equal(moves, team.moves_on(batch.states))
        batch.step(moves)
    spec = str(models / "actor_1.pth")
    for mode in ("", ":look1"):
        done = call("eval", "--team_a", spec + mode, "--team_b", "level2", "--games", 20, "--seed", 5, "--json")
        assert done.returncode == 0, done.stderr
        match, reported = snake_ddp.evaluate(spec + mode, "level2", games=20, seed=5), json.loads(done.stdout)
        assert (match.wins, match.score_a, match.score_b) == tuple(reported[key] for key in ("wins", "score_a", "score_b"))


def test_an_actor_has_the_probabilities_of_the_reference():
    io = torch.load(DATA / "upstream_actor_2000_io.pth", weights_only=True)
    observations, probabilities = io["obs"].numpy(), io["probs"].numpy()
    everything = np.ones((64, 3, 4), bool)
    assert np.array_equal(Team(f"{PLAYER}:argmax").moves(observations, everything), probabilities.argmax(axis=2))
    team, draws = Team(PLAYER), 3000
    assert team.obs == "26"
    counts = np.zeros((64, 3, 4))
    for seed in range(draws):
        counts += np.eye(4)[team.moves(observations, everything, seed=seed)]
    spread = np.sqrt(probabilities * (1 - probabilities) / draws) + 1e-4
    assert (np.abs(counts / draws - probabilities) < 5 * spread).all()


def test_an_actor_avoids_certain_death_on_demand():
    everything = np.ones((64, 3, 4), bool)
    observations = torch.load(DATA / "upstream_actor_2000_io.pth", weights_only=True)["obs"].numpy()
    for spec in (PLAYER, f"{PLAYER}:argmax"):
        free, masked = Team(spec), Team(spec, mask_fatal=True)
        moves = free.moves(observations, everything)
        closed = everything.copy()
        np.put_along_axis(closed, moves[..., None].astype(int), False, axis=2)
        assert not (masked.moves(observations, closed) == moves).any()
        assert np.array_equal(masked.moves(observations, everything), moves)
        assert np.array_equal(free.moves(observations, closed), moves)
        assert np.array_equal(masked.moves(observations, np.zeros_like(everything)), moves)


def test_moves_of_no_boards():
    assert Team(CHAMPION).moves(np.empty((0, 3, 309), np.float32), np.empty((0, 3, 4), bool)).shape == (0, 3)
    assert Team("level2").moves_on(np.empty(0, snake_ddp.STATE)).shape == (0, 3)


def test_a_team_is_pickled_with_its_weights(tmp_path):
    path = tmp_path / "actor.pth"
    path.write_bytes(open(ACTOR, "rb").read())
    observations = torch.load(DATA / "upstream_actor_2000_io.pth", weights_only=True)["obs"].numpy()
    everything = np.ones((64, 3, 4), bool)
    for team in (Team(f"{path}:softmax:argmax"), Team(f"{path}:softmax", mask_fatal=True)):
        text = pickle.dumps(team)
        other = pickle.loads(text)
        assert np.array_equal(other.moves(observations, everything), team.moves(observations, everything))
        assert repr(other) == repr(team) and other.obs == "26"
    path.unlink()
    assert pickle.loads(text).mask_fatal
    assert pickle.loads(pickle.dumps(Team("territory"))).obs is None


# ---- networks that only the program can play --------------------------------------------------------------------------

@pytest.mark.parametrize("source, start, text", [
    ("rqmix_updates.pth", "net0.", "this network has memory (rqmix); such teams play only in the C++ program"),
    ("bicnet_softmax_updates.pth", "actor0.", "this network communicates (BiCNet); such teams play only in the C++ program"),
    ("ddpg_softmax_updates.pth", "critic0.", "is a critic, not an actor: give the actor_*.pth beside it"),
    ("qmix_updates.pth", "mixer0.", 'has no matrix "prev_dense.0.weight": it is a different kind of network'),
])  # fmt: skip
def test_networks_of_another_kind_are_rejected(tmp_path, source, start, text):
    all_of_them = torch.load(DATA / source, weights_only=True)
    torch.save({name[len(start) :]: tensor for name, tensor in all_of_them.items() if name.startswith(start)}, tmp_path / "x.pth")
    with pytest.raises(ValueError) as caught:
        Team(tmp_path / "x.pth")
    assert text in str(caught.value) and "--" not in str(caught.value)


@pytest.mark.parametrize("change, text", [
    (lambda w: w.pop("post_dense.0.bias"), 'has no tensor "post_dense.0.bias": it belongs to another network or algorithm'),
    (lambda w: w.update({"post_dense.2.weight": torch.ones(5, 256)}), '"post_dense.2.weight" has shape [5, 256], this network needs [4, 256]'),
    (lambda w: w.update({"post_dense.0.bias": torch.ones(256, dtype=torch.int64)}), "tensor 'post_dense.0.bias' has the type int64"),
    (lambda w: w.update({"more": torch.ones(1)}), 'has a tensor "more" that this network lacks'),
    (lambda w: w.update({"prev_dense.0.weight": torch.ones(256, 31)}), "a network for 31 features; this version has 26, 30, 277 (window)"),
    (lambda w: w.update({"prev_dense.0.weight": torch.ones(256)}), 'has no matrix "prev_dense.0.weight": it is a different kind of network'),
])  # fmt: skip
def test_weights_of_another_shape_are_rejected(tmp_path, change, text):
    weights = torch.load(ACTOR, weights_only=True)
    change(weights)
    torch.save(weights, tmp_path / "x.pth")
    with pytest.raises(ValueError) as caught:
        Team(f"{tmp_path}/x.pth:softmax")
    assert text in str(caught.value)


def test_a_file_without_a_record_is_described_by_its_run(tmp_path):
    folder = tmp_path / "run1" / "models"
    folder.mkdir(parents=True)
    (folder / "actor_1.pth").write_bytes(open(ACTOR, "rb").read())
    observations = torch.load(DATA / "upstream_actor_2000_io.pth", weights_only=True)["obs"].numpy()
    everything = np.ones((64, 3, 4), bool)
    with pytest.raises(ValueError, match="nothing says what this actor's last layer is"):
        Team(folder / "actor_1.pth")
    soft = [Team(f"{folder}/actor_1.pth:softmax").moves(observations, everything, seed) for seed in range(20)]
    (tmp_path / "run1" / "config.json").write_text('{"output_activation": "tanh", "obs": "26"}')
    hard = [Team(folder / "actor_1.pth").moves(observations, everything, seed) for seed in range(20)]
    assert not np.array_equal(soft, hard)
    (tmp_path / "run1" / "config.json").write_text('{"output_activation": 3}')
    with pytest.raises(ValueError, match="config.json, which describes the training of .*: output_activation 3: not a known value"):
        Team(folder / "actor_1.pth")


# ---- matches -------------------------------------------------------------------------------------------------------

def test_a_match_counts_its_games():
    match = snake_ddp.evaluate("territory", "level2", games=100, seed=3)
    assert match.games == 100 == match.wins + match.draws + match.losses and match.win_rate == match.wins / 100
    assert match.win_rate_ci95[0] < match.win_rate < match.win_rate_ci95[1] and match.steps_per_second > 0
    other = snake_ddp.evaluate("level2", "territory", games=100, seed=3)
    assert match.wins > 60 and other.losses > 60
    again = snake_ddp.evaluate(Team("territory"), "level2", games=100, seed=3)
    assert (again.wins, again.score_a, again.score_b) == (match.wins, match.score_a, match.score_b)
    assert snake_ddp.evaluate("territory", "level2", games=100, seed=4).score_a != match.score_a
    assert snake_ddp.evaluate("territory", "level2", games=100, seed=3, swap_sides=False).score_a != match.score_a


def test_a_match_can_be_interrupted():
    text = (
        "import signal, os, threading, snake_ddp\n"
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try: snake_ddp.evaluate('territory', 'territory', games=10**9)\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120).stdout == "stopped\n"
