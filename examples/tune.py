"""A search for good settings with Optuna: short runs of the program, which end early if they are behind.

    pip install optuna
    python examples/tune.py --trials 20 --steps 1000000
"""

import argparse

import optuna

import snake_ddp

PRESET = {
    "algo": "pqn_vdn", "obs": "ahead", "mask_fatal": True, "mirror_symmetric": True, "reward": "score", "rival_reward": 0.5,
    "opponent_mix": "level2:0.5,territory:0.5", "epsilon": 0.3, "epsilon_min": 0.005, "eval_interval": 500, "eval_opponent": "territory",
}  # fmt: skip


def win_rate(trial, **settings):
    """Of a run with the trial's settings, after its last step."""

    def on_metrics(report):
        if "eval/win_rate" in report:
            trial.report(report["eval/win_rate"], report["step"])
            if trial.should_prune():
                raise optuna.TrialPruned  # stops the run

    settings["c_lr"] = trial.suggest_float("c_lr", 1e-4, 2e-3, log=True)
    settings["td_lambda"] = trial.suggest_float("td_lambda", 0.0, 0.9)
    settings["rollout_steps"] = trial.suggest_categorical("rollout_steps", [8, 16, 32])
    run = snake_ddp.train(**PRESET | settings, on_metrics=on_metrics, progress=False)
    trial.set_user_attr("folder", str(run.folder))
    return run.evaluate("territory", games=settings.get("eval_games", 200)).win_rate


def search(trials, sampler=None, pruner=None, **settings):
    """Returns the study; `settings` are those of every run."""
    sampler = sampler or optuna.samplers.TPESampler(seed=1)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner or optuna.pruners.MedianPruner(n_startup_trials=3))
    study.optimize(lambda trial: win_rate(trial, **settings), n_trials=trials)
    return study


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of boards, in each run")
    line = parser.parse_args()
    study = search(line.trials, total_steps=line.steps)
    print(f"Best: {study.best_value:.3f} with {study.best_params}, in {study.best_trial.user_attrs['folder']}")


if __name__ == "__main__":
    main()
