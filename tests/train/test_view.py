"""Learning on the view: the preset's pieces together, among ranks, in files and in evaluation."""

import json
import pathlib

import pytest
import torch

from processes import BINARY, SOURCE, call, fingerprint, flags, free_port, has_bf16, only_json, run_folder, starter, torchrun

PRESET = SOURCE / "configs" / "dqn.json"
SMALL = {"config": PRESET, "obs": "ahead", "hidden_size": 32, "num_envs": 8, "batch_size": 24, "buffer_size": 3000, "max_episodes": 8,
         "updates_per_step": 0.125, "episode_length": 60, "eval_games": 16, "check_consistency": 50, "threads": 1}


def played(*line):
    done = call(*line)
    assert done.returncode == 0, done.stderr
    return only_json(done.stdout)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two ranks under torchrun, on a small scale; its text and its folder."""
    folder = tmp_path_factory.mktemp("view")
    with starter(folder) as begin:
        process = torchrun(begin, 2, BINARY, *flags(SMALL | {"runs_dir": folder}))
        assert process.wait() == 0, process.text()
        return process.text(), run_folder(process.text())


def test_two_ranks_learn_the_same_network_from_different_games(run):
    reported = fingerprint(run[0])
    assert sorted(reported["ranks"]) == [0, 1]
    for hashes in zip(*reported["ranks"].values()):  # boards, then batches
        assert len(set(hashes)) == 2, reported["line"]


def test_files_hold_the_q_network_and_its_target(run):
    models = run[1] / "trained_model"
    actor = torch.load(models / "actor_best.pth", weights_only=True)
    target = torch.load(models / "critic_best.pth", weights_only=True)
    expected = {"q_net.0.weight": (32, 309), "q_net.0.bias": (32,), "norm_0.weight": (32,), "norm_0.bias": (32,),
                "q_net.1.weight": (32, 32), "q_net.1.bias": (32,), "norm_1.weight": (32,), "norm_1.bias": (32,),
                "q_net.2.weight": (4, 32), "q_net.2.bias": (4,)}
    for weights in (actor, target):
        assert {name: tuple(tensor.shape) for name, tensor in weights.items()} == expected
    assert not torch.equal(actor["q_net.0.weight"], target["q_net.0.weight"])


def test_a_q_network_is_known_by_its_file_and_plays(run, tmp_path):
    actor = run[1] / "trained_model" / "actor_best.pth"
    line = ("eval", "--team_a", actor, "--team_b", "level0", "--games", "32", "--json")
    first = played(*line)
    assert first["games"] == 32
    timeless = {name: value for name, value in first.items() if name != "steps_per_second"}
    for same in ((*line, "--mask_fatal"), ("eval", "--team_a", f"{actor}:argmax", *line[3:])):
        again = played(*same)
        assert {name: again[name] for name in timeless} == timeless
    odd = torch.load(actor, weights_only=True)
    odd["q_net.0.weight"] = odd["q_net.0.weight"][:, :200].clone()
    torch.save(odd, tmp_path / "actor_odd.pth")
    refused = call("eval", "--team_a", tmp_path / "actor_odd.pth", "--team_b", "level0")
    assert refused.returncode == 4 and "200 features" in refused.stderr


def test_an_actor_with_masked_fatal_moves_scores_more():
    actor = f"{SOURCE}/tests/data/upstream_actor_2000.pth:softmax"
    line = ("eval", "--team_a", actor, "--team_b", "level2", "--games", "200", "--json")
    free, masked = played(*line), played(*line, "--mask_fatal")
    assert masked["score_a"] > free["score_a"] + 1


def test_training_continues_from_saved_weights(run, tmp_path):
    folder = run[1]
    number = folder.name.split("_")[0].removeprefix("run")
    episode = max(int(path.stem.split("_")[1]) for path in (folder / "trained_model").glob("actor_[0-9]*.pth"))
    done = call(*flags(SMALL | {"runs_dir": folder.parents[1], "load_model": True, "load_model_run": number,
                                "load_model_run_episode": episode, "max_episodes": 1, "updates_per_step": 0}))
    assert done.returncode == 0, done.stderr
    newest = run_folder(done.stdout)
    before = torch.load(folder / "trained_model" / f"actor_{episode}.pth", weights_only=True)
    saved = [torch.load(path, weights_only=True) for path in (newest / "trained_model").glob("actor_[0-9]*.pth")]
    assert saved and all(torch.equal(weights[name], before[name]) for weights in saved for name in before)
    other = call(*flags(SMALL | {"obs": "view", "runs_dir": folder.parents[1], "load_model": True, "load_model_run": number,
                                 "load_model_run_episode": episode}))
    assert other.returncode == 4 and "--obs ahead, this run has --obs view" in other.stderr


def test_a_few_hundred_updates_beat_random_snakes(tmp_path):
    done = call(*flags({"config": PRESET, "hidden_size": 64, "num_envs": 32, "batch_size": 128, "max_episodes": 64,
                        "updates_per_step": 0.03125, "buffer_size": 20000, "epsilon_min": 0.02, "c_lr": 0.001,
                        "eval_games": 64, "eval_opponent": "level0", "eval_interval": 10**6, "opponent_mix": "level0",
                        "threads": 1, "runs_dir": tmp_path}))
    assert done.returncode == 0, done.stderr
    actor = run_folder(done.stdout) / "trained_model" / "actor_best.pth"
    result = played("eval", "--team_a", actor, "--team_b", "level0", "--games", "100", "--json")
    assert result["win_rate"] > 0.8, json.dumps(result)


def test_training_in_bfloat16_needs_instructions_and_repeats_its_bits(tmp_path):
    small = {"config": SOURCE / "configs" / "champion.json", "hidden_size": 32, "num_envs": 8, "batch_size": 32, "max_episodes": 8, "episode_length": 60,
             "eval_interval": 0, "opponent_mix": "level2:0.5,self:0.5", "check_consistency": 20, "threads": 1, "runs_dir": tmp_path}
    trained = {products: [call("--ddp", "--world_size", "2", *flags(small | {"products": products})) for _ in range(2)] for products in ("float32", "bf16")}
    assert all(done.returncode == 0 for done in trained["float32"]), trained["float32"][0].stderr
    if not has_bf16():
        assert all(done.returncode == 2 and "needs AMX or AVX512-BF16" in done.stderr for done in trained["bf16"])
        return
    assert all(done.returncode == 0 for done in trained["bf16"]), trained["bf16"][0].stderr
    weights = {products: [fingerprint(done.stdout + done.stderr)["line"].split(";")[0] for done in both] for products, both in trained.items()}
    assert all(first == second for first, second in weights.values())
    assert weights["bf16"][0] != weights["float32"][0]


@pytest.mark.parametrize("limited", [(0, 1), (0,), (1,)])
def test_ranks_that_differ_in_their_instructions_choose_what_all_have(limited, tmp_path):
    line = flags({"config": SOURCE / "configs" / "champion.json", "hidden_size": 16, "num_envs": 4, "batch_size": 16, "max_episodes": 8, "episode_length": 60,
                  "eval_interval": 0, "opponent_mix": "level2", "threads": 1, "runs_dir": tmp_path})
    port = free_port()
    with starter(tmp_path) as start:
        ranks = [start([BINARY, "train", *line], RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                       **({"ATEN_CPU_CAPABILITY": "avx2"} if rank in limited else {})) for rank in range(2)]
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text() + ranks[1].text()
        assert "--products float32" in ranks[0].text()


def test_the_team_in_the_repository_is_the_strongest_here():
    champion = SOURCE / "models" / "champion.pth"
    assert champion.stat().st_size < 5e6
    for opponent, least in (("level2", 0.96), ("territory", 0.87)):
        result = played("eval", "--team_a", champion, "--team_b", opponent, "--games", "200", "--seed", "3", "--json")
        assert result["win_rate"] > least, (opponent, result["win_rate"])
