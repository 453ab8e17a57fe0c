"""A run's curves in Weights & Biases or in MLflow, as they come.

    pip install wandb                     # or mlflow
    python examples/track.py wandb --config champion --max_minutes 10
"""

import argparse

import snake_ddp


def with_wandb(**settings):
    import wandb

    with wandb.init(project="snakes", config=settings) as tracked:  # WANDB_MODE=offline keeps it on this machine
        return snake_ddp.train(**settings, on_metrics=lambda report: tracked.log(report, step=report["step"]))


def with_mlflow(**settings):
    import mlflow

    with mlflow.start_run():  # into ./mlflow.db, or where MLFLOW_TRACKING_URI says
        mlflow.log_params(settings)
        numbers = (int, float)
        return snake_ddp.train(**settings, on_metrics=lambda report: mlflow.log_metrics(
            {key: value for key, value in report.items() if isinstance(value, numbers)}, step=report["step"]))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tracker", choices=["wandb", "mlflow"])
    parser.add_argument("--config", default="champion")
    parser.add_argument("--max_minutes", type=float, default=0)
    parser.add_argument("--world_size", type=int, default=1)
    line = vars(parser.parse_args())
    run = {"wandb": with_wandb, "mlflow": with_mlflow}[line.pop("tracker")](**line)
    print(run.folder)


if __name__ == "__main__":
    main()
