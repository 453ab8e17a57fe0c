"""Does something learn? The examples, as short as that allows."""

import importlib.util
import re

import numpy as np
import torch

import snake_ddp
from processes import SOURCE, STARTER, call, only_json

torch.set_num_threads(1)


def example(name):
    spec = importlib.util.spec_from_file_location(name, SOURCE / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def quiet(*_):
    pass


def test_ppo_learns_and_the_program_plays_what_it_learned(tmp_path):
    actor, mean_return = example("ppo").train(13, report=quiet)
    assert mean_return > 3, "points per snake and game; random moves give less than 1"
    snake_ddp.networks.save(actor, tmp_path / "actor.pth")
    played = only_json(call("eval", "--team_a", tmp_path / "actor.pth", "--team_b", "level0", "--games", "50", "--json").stdout)
    assert played["win_rate"] > 0.9 and played["score_a"] > 9


def test_stable_baselines_trains_and_the_program_plays_its_policy(tmp_path):
    sb3 = example("sb3_ppo")
    model = sb3.train(16_000, verbose=0)
    assert model.num_timesteps >= 16_000
    actor = sb3.actor_of(model)
    rows = torch.rand(7, 309)
    with torch.no_grad():
        assert np.allclose(actor(rows), model.policy.get_distribution(rows).distribution.probs, atol=1e-6)
    snake_ddp.networks.save(actor, tmp_path / "actor.pth")
    played = call("eval", "--team_a", tmp_path / "actor.pth", "--team_b", "level0", "--games", "4", "--json")
    assert played.returncode == 0 and only_json(played.stdout)["games"] == 4, played.stderr


def test_torchrl_trains():
    torchrl = example("torchrl_ppo")
    network, rewards = torchrl.train(2, snakes=48, horizon=32, report=quiet)
    assert len(rewards) == 2 and all(bool(value.isfinite().all()) for value in network.parameters())
    assert all(value.grad is not None and bool(value.grad.any()) for value in network.parameters())


def test_a_small_network_learns_from_the_champion():
    student, agreed = example("distil").distil(SOURCE / "models" / "champion.pth", steps=150, snakes=96, report=quiet)
    assert student.features == 309 and agreed > 0.6, "guessing among two or three open moves gives less than half"


def test_values_of_boards_become_those_of_games_with_a_search(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SOURCE / "examples")  # for its processes, too
    expert_iteration = importlib.import_module("expert_iteration")
    expert = tmp_path / "expert.pth"
    results = expert_iteration.improve(
        SOURCE / "models" / "champion.pth", expert, "look1", rounds=1, games=96, processes=1, report=quiet
    )
    [((explained, foreseen), (explained_now, foreseen_now))] = results
    assert explained_now > explained and foreseen_now > foreseen - 0.1
    assert snake_ddp.evaluate(f"{expert}:look1", "level2", games=20, seed=1).wins > 10


def test_a_symmetric_network_learns_from_its_games_and_stays_symmetric(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SOURCE / "examples")
    expert_iteration = importlib.import_module("expert_iteration")
    start, expert = SOURCE / "models" / "champion.pth", tmp_path / "expert.pth"
    expert_iteration.improve(start, expert, "look1", rounds=1, games=64, processes=1, epochs=1, report=quiet)
    before, after = snake_ddp.networks.load(start), snake_ddp.networks.load(expert)
    assert not torch.equal(before.q_net[0].weight, after.q_net[0].weight)
    assert snake_ddp.networks.is_symmetric(after)


def test_the_careful_team_wins():
    own, other = example("pettingzoo_match").play(games=10)
    assert own > other + 1


def test_curves_reach_weights_and_biases(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAKE_DDP_PROGRAM", STARTER)
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = example("track").with_wandb(config=str(SOURCE / "configs/smoke.json"), progress=False)
    (kept,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    logged, reports = kept.read_bytes(), run.metrics()
    assert all(key.encode() in logged for key in reports) and f"{np.nanmax(reports['eval/score']):g}".encode() in logged


def programs_in(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)


def test_the_page_s_programs_run(tmp_path, monkeypatch):
    programs = programs_in(SOURCE / "docs" / "python.md")
    assert len(programs) == 9
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAKE_DDP_PROGRAM", STARTER)
    (tmp_path / "champion").symlink_to(SOURCE / "configs/champion.json")  # in the wheel with the trainer it is in the package
    (tmp_path / "models").symlink_to(SOURCE / "models")
    assert call("eval", "--team_a", "level2", "--team_b", "level1", "--games", "1", "--record", "games").returncode == 0
    for program in programs:
        exec(program.replace("200_000", "1_000").replace("n_steps=64", "n_steps=8").replace("max_minutes=10", "max_minutes=0.02"), {})
    assert (tmp_path / "actor.pth").exists()


def test_pqn_learns_and_the_program_plays_what_it_learned(tmp_path):
    pqn = example("pqn")
    # By hand: the second game of the row ends at the first step.
    returns = pqn.returns_of(
        torch.tensor([[[1.0]], [[2.0]], [[4.0]]]).expand(3, 2, 3).contiguous(), torch.tensor([[[0.0], [1.0]], [[0.0], [0.0]], [[0.0], [0.0]]]),
        torch.tensor([[[9.0]], [[3.0]], [[5.0]]]).expand(3, 2, 3), torch.full((2, 3), 6.0), gamma=0.5, td_lambda=0.25,
    )  # fmt: skip
    last = 4 + 0.5 * 6
    middle = 2 + 0.5 * (0.75 * 5 + 0.25 * last)
    assert np.allclose(returns[:, 0, 0], [1 + 0.5 * (0.75 * 3 + 0.25 * middle), middle, last]) and np.allclose(returns[:, 1, 0], [1, middle, last])
    settings = pqn.Settings(total_steps=12_000, opponent="level0", eval_opponent="level0", eval_games=50, eval_steps=6_000, hidden_size=64, c_lr=2e-3)
    network, curve = pqn.train(settings, report=quiet)
    assert [steps for steps, _ in curve] == [6144, 12_288] and curve[-1][1] > 0.9
    snake_ddp.networks.save(network, tmp_path / "network.pth")
    played = only_json(call("eval", "--team_a", tmp_path / "network.pth", "--team_b", "level0", "--games", "50", "--json").stdout)
    assert played["win_rate"] > 0.9
    assert pqn.train(pqn.Settings(total_steps=1, value="snake", eval_games=2, hidden_size=8), report=quiet)[1][0][0] == 2048


SHORT = {"total_steps": 1024, "num_envs": 8, "batch_size": 16, "hidden_size": 16, "eval_interval": 2, "eval_games": 6, "threads": 1,
         "check_consistency": 0}  # fmt: skip


def test_optuna_searches_with_runs_of_the_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAKE_DDP_PROGRAM", STARTER)
    tune = example("tune")
    study = tune.search(4, sampler=tune.optuna.samplers.TPESampler(seed=1, n_startup_trials=2), **SHORT)
    done = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    assert len(study.trials) == 4 and len(done) >= 3 and len({trial.params["c_lr"] for trial in study.trials}) == 4
    for trial in done:
        run = snake_ddp.Run(trial.user_attrs["folder"])
        assert {name: run.settings()[name] for name in trial.params} == trial.params and trial.intermediate_values
    pruned = tune.search(1, pruner=tune.optuna.pruners.ThresholdPruner(lower=2), **SHORT | {"total_steps": 10**9})
    assert pruned.trials[0].state.name == "PRUNED"
    assert len(list(tmp_path.glob("runs/*/*/checkpoints/resumable"))) == 1, "the pruned run"
