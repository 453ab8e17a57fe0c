"""A user's program under mypy --strict: what is right passes, what is wrong is an error."""

import os
import pathlib
import re
import subprocess
import sys

PROGRAM = '''
import gymnasium
import numpy as np
import numpy.typing as npt

import snake_ddp
from snake_ddp import multiagent, networks
from snake_ddp.envs import SnakeVectorEnv, TeamEnv, TeamVectorEnv

envs = SnakeVectorEnv(6, obs="view", opponent=snake_ddp.Team("territory"))
observations, info = envs.reset(seed=1)
shown: npt.NDArray[np.float32] = observations
moves = np.zeros(6, dtype=np.uint8)
seen, rewards, terminated, truncated, info = envs.step(moves)
masks: npt.NDArray[np.bool_] = envs.open_moves()

single = TeamEnv(render_mode="ansi")
base: gymnasium.Env[npt.NDArray[np.float32], npt.NDArray[np.integer]] = single
reward: float = single.step(np.array([0, 1, 2]))[1]

boards = snake_ddp.Boards(4, opponent="none")
boards.reset(1)
boards.step(np.zeros((4, 6), dtype=np.uint8))
match = snake_ddp.evaluate("level2", "territory", games=2)


def values(observations: npt.NDArray[np.float32], states: npt.NDArray[np.void]) -> npt.NDArray[np.float32]:
    return observations[..., :4]


searching: snake_ddp.Team = snake_ddp.Team.of_values(values, "look4", gamma=0.9)
rate: float = match.win_rate

agents = multiagent.parallel_env()
mine: npt.NDArray[np.float32] = agents.reset(seed=1)[0]["a_0"]

network: networks.Network = networks.load("models/champion.pth")
page: str = snake_ddp.replay("game.json").page

run: snake_ddp.Run = snake_ddp.train(config="champion", world_size=2, gamma=0.9, obs="view", on_metrics=lambda report: print(report["step"]))
losses: npt.NDArray[np.float64] = run.metrics()["loss/critic"]
trained: networks.Network = run.actor()
won: float = run.evaluate("territory").win_rate
'''

WRONG = {  # a line, and the words of mypy's error
    "envs.step(np.zeros(6))": "float64",
    'envs.step("up")': "str",
    "single.step(1.5)": "float",
    "boards.step(np.zeros((4, 6)))": "float64",
    "TeamVectorEnv(4, opponent=3)": "int",
    "TeamVectorEnv(4, obs_size=3)": "obs_size",
    'agents.step({"a_0": "up"})': "str",
    'networks.load("a.pth", head=1)': "int",
    "length: str = match.games": "int",
    "snake_ddp.replay(7)": "int",
    "snake_ddp.train(gamm=0.9)": "gamm",
    'snake_ddp.train(gamma="0.9")': "float",
    'snake_ddp.train(obs="31")': "Literal",
    "code: int = run.code": "int | None",
}


# Reading torch takes mypy half a minute.
SETTINGS = """
[mypy]
strict = True
[mypy-torch.*]
follow_imports = skip
"""


def mypy(program, tmp_path):
    (tmp_path / "user.py").write_text(program)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    # What mypy knows of numpy and gymnasium is kept for the suite's next run.
    cache = pathlib.Path(os.environ.get("SD_BUILD_DIR", tmp_path)) / "mypy_cache"
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", cache, "user.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_a_typed_program_passes_and_wrong_types_are_errors(tmp_path):
    assert mypy(PROGRAM, tmp_path) == ""
    first = PROGRAM.count("\n") + 1
    said = mypy(PROGRAM + "\n".join(WRONG) + "\n", tmp_path)
    errors = {int(line): text for line, text in re.findall(r"^user\.py:(\d+): error: (.*)$", said, re.M)}
    for line, (code, word) in enumerate(WRONG.items(), start=first):
        assert word in errors.get(line, ""), f"{code}\n{said}"
    assert set(errors) == set(range(first, first + len(WRONG))), said
