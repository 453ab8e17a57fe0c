"""PettingZoo environments: six snakes, each an agent."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.utils import seeding
from numpy.typing import NDArray
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]
from pettingzoo.utils import conversions  # type: ignore[import-untyped]

from snake_ddp.arguments import whole
from snake_ddp.boards import Boards
from snake_ddp.envs import RENDERING, Frame, checked_render_mode, game_seed, rendered, snake_space
from snake_ddp.state import MAX_STEPS, MOVES

AGENTS = ("a_0", "a_1", "a_2", "b_0", "b_1", "b_2")  # the part before the last _ is the team: TorchRL groups agents by it
TEAM_OF = {agent: "ab".index(agent[0]) for agent in AGENTS}


class SnakesParallelEnv(ParallelEnv[str, NDArray[np.float32], int]):  # type: ignore[misc]
    """Six snakes, `a_0 a_1 a_2` of team A and `b_0 b_1 b_2` of team B, that move at the same time.

    Shapes  observations float32 [features]; actions 0..3 (up, down, left, right); `infos[agent]["action_mask"]` int8 [4], 1 for
            moves that are neither certain death nor a reversal, or four if no other is left; `state()` the six observations.
    Returns  `infos[agent]["scores"]` at the end: points of the agent's team and of the other.
    """

    def __init__(
        self, *, obs: str = "30", reward: str = "score", max_cycles: int = 200, render_mode: str | None = None
    ) -> None:
        self.metadata = {"name": "snakes_3v3_v0", "is_parallelizable": True, **RENDERING}
        self.render_mode = checked_render_mode(render_mode, self.metadata["render_modes"])
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        length = min(whole("max_cycles", max_cycles, 1), MAX_STEPS)
        self.boards = Boards(1, obs=obs, reward=reward, opponent="none", episode_length=length, autoreset="disabled")
        space = snake_space(obs)
        self.observation_spaces = {agent: Box(space.low, space.high, dtype=np.float32) for agent in AGENTS}
        self.action_spaces = {agent: Discrete(MOVES) for agent in AGENTS}
        self.state_space = Box(np.tile(space.low, len(AGENTS)), np.tile(space.high, len(AGENTS)), dtype=np.float32)
        self._random, _ = seeding.np_random()

    def observation_space(self, agent: str) -> Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, dict[str, Any]]]:
        """`options={"game_seed": n}` starts the games of a training run with that seed."""
        if seed is not None:
            self._random, _ = seeding.np_random(seed)
        self.boards.reset(game_seed(self._random, options))
        self.agents = list(AGENTS)
        self._show()
        return self._seen(), self._infos()

    def step(
        self, actions: dict[str, int]
    ) -> tuple[
        dict[str, NDArray[np.float32]], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        if not self.agents:
            raise ValueError("the game has ended: reset it first")
        self.boards.step(np.array([[operator.index(actions[agent]) for agent in AGENTS]], dtype=np.int64))
        terminated, truncated = bool(self.boards.terminated[0]), bool(self.boards.truncated[0])
        infos = self._infos()
        self._show()
        if self.boards.finished:
            self.agents = []
            for agent, team in TEAM_OF.items():
                infos[agent]["scores"] = self.boards.scores[0][[team, 1 - team]]
        return (
            self._seen(),
            dict(zip(AGENTS, map(float, self.boards.rewards[0]), strict=True)),
            dict.fromkeys(AGENTS, terminated),
            dict.fromkeys(AGENTS, truncated),
            infos,
        )

    def state(self) -> NDArray[np.float32]:
        return self.boards.observations.reshape(-1).copy()

    def render(self) -> Frame | None:
        """The board as text (docs/reference/formats.md), with "rgb_array" as a picture (`Boards.image`). With "human" each step prints it."""
        return rendered(self.boards, self.render_mode)

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def _seen(self) -> dict[str, NDArray[np.float32]]:
        return dict(zip(AGENTS, self.boards.observations[0].copy(), strict=True))

    def _infos(self) -> dict[str, dict[str, Any]]:
        masks = self.boards.open_moves()[0].astype(np.int8)
        return {agent: {"action_mask": mask} for agent, mask in zip(AGENTS, masks, strict=True)}


def parallel_env(**settings: Any) -> SnakesParallelEnv:
    """Six snakes that move at the same time. Keyword arguments as SnakesParallelEnv."""
    return SnakesParallelEnv(**settings)


def env(**settings: Any) -> Any:
    """The same game agent by agent (AEC). Keyword arguments as SnakesParallelEnv."""
    return conversions.parallel_to_aec(parallel_env(**settings))
