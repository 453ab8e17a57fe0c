"""The game snakes 3v3: many boards at C++ speed, its scripted opponents and trained teams, and their training."""

import importlib.metadata

import gymnasium

from . import envs
from ._core import Error, bounds, obs_size, opponents
from .boards import Boards
from .state import STATE
from .notebook import Page, Replay, replay
from .teams import Match, Team, evaluate, turned_moves
from .training import Run, RunError, SettingsError, train
from .weights import read_weights

__version__ = importlib.metadata.version("snake_ddp")

# Without max_episode_steps: the game ends by itself, and a limit would also mark its last step as truncated.
gymnasium.register(
    "snake_ddp/Snakes3v3-v0", entry_point="snake_ddp.envs:TeamEnv", vector_entry_point="snake_ddp.envs:TeamVectorEnv"
)

__all__ = [
    "STATE",
    "Boards",
    "Error",
    "Match",
    "Page",
    "Replay",
    "Run",
    "RunError",
    "SettingsError",
    "Team",
    "__version__",
    "bounds",
    "envs",
    "evaluate",
    "obs_size",
    "opponents",
    "read_weights",
    "replay",
    "train",
    "turned_moves",
]
