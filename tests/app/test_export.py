"""Exported actors: the platform's submission, TorchScript and safetensors, compared with our own outputs."""

import ast
import collections
import gzip
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
import safetensors.torch
import torch

from exports import UPSTREAM, Platform, export, load_submission, network, platform_observation, q_network, save_in_run
from processes import BUILD, DATA, TINY, call, flags, only_json, run_folder, starter

PROBE = str(BUILD / "tests" / "train" / "train_probe")
with gzip.open(DATA / "encodings.jsonl.gz", "rt") as encodings:
    ENCODED = [json.loads(line) for line in encodings]


def observations(encoded):
    """A recorded board's left team as its three snakes see it, and then from the right side, where it changed places."""
    return [platform_observation(encoded["trace_game"], encoded["step"], i + 3 * right, right)
            for right in (False, True) for i in range(3)]


# Softmax damps the rounding of logits, tanh does not: at width 256 it exceeds 1e-6 slightly.
ACTORS = {f"{kind}-{head}-{features}": (kind, head, features, hidden)
          for kind in ("ddpg", "bicnet") for head, hidden in (("softmax", 256), ("tanh", 64)) for features in (26, 30)}


@pytest.fixture(params=ACTORS.values(), ids=ACTORS, scope="module")
def actor(request, tmp_path_factory):
    """kind, head, features, path of an actor in a run's folder."""
    kind, head, features, hidden = request.param
    return kind, head, features, save_in_run(tmp_path_factory.mktemp("run"), network(features, hidden, kind=kind), head)


def our_answer(tmp_path, head, actor, features):
    """Our program's distribution: probabilities for `features` [B, 3, D], and the sum by which they were divided."""
    torch.save({"obs": torch.as_tensor(features)}, tmp_path / "obs.pth")
    with starter(tmp_path) as start:
        run = start([PROBE, "act", head, actor, tmp_path / "obs.pth", tmp_path / "values.pth"])
        assert run.wait() == 0, run.text()
    values = torch.load(tmp_path / "values.pth", weights_only=True)["values"].relu()
    total = values.sum(-1, keepdim=True)
    return torch.where(total > 0, values / total, torch.full_like(values, 0.25)), total


def distance(a, b, total=1.0):
    """Before the division by `total`, which magnifies rounding where four outputs of tanh are nearly 0."""
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    assert a.shape == b.shape
    return float(((a - b).abs() * total).max())


# The platform's submission


def test_a_submission_has_our_observations_and_outputs(actor, tmp_path):
    _, head, features, path = actor
    folder = export(path, "submission", tmp_path / "out")
    assert sorted(os.listdir(folder)) == ["actor_7.pth", "submission.py"]
    submission = load_submission(folder)
    seen, answers = [], []
    for encoded in ENCODED[::8]:
        recorded = np.array(encoded[f"obs{features}"])
        for right in (False, True):
            board = submission.board_of(platform_observation(encoded["trace_game"], encoded["step"], 3 * right, right), 3 * right)
            rows = np.array([submission.ACTOR.features(board, i) for i in range(3)])
            assert np.abs(rows - recorded).max() < 2e-6, (encoded["trace_game"], encoded["step"], right)
        seen.append(rows)
        answers.append([submission.probabilities(observation) for observation in observations(encoded)])
    answers = torch.tensor(np.array(answers)).view(len(seen), 2, 3, 4)
    ours, total = our_answer(tmp_path, head, path, np.array(seen, dtype=np.float32))
    assert float(total.median()) > 0.1
    assert distance(answers[:, 0], ours, total) < 1e-6
    assert distance(answers[:, 1], ours, total) < 1e-6, "the right side"
    assert float(ours.std(0).max()) > 0.003, "answers differ from board to board"
    assert distance(answers.sum(-1), torch.ones(len(seen), 2, 3)) < 1e-5


def test_the_upstream_actor_can_be_submitted(tmp_path):
    submission = load_submission(export(f"{UPSTREAM}:softmax", "submission", tmp_path / "out"))
    encoded = ENCODED[100:160]
    answers = np.array([[submission.probabilities(o) for o in observations(e)[:3]] for e in encoded])
    ours, _ = our_answer(tmp_path, "softmax", UPSTREAM, np.array([e["obs26"] for e in encoded], dtype=np.float32))
    # Its logits reach 84: in float32 the order of additions is visible.
    assert distance(answers, ours) < 5e-5


def test_a_submission_answers_the_platform_with_one_move(tmp_path):
    actor = tmp_path / "actor_3.pth"
    torch.save(network(30, hidden=8), actor)
    action_space = [{"n": 4}]
    sampling = load_submission(export(f"{actor}:softmax", "submission", tmp_path / "sampled"))
    certain = load_submission(export(f"{actor}:softmax:argmax", "submission", tmp_path / "argmax"))
    sampling.RANDOM.seed(1)
    for observation in (platform_observation(3, 50, snake) for snake in (0, 2, 4)):
        chances = sampling.probabilities(observation)
        drawn = collections.Counter()
        for _ in range(1000):
            ((*one_hot,),) = sampling.my_controller(observation, action_space, False)
            assert sorted(one_hot) == [0, 0, 0, 1]
            drawn[one_hot.index(1)] += 1
        for move in range(4):
            assert drawn[move] / 1000 == pytest.approx(chances[move], abs=0.08)
        for _ in range(5):
            assert certain.my_controller(observation, action_space, False)[0].index(1) == int(np.argmax(chances))


def test_beans_and_snakes_that_are_missing_are_as_in_training(tmp_path):
    # Beans may be fewer when the board is nearly full; a snake that could not respawn has no cells.
    submission = load_submission(export(f"{UPSTREAM}:softmax", "submission", tmp_path / "out"))
    observation = platform_observation(0, 0, 0) | {1: [[3, 4]], 5: []}
    board = submission.board_of(observation, 0)
    assert submission.features_30(board, 0)[9:12] == [0, 0, 40]
    assert submission.features_26(board, 0)[6:16] == [3, 4] + [0] * 8
    assert submission.features_26(board, 0)[20:22] == [0, 0]
    assert submission.my_controller(observation, None, False)[0].count(1) == 1


def test_a_folder_can_be_written_again(tmp_path):
    first = network(26, seed=1)
    for seed in (1, 2):
        torch.save(network(26, seed=seed), tmp_path / "actor_1.pth")
        folder = export(f"{tmp_path}/actor_1.pth:softmax", "submission", tmp_path / "deep" / "er")
    assert not torch.equal(load_submission(folder).ACTOR.weights["post_dense.2.bias"], first["post_dense.2.bias"])
    assert set(os.listdir(folder)) - {"__pycache__"} == {"actor_1.pth", "submission.py"}


def test_a_submission_runs_on_the_python_that_the_competition_asks_for(tmp_path):
    folder = export(f"{UPSTREAM}:softmax", "submission", tmp_path / "out")
    checked = subprocess.run([f"{os.path.dirname(sys.executable)}/vermin", "--target=3.7-", "--no-tips", "--violations", f"{folder}/submission.py"],
                             capture_output=True, text=True)
    assert checked.returncode == 0 and "Minimum required versions: 3." in checked.stdout, checked.stdout + checked.stderr


# Other programs


def test_torchscript_gives_our_outputs_without_our_code(actor, tmp_path):
    kind, head, features, path = actor
    module = torch.jit.load(export(path, "torchscript", tmp_path / "actor.pt"))
    obs = torch.tensor([e[f"obs{features}"] for e in ENCODED])
    ours, total = our_answer(tmp_path, head, path, obs)
    with torch.no_grad():
        assert distance(module(obs), ours, total) < 2e-6  # sums of raw features in another order
        if kind == "ddpg":  # each snake by itself
            assert distance(module(obs.view(-1, features)), ours.view(-1, 4), total.view(-1, 1)) < 2e-6
    weights = torch.load(path, weights_only=True)
    assert {name: value.shape for name, value in module.state_dict().items()} == {n: v.shape for n, v in weights.items()}
    assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())
    with pytest.raises(RuntimeError):
        module(obs[..., 1:])


@pytest.mark.parametrize("kind", ["ddpg", "bicnet"])
def test_torchscript_gives_the_references_outputs(tmp_path, kind):
    golden = torch.load(DATA / f"{kind}_softmax_updates.pth", weights_only=True)
    actor = {name.removeprefix("actor0."): value for name, value in golden.items() if name.startswith("actor0.")}
    torch.save(actor, tmp_path / "actor_0.pth")
    with torch.no_grad():
        answer = torch.jit.load(export(f"{tmp_path}/actor_0.pth:softmax", "torchscript", tmp_path / "a.pt"))(golden["obs"])
    assert distance(answer, golden["actor_out"]) < 1e-6


def test_four_negative_outputs_of_tanh_are_four_equal_chances(tmp_path):
    weights = network(26)
    weights["post_dense.2.weight"] *= 0
    weights["post_dense.2.bias"] = torch.tensor([-1.0, -2.0, -0.5, -3.0])
    torch.save(weights, tmp_path / "actor_1.pth")
    line = (tmp_path / "actor_1.pth", "torchscript", tmp_path / "a.pt", "--output_activation", "tanh")
    assert distance(torch.jit.load(export(*line))(torch.rand(5, 26)), torch.full((5, 4), 0.25)) == 0
    line = (tmp_path / "actor_1.pth", "submission", tmp_path / "a", "--output_activation", "tanh")
    answers = load_submission(export(*line)).probabilities(platform_observation(0, 0, 4))
    assert answers == [0.25] * 4


def test_safetensors_reads_the_weights_back(actor, tmp_path):
    kind, head, features, path = actor
    file = export(path, "safetensors", tmp_path / "actor.safetensors")
    weights = torch.load(path, weights_only=True)
    read = safetensors.torch.load_file(file)
    assert set(read) == set(weights)
    assert all(torch.equal(read[name], weights[name]) and read[name].dtype == torch.float32 for name in weights)
    with safetensors.safe_open(file, "pt") as opened:
        assert opened.metadata() == {"format": "pt", "network": kind, "output_activation": head, "obs": str(features)}
    length, = struct.unpack("<Q", file.read_bytes()[:8])
    assert length % 8 == 0 and list(json.loads(file.read_bytes()[8:8 + length]))[1:] == list(weights)


@pytest.mark.parametrize("obs", ("view", "ahead"))
def test_safetensors_tells_two_views_of_one_width_apart(tmp_path, obs):
    actor = save_in_run(tmp_path / obs, q_network(309), obs=obs)
    with safetensors.safe_open(export(actor, "safetensors", tmp_path / "actor.safetensors"), "pt") as opened:
        assert opened.metadata()["obs"] == obs and opened.metadata()["output_activation"] == "values"


def test_without_an_output_the_name_is_the_actors(tmp_path):
    torch.save(network(26), tmp_path / "actor_9.pth")
    for format, name in (("submission", "actor_9_submission"), ("torchscript", "actor_9.pt"), ("safetensors", "actor_9.safetensors")):
        done = call("export", "--actor", "actor_9.pth:softmax", "--format", format, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.startswith(f"Wrote {name}"), done.stderr
        assert (tmp_path / name).exists()


# What cannot be exported


class Foreign:
    def __reduce__(self):
        return os.getcwd, ()


def bad_exports(folder):
    def saved(name, value):
        torch.save(value, folder / name)
        return folder / name

    critic = network(30) | {"post_dense.2.weight": torch.zeros(1, 256), "post_dense.2.bias": torch.zeros(1)}
    actor = saved("actor_1.pth", network(26))
    (folder / "file").write_text("")
    (folder / "text.pth").write_text("not weights\n")
    good = ["--format", "submission"]
    return {
        "critic": (4, ["critic_1.pth", "is a critic"], ["--actor", saved("critic_1.pth", critic), *good]),
        "foreign class": (4, ["foreign.pth", "getcwd"], ["--actor", saved("foreign.pth", {"a": Foreign()}), *good]),
        "other weights": (4, ["other.pth", "it is not an actor"], ["--actor", saved("other.pth", {"w": torch.zeros(2)}), *good]),
        "other features": (4, ["35.pth", "35 features"], ["--actor", saved("35.pth", network(35)), *good]),
        "no weights": (4, ["text.pth"], ["--actor", folder / "text.pth", *good]),
        "no file": (4, ["none.pth"], ["--actor", folder / "none.pth", *good]),
        "scripted": (2, ["--actor level2", "scripted"], ["--actor", "level2", *good]),
        "no actor": (2, ["--actor"], good),
        "no format": (2, ["--format"], ["--actor", actor]),
        "an actor of an unknown last layer": (2, [f"type {actor}:softmax or {actor}:tanh"], ["--actor", actor, *good]),
        "unknown format": (2, ["--format onnx", "submission, torchscript, safetensors"], ["--actor", actor, "--format", "onnx"]),
        "bare, but no submission": (2, ["--bare", "submission", "safetensors"], ["--actor", actor, "--format", "safetensors", "--bare"]),
        "a mask, but no submission": (2, ["--mask_fatal", "submission, not torchscript"],
                                      ["--actor", actor, "--format", "torchscript", "--mask_fatal", "--output", folder.parent / "a.pt"]),
        "the likeliest moves, but no submission": (2, [f"{actor}:softmax:argmax", "submission", "torchscript"],
                                                   ["--actor", f"{actor}:softmax:argmax", "--format", "torchscript"]),
        "misspelt format": (2, ["did you mean torchscript?"], ["--actor", actor, "--format", "torchscrip"]),
        "unknown head": (2, ["relu", "softmax"], ["--actor", actor, *good, "--output_activation", "relu"]),
        "folder below a file": (4, [str(folder / "file")], ["--actor", f"{actor}:softmax", *good, "--output", folder / "file" / "x"]),
        "folder that is a file": (4, [str(folder / "file")], ["--actor", f"{actor}:softmax", *good, "--output", folder / "file"]),
        "file in a missing folder": (4, ["none/a.pt"], ["--actor", f"{actor}:softmax", "--format", "torchscript", "--output", folder / "none" / "a.pt"]),
        "file that is a folder": (4, [str(folder)], ["--actor", f"{actor}:softmax", "--format", "safetensors", "--output", folder]),
        "over itself": (2, [f"--output {actor}", "another name"], ["--actor", f"{actor}:softmax", "--format", "safetensors", "--output", actor]),
        "over itself, by another path": (2, ["another name"], ["--actor", f"{actor}:softmax", "--format", "torchscript", "--output",
                                                               folder.parent / folder.name / ".." / folder.name / actor.name]),
        "an actor with the script's name": (2, ["another name"], ["--actor", f"{saved('submission.py', network(26))}:softmax", *good]),
        "read-only place": (4, ["/proc/x"], ["--actor", f"{actor}:softmax", *good, "--output", "/proc/x"]),
    }


def test_what_cannot_be_exported_is_reported(tmp_path):
    inputs = tmp_path / "in"
    inputs.mkdir()
    for what, (code, words, line) in bad_exports(inputs).items():
        before = sorted(path.name for path in inputs.iterdir())
        done = call("export", *line, cwd=tmp_path)
        assert done.returncode == code, (what, done.stderr)
        for word in words:
            assert word in done.stderr, (what, done.stderr)
        assert done.stdout == "" and done.stderr.count("snake_ddp: ") == 1 and "unexpected error" not in done.stderr, what
        assert sorted(path.name for path in inputs.iterdir()) == before, what
        assert [path.name for path in tmp_path.iterdir()] == ["in"], what


def test_a_network_that_sees_less_has_no_submission(tmp_path):
    trained = call(*flags(TINY | {"algo": "dqn", "obs": "window", "view_radius": 4, "runs_dir": tmp_path / "runs", "max_episodes": 1}))
    actor = max((run_folder(trained.stdout) / "trained_model").glob("actor_*.pth"))
    done = call("export", "--actor", actor, "--format", "submission", "--output", tmp_path / "team")
    assert done.returncode == 2 and "--view_radius 4" in done.stderr and not (tmp_path / "team").exists(), done.stderr


def test_a_submission_beside_its_actor_leaves_the_file_as_it_is(tmp_path):
    trained = call(*flags(TINY | {"runs_dir": tmp_path / "runs", "max_episodes": 1}))
    actor = max((run_folder(trained.stdout) / "trained_model").glob("actor_*.pth"))
    before = actor.read_bytes()
    for head in ("softmax", "tanh"):
        done = call("export", "--actor", actor, "--format", "submission", "--output", actor.parent, "--output_activation", head)
        assert done.returncode == 0 and actor.read_bytes() == before, done.stderr
        assert f'OUTPUT_ACTIVATION = "{head}"' in (actor.parent / "submission.py").read_text()
    done = call("export", "--actor", actor, "--format", "submission", "--output", tmp_path / "team", "--output_activation", "tanh")
    shown = only_json(call("info", tmp_path / "team" / actor.name, "--json").stdout)
    assert shown["record"]["head"] == "tanh" and shown["record"]["obs"] == "30"


def test_the_last_layer_does_not_depend_on_how_the_path_is_written(tmp_path):
    models = tmp_path / "run" / "trained_model"
    models.mkdir(parents=True)
    torch.save(network(30), models / "actor_1.pth")
    (tmp_path / "run" / "config.json").write_text('{"output_activation": "tanh"}')
    for path in (models / "actor_1.pth", "actor_1.pth", "./actor_1.pth", "../trained_model/actor_1.pth"):
        done = call("export", "--actor", path, "--format", "submission", "--output", tmp_path / "team", cwd=models)
        assert done.returncode == 0 and 'OUTPUT_ACTIVATION = "tanh"' in (tmp_path / "team" / "submission.py").read_text(), path


@pytest.mark.parametrize("name", ["a\nb.pth", "@CHOICE@.pth", 'a"\\b.pth'])
def test_odd_names_of_actors_are_found_by_their_submissions(name, tmp_path):
    torch.save(network(30), tmp_path / name)
    done = call("export", "--actor", f"{tmp_path / name}:softmax", "--format", "submission", "--output", tmp_path / "team")
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "team" / "submission.py").read_text()
    line = next(line for line in source.splitlines() if line.startswith("ACTOR_FILE = "))
    assert ast.literal_eval(line.removeprefix("ACTOR_FILE = ")) == name
    assert (tmp_path / "team" / name).exists()


def test_help_does_not_promise_other_formats():
    reported = call("export", "--help").stdout
    assert "submission|torchscript|safetensors" in reported and "onnx" not in reported.lower()


# Q-networks


@pytest.mark.parametrize("features,norm,obs", [(26, True, "26"), (277, True, "window"), (309, False, "view"), (309, True, "ahead")])
def test_a_q_network_s_submission_moves_as_it_did_in_recorded_games(features, norm, obs, tmp_path):
    actor = save_in_run(tmp_path / "run", q_network(features, norm=norm), obs=obs)
    done = call("eval", "--team_a", actor, "--team_b", "territory", "--games", "2", "--record", tmp_path)
    assert done.returncode == 0, done.stderr
    submission = load_submission(export(actor, "submission", tmp_path / "out", "--bare"))
    assert submission.HEADING_UP == (obs == "ahead")
    moves = collections.Counter()
    platform = Platform()
    for game in range(2):  # in the second one it is the right team
        log = json.loads((tmp_path / f"game_{game}.json").read_text())
        board, reported = log["init_info"], None
        for step in log["steps"]:
            platform.show(board["beans_position"], board["snakes_position"], reported)
            for snake in range(3 * game, 3 * game + 3):
                answer = submission.my_controller(platform.observation(snake), None, False)
                assert answer == step["joint_action"][snake], (game, snake)
                moves[answer[0].index(1)] += 1
            board, reported = step["info_after"], step["info_before"]["directions"]
        assert submission.RECENT[0].step == 200
    assert len(moves) == 4


def test_other_programs_get_the_values_of_a_q_network(tmp_path):
    for norm in (True, False):
        weights = q_network(30, norm=norm)
        torch.save(weights, tmp_path / "actor_1.pth")
        module = torch.jit.load(export(tmp_path / "actor_1.pth", "torchscript", tmp_path / "q.pt"))
        hidden = obs = torch.rand(7, 3, 30)
        for layer in range(2):
            hidden = torch.nn.functional.linear(hidden, weights[f"q_net.{layer}.weight"], weights[f"q_net.{layer}.bias"])
            if norm:
                hidden = torch.nn.functional.layer_norm(hidden, [32], weights[f"norm_{layer}.weight"], weights[f"norm_{layer}.bias"])
            hidden = hidden.relu()
        expected = torch.nn.functional.linear(hidden, weights["q_net.2.weight"], weights["q_net.2.bias"])
        assert distance(module(obs).detach(), expected) < 1e-5
        file = export(tmp_path / "actor_1.pth", "safetensors", tmp_path / "q.safetensors")
        assert all(torch.equal(value, weights[name]) for name, value in safetensors.torch.load_file(file).items())
    refused = call("export", "--actor", tmp_path / "actor_1.pth", "--format", "torchscript", "--output_activation", "tanh")
    assert refused.returncode == 2 and "Q-network" in refused.stderr


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_weights_of_another_type_are_exported_as_float32(tmp_path, dtype):
    saved = {name: weight.to(dtype) for name, weight in q_network(30, norm=True).items()}
    torch.save(saved, tmp_path / "actor_1.pth")
    module = torch.jit.load(export(tmp_path / "actor_1.pth", "torchscript", tmp_path / "q.pt"))
    assert module(torch.rand(1, 3, 30)).dtype == torch.float32
    file = export(tmp_path / "actor_1.pth", "safetensors", tmp_path / "q.safetensors")
    assert all(torch.equal(value, saved[name].float()) for name, value in safetensors.torch.load_file(file).items())
    for folder in (tmp_path, tmp_path / "team"):  # beside the actor, which stays as it is, and elsewhere
        loaded = load_submission(export(tmp_path / "actor_1.pth", "submission", folder))
        assert loaded.ACTOR.answer(np.zeros((1, 30), np.float32)).dtype == torch.float32


def test_a_submission_that_masks_makes_no_fatal_move(tmp_path):
    torch.save(network(30, hidden=8), tmp_path / "actor_1.pth")
    submission = load_submission(export(f"{tmp_path}/actor_1.pth:softmax", "submission", tmp_path / "out", "--mask_fatal"))
    for step in range(5, 60):
        for snake in range(6):
            observation = platform_observation(1, step, snake)
            open_moves = submission.board_of(observation, snake).open_moves(snake % 3)
            for _ in range(3):
                assert submission.my_controller(observation, None)[0].index(1) in open_moves


def test_a_recurrent_q_network_plays_and_is_exported_as_safetensors_alone(tmp_path):
    layers = {"q_net.0": torch.nn.Linear(30, 16), "gru": torch.nn.GRUCell(16, 16), "q_net.1": torch.nn.Linear(16, 4)}
    weights = {f"{layer}.{name}": value.detach() for layer, module in layers.items()
               for name, value in module.state_dict().items()}
    torch.save(weights, tmp_path / "actor_1.pth")
    played = call("eval", "--team_a", tmp_path / "actor_1.pth", "--team_b", "level0", "--games", "70", "--json")
    assert played.returncode == 0 and only_json(played.stdout)["games"] == 70, played.stderr
    for format in ("submission", "torchscript"):
        refused = call("export", "--actor", tmp_path / "actor_1.pth", "--format", format, "--output", tmp_path / "out")
        assert refused.returncode == 2 and "recurrent" in refused.stderr and "safetensors" in refused.stderr
        assert not (tmp_path / "out").exists()
    export(tmp_path / "actor_1.pth", "safetensors", tmp_path / "actor.safetensors")
    read = safetensors.torch.load_file(tmp_path / "actor.safetensors")
    assert read.keys() == weights.keys() and all(torch.equal(read[name], weights[name]) for name in weights)
