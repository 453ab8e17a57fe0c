"""snake_ddp.train: the program's runs from Python, their metrics, callbacks, ends, and what they leave."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from make_flags import text

import snake_ddp
from processes import PATIENCE_S, STARTER, TINY, call, clean_environment, descendants, fingerprint, flags, wait_until_gone
from snake_ddp import training

ENDLESS = TINY | {"max_episodes": 10**6, "checkpoint_interval": 10**6}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAKE_DDP_PROGRAM", STARTER)
    for name in ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    assert not training._going_on, "a test left a run behind"


def log_of(run):
    return (run.folder / "train.log").read_text()


def fingerprint_of(run):
    return re.findall(r"Fingerprint: .*", log_of(run))[-1]


def test_it_trains_as_the_command_does(here, capsys):
    seen = []
    run = snake_ddp.train(**TINY, on_metrics=seen.append)
    done = call(*flags(TINY))
    assert fingerprint_of(run) == fingerprint(done.stdout)["line"] and run.code == 0
    assert run.folder.parent == here / "runs/snakes_3v3"
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert seen == lines and seen
    assert "100%" in capsys.readouterr().err
    assert {name: value for name, value in run.settings().items() if name in TINY} == TINY


def test_its_reports_are_arrays(here):
    run = snake_ddp.train(**TINY, eval_interval=2, eval_games=6, progress=False)
    metrics = run.metrics()
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert set(metrics) == {key for line in lines for key in line}
    for key, array in metrics.items():
        assert len(array) == len(lines)
        for value, line in zip(array.tolist(), lines, strict=True):
            assert value == line.get(key, "") if key == "opponent" else value == line[key] if key in line else np.isnan(value)
    assert metrics["eval/win_rate"].dtype == float and set(metrics["opponent"]) == {"", "level2"}
    table = run.frame()
    assert table.index.tolist() == metrics["step"].tolist() and table["eval/win_rate"].count() == np.isfinite(metrics["eval/win_rate"]).sum() > 0
    again = snake_ddp.Run(run.folder)
    assert list(again) == lines and again.code == 0 and again.wait() is again
    assert again.weights(best=True).name == "actor_best.pth"


def test_what_it_trained_can_be_played_and_looked_at(here):
    run = snake_ddp.train(**TINY | {"algo": "rqmix", "sequence_length": 4, "burn_in": 1}, progress=False)
    assert run.weights() == run.folder / f"trained_model/actor_{run.metrics()['episode'][-1]:.0f}.pth"
    assert isinstance(run.actor(), snake_ddp.networks.RecurrentQNetwork)
    match = run.evaluate("level2", games=4, seed=3)
    assert match.games == 4 and match.wins + match.draws + match.losses == 4 and isinstance(match.win_rate_ci95, tuple)
    page = run.report()
    assert run.folder.name in page.page and page._repr_html_().startswith("<iframe")
    with pytest.raises(FileNotFoundError, match="no weights of an evaluation yet"):
        run.weights(best=True)
    with pytest.raises(snake_ddp.SettingsError, match='team "nobody"'):
        run.evaluate("nobody")


def test_a_run_that_leaves_out_fatal_moves_is_evaluated_so(here):
    run = snake_ddp.train(**TINY | {"mask_fatal": True}, progress=False)
    line = ["--team_a", run.weights(), "--team_b", "level0", "--games", 20, "--seed", 1, "--json"]
    plain, masked = (json.loads(call("eval", *line, *more).stdout)["score_a"] for more in ([], ["--mask_fatal"]))
    assert run.evaluate("level0", games=20).score_a == masked != plain


@pytest.mark.parametrize("wrong", [{"gamm": 1}, {"gamma": 3}, {"gamma": "x"}, {"algo": "dqn", "n_step": True}, {"config": "nothing"},
                                   {"algo": "dqn", "own_reward": 0.5, "expected_value": True}], ids=str)  # fmt: skip
def test_what_is_wrong_is_refused_as_by_the_command(here, wrong):
    word = {True: "on", False: "off"}
    said = call(*(f"--{name}={word.get(value, value) if isinstance(value, bool) else value}" for name, value in wrong.items()))
    with pytest.raises(snake_ddp.RunError) as refusal:
        snake_ddp.train(**wrong)
    assert f"snake_ddp: {refusal.value}\n" == said.stderr and refusal.value.code == said.returncode
    assert isinstance(refusal.value, snake_ddp.SettingsError) == (said.returncode == 2) and isinstance(refusal.value, RuntimeError)
    assert not (here / "runs").exists()


def test_what_starts_no_run_and_what_only_warns():
    with pytest.raises(snake_ddp.RunError, match="no run began; the program printed: Train a team"):
        snake_ddp.train(help=True)
    with pytest.warns(UserWarning, match="--a_lr 0.1 does not apply to --algo dqn"):
        snake_ddp.train(**TINY, algo="dqn", a_lr=0.1, progress=False)


def test_values_of_numpy_paths_and_nothing(here):
    run = snake_ddp.train(**TINY | {"max_episodes": np.int64(3), "gamma": np.float32(0.5), "mask_fatal": np.bool_(True), "obs": None,
                                    "runs_dir": pathlib.Path("elsewhere")}, progress=False)  # fmt: skip
    settings = run.settings()
    assert settings["gamma"] == 0.5 and settings["mask_fatal"] is True and settings["obs"] == "30" and settings["max_episodes"] == 3
    assert run.folder.is_relative_to(here / "elsewhere")


def test_a_callback_s_exception_stops_the_run_which_can_be_continued(here):
    class Enough(Exception):
        pass

    def on_metrics(report):
        if report["step"] > 0:
            raise Enough

    with pytest.raises(Enough):
        snake_ddp.train(**ENDLESS, on_metrics=on_metrics, progress=False)
    (folder,) = (here / "runs/snakes_3v3").iterdir()
    assert (folder / "checkpoints/resumable").exists() and re.search("step_0*[1-9]", (folder / "checkpoints/latest").read_text())
    stopped = snake_ddp.Run(folder)
    reached = stopped.metrics()["episode"][-1]
    seen = []
    run = snake_ddp.train(resume=folder, max_episodes=int(reached) + 20, on_metrics=seen.append, progress=False)
    assert run.folder == folder and run.code == 0 and 0 < len(seen) < len(run.metrics()["step"])
    before = log_of(run)
    finished = snake_ddp.train(resume=folder, progress=False)
    assert finished.folder == folder and finished.code == 0 and log_of(finished) == before


def test_what_a_callback_throws_and_warns_of_arrives(monkeypatch):
    def on_metrics(report):
        warnings.warn("seen", stacklevel=1)
        import nothing_of_this_name  # noqa: F401

    for has_tqdm in (True, False):
        if not has_tqdm:
            monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        with pytest.warns(UserWarning, match="seen"), pytest.raises(ImportError, match="nothing_of_this_name"):
            snake_ddp.train(**ENDLESS, on_metrics=on_metrics)


def test_a_run_in_the_background_is_followed_and_stopped(here):
    run = snake_ddp.train(**ENDLESS, world_size=2, wait=False)
    assert run.code is None
    steps = []
    for report in run:
        steps.append(report["step"])
        if len(steps) == 3:
            break
    assert steps == sorted(steps) and run.stop() is run and run.code == 75 and run.stop().code == 75
    assert run.settings()["run"]["world_size"] == 2 and run.wait() is run


def test_a_run_that_dies_raises_with_its_message_and_code(here):
    run = snake_ddp.train(**ENDLESS, world_size=2, wait=False)
    (rank, _) = descendants(run._process.pid)
    os.kill(rank, signal.SIGKILL)
    with pytest.raises(snake_ddp.RunError, match=rf"rank \d \(pid {rank}\) was killed by signal") as death:
        run.wait(progress=False)
    assert death.value.code == 3
    run = snake_ddp.train(**ENDLESS, wait=False)
    run._process.kill()
    with pytest.raises(snake_ddp.RunError, match="the program was killed by SIGKILL") as death:
        run.wait()
    assert death.value.code == -9


IN_A_SCRIPT = """
import snake_ddp
run = snake_ddp.train(**{settings}, wait={wait}, on_metrics=lambda report: print(report["step"], flush=True), progress=False)
print("began", run.folder, run._process.pid, flush=True)
"""


def script(wait):
    return subprocess.Popen([sys.executable, "-c", IN_A_SCRIPT.format(settings=ENDLESS, wait=wait)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=clean_environment(SNAKE_DDP_PROGRAM=STARTER), start_new_session=True)  # fmt: skip


def test_ctrl_c_stops_the_run_and_python(here):
    python = script(True)
    python.stdout.readline()
    ranks = descendants(python.pid)
    python.send_signal(signal.SIGINT)
    _, errors = python.communicate(timeout=PATIENCE_S)
    assert errors.rstrip().endswith("KeyboardInterrupt") and python.returncode == -signal.SIGINT
    (resumable,) = (here / "runs").glob("*/*/checkpoints/resumable")
    assert "Stopped by a signal" in (resumable.parents[1] / "train.log").read_text()
    wait_until_gone(ranks, 5)


def test_a_run_ends_with_python_and_leaves_a_checkpoint(here):
    output, errors = script(False).communicate(timeout=PATIENCE_S)
    _, folder, pid = output.split()
    assert (pathlib.Path(folder) / "checkpoints/resumable").exists(), errors
    wait_until_gone([int(pid)], 5)


def test_the_types_of_the_flags_are_the_program_s():
    written = pathlib.Path(snake_ddp.__file__).with_name("flags.py").read_text()
    assert written == text(), "python tests/python/make_flags.py > python/snake_ddp/flags.py"


def test_where_there_is_no_program_one_line_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("SNAKE_DDP_PROGRAM")
    with pytest.raises(snake_ddp.RunError, match="this package is the one without the trainer: install the wheel that has it") as unfit:
        snake_ddp.train()
    assert unfit.value.code == 2
    done = subprocess.run([sys.executable, "-m", "snake_ddp", "train"], capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 2 and done.stderr == f"snake_ddp: {unfit.value}\n"
    monkeypatch.setenv("SNAKE_DDP_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(snake_ddp.RunError, match="cannot start the program: .*No such file") as missing:
        snake_ddp.train()
    assert missing.value.code == 4
