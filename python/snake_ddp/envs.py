"""Gymnasium environments: one team, many teams, or many snakes, on boards that are stepped together."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from snake_ddp._core import bounds
from snake_ddp.arguments import MOST_BOARDS, real, seed_of, whole
from snake_ddp.boards import Boards
from snake_ddp.state import MOVES, TEAM
from snake_ddp.teams import Team

Observation = NDArray[np.float32]
Action = NDArray[np.integer[Any]]
Frame = str | NDArray[np.uint8]
Info = dict[str, Any]

RENDERING: dict[str, Any] = {"render_modes": ["human", "ansi", "rgb_array"], "render_fps": 8}


def snake_space(obs: str) -> Box:
    """The observations of one snake.

    A little wider than the features: it includes zero, which TorchRL writes where a game has not ended; and PettingZoo warns of a
    feature that is always 0.
    """
    low, high = bounds(obs)
    return Box(np.minimum(low, 0), np.where(low == high, low + 1, high), dtype=np.float32)


def team_space(obs: str) -> Box:
    """The observations of a team's three snakes."""
    snake = snake_space(obs)
    return Box(np.tile(snake.low, (TEAM, 1)), np.tile(snake.high, (TEAM, 1)), dtype=np.float32)


def game_seed(random: np.random.Generator, options: Info | None) -> int:
    """The seed of the next games: the one in `options`, or one drawn."""
    given = (options or {}).get("game_seed")
    return int(random.integers(2**63)) if given is None else seed_of("game_seed", given)


def checked_actions(actions: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.ascontiguousarray(actions)
    if array.shape != shape:
        raise ValueError(f"actions have the shape {array.shape}; this environment takes {shape}")
    return array


def checked_render_mode(mode: str | None, modes: list[str]) -> str | None:
    if mode is not None and mode not in modes:
        raise ValueError(f"render_mode {mode!r}: {', '.join(map(repr, modes))} or None")
    return mode


def warn_of_no_render_mode(modes: list[str]) -> None:
    gymnasium.logger.warn(f"render shows nothing: the environment was made without a render_mode ({', '.join(modes)})")


def rendered(boards: Boards, mode: str | None) -> Frame | None:
    """The only board: "ansi" returns it as text, "human" prints that, "rgb_array" returns a picture."""
    if mode is None:
        return warn_of_no_render_mode(RENDERING["render_modes"])
    if mode == "rgb_array":
        return boards.image(0)
    picture = boards.picture(0)
    if mode == "human":
        print(picture)
    return picture if mode == "ansi" else None


class TeamEnv(gymnasium.Env[Observation, Action]):
    """One team against an opponent.

    Shapes  observations float32 [3, features], actions [3] in 0..3 (up, down, left, right), rewards the sum of the team's.
    Returns  `info["scores"]` at a game's end: the points of this team and of the other.
    """

    metadata: dict[str, Any] = RENDERING

    def __init__(
        self,
        *,
        obs: str = "30",
        reward: str = "score",
        opponent: str | Team = "level2",
        episode_length: int = 200,
        render_mode: str | None = None,
    ) -> None:
        if opponent == "none":
            raise ValueError('opponent "none": this environment has one team; TeamVectorEnv and multiagent move both')
        self.render_mode = checked_render_mode(render_mode, self.metadata["render_modes"])
        self.observation_space = cast("Space[Observation]", team_space(obs))
        self.action_space = MultiDiscrete([MOVES] * TEAM)
        self.boards = Boards(
            1, obs=obs, reward=reward, opponent=opponent, episode_length=episode_length, autoreset="disabled"
        )

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """`options={"game_seed": n}` starts the games of a training run with that seed."""
        super().reset(seed=seed)
        self.boards.reset(game_seed(self.np_random, options))
        self._show()
        return self.boards.observations[0].copy(), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, Info]:
        self.boards.step(checked_actions(action, (TEAM,)).reshape(1, TEAM))
        info = {"scores": self.boards.scores[0].copy()} if self.boards.finished else {}
        self._show()
        reward = float(self.boards.rewards.sum())
        return self.boards.observations[0].copy(), reward, bool(self.boards.terminated[0]), bool(self.boards.truncated[0]), info

    def action_masks(self) -> NDArray[np.bool_]:
        """The moves that are not fatal, in the form that sb3-contrib's MaskablePPO expects.

        Shapes  [12]: four of each snake.
        """
        return self.boards.open_moves().reshape(-1)

    def render(self) -> Frame | None:  # type: ignore[override]
        """The board as text (docs/reference/formats.md), with "rgb_array" as a picture (`Boards.image`). With "human" each step prints it."""
        return rendered(self.boards, self.render_mode)

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()


class BoardsVectorEnv(VectorEnv[Observation, Action, NDArray[Any]]):
    """What both vector environments share. A sub-environment is a group of `_GROUP` snakes of one board."""

    _GROUP: int
    single_observation_space: Box

    def __init__(
        self,
        num_envs: int = 1,
        *,
        obs: str = "30",
        reward: str = "score",
        opponent: str | Team = "level2",
        episode_length: int = 200,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.single_observation_space, self.single_action_space = self._spaces(obs)
        snakes = 2 * TEAM if opponent == "none" else TEAM
        self._on_board = snakes // self._GROUP  # sub-environments of a board
        num_envs = whole("num_envs", num_envs, self._on_board, self._on_board * MOST_BOARDS)
        if num_envs % self._on_board != 0:
            raise ValueError(f"num_envs is {num_envs}: a board has {self._on_board} of them, so it must be a multiple of that")
        mode = AutoresetMode(autoreset_mode)
        self.num_envs = num_envs
        self.autoreset_mode = mode
        self.metadata = {**RENDERING, "render_modes": ["ansi", "rgb_array"], "autoreset_mode": mode}
        self.render_mode = checked_render_mode(render_mode, self.metadata["render_modes"])
        self.copy = copy
        self._moves_shape = (num_envs // self._on_board, snakes)
        self.boards = Boards(
            num_envs // self._on_board,
            obs=obs,
            reward=reward,
            opponent=opponent,
            episode_length=episode_length,
            autoreset=mode.name.lower(),
        )

    # Spaces of thousands of sub-environments take seconds and megabytes, and few programs read them.

    @cached_property
    def observation_space(self) -> Space[Any]:  # type: ignore[override]
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Space[Any]:  # type: ignore[override]
        return batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """`options={"game_seed": n}` starts the games of a training run with that seed; `{"reset_mask": bool [num_envs]}` resets those
        sub-environments only, whole boards.
        """
        super().reset(seed=seed)
        given = options or {}
        if "reset_mask" not in given:
            self.boards.reset(game_seed(self.np_random, options))
        elif seed is None and "game_seed" not in given:
            self.boards.reset(mask=self._mask_of_boards(given["reset_mask"]))
        else:
            raise ValueError("reset with a seed and a reset_mask: a seed is for all boards, so reset all of them")
        return self._shown(self.boards.observations), {}

    def step(
        self, actions: Action
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], Info]:
        self.boards.step(checked_actions(actions, self._actions_shape).reshape(self._moves_shape))
        ended = self._each(self.boards.terminated), self._each(self.boards.truncated)
        return self._shown(self.boards.observations), self._shared_rewards(), *ended, self._infos()

    def open_moves(self) -> NDArray[np.bool_]:
        """The moves that are neither certain death nor a reversal; all four where no other is left.

        Shapes  [num_envs, 3, 4] for teams, [num_envs, 4] for snakes.
        """
        return self.boards.open_moves().reshape(*self._actions_shape, MOVES)

    def render(self) -> tuple[Frame, ...] | None:  # type: ignore[override]
        """Each sub-environment's board, as text or as a picture (`Boards.image`), which neighbours on a board share."""
        if self.render_mode is None:
            return warn_of_no_render_mode(self.metadata["render_modes"])
        show = {"ansi": self.boards.picture, "rgb_array": self.boards.image}[self.render_mode]
        return tuple(frame for board in range(self.boards.num_boards) for frame in [show(board)] * self._on_board)

    @property
    def _actions_shape(self) -> tuple[int, ...]:
        return (self.num_envs, *self.single_action_space.shape)  # type: ignore[misc]  # None only for other spaces

    @staticmethod
    def _spaces(obs: str) -> tuple[Box, Space[Any]]:
        """The spaces of one sub-environment: observations and actions."""
        raise NotImplementedError

    def _shared_rewards(self) -> NDArray[np.float32]:
        raise NotImplementedError

    def _shown(self, observations: Observation) -> Observation:
        rows = observations.reshape(self.num_envs, *self.single_observation_space.shape)
        return rows.copy() if self.copy else rows

    def _each(self, of_boards: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """One value for each sub-environment."""
        if self._on_board > 1:
            return of_boards.repeat(self._on_board)
        return of_boards.copy() if self.copy else of_boards

    def _mask_of_boards(self, mask: Any) -> NDArray[np.bool_]:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(f'options["reset_mask"] must be a bool array of the shape ({self.num_envs},)')
        boards = mask.reshape(-1, self._on_board)
        if (boards != boards[:, :1]).any():
            raise ValueError(
                f'options["reset_mask"] must name whole boards: {self._on_board} neighbouring sub-environments are one board'
            )
        return np.ascontiguousarray(boards[:, 0])

    def _infos(self) -> Info:
        if not self.boards.finished:
            return {}
        ended = (self.boards.terminated | self.boards.truncated).repeat(self._on_board)
        scores = {"scores": np.where(ended[:, None], self._own_scores(), 0), "_scores": ended}
        if self.autoreset_mode != AutoresetMode.SAME_STEP:
            return scores
        assert self.boards.final_observations is not None
        last = self.boards.final_observations.reshape(self.num_envs, *self.single_observation_space.shape)
        final = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            final[i] = last[i].copy()
        return {"final_obs": final, "_final_obs": ended, "final_info": scores, "_final_info": ended.copy()}

    def _own_scores(self) -> NDArray[np.int32]:
        """Points at the end, those of the own team first. Shapes  [num_envs, 2]."""
        if self.boards.acting == TEAM:
            return self.boards.scores.repeat(self._on_board, axis=0)
        both = np.stack([self.boards.scores, self.boards.scores[:, ::-1]], axis=1)
        return both.repeat(self._on_board // 2, axis=1).reshape(self.num_envs, 2)


class TeamVectorEnv(BoardsVectorEnv):
    """Many teams, each a sub-environment.

    With `opponent="none"` both teams of each board are sub-environments, A before B, and `num_envs` is even: self-play.

    Shapes  observations float32 [num_envs, 3, features], actions integers [num_envs, 3], rewards float32 [num_envs], the sum
            of a team's.
    Returns  `info["scores"]` [num_envs, 2] where `info["_scores"]`, at the ends of games: own and other points; with
             autoreset SAME_STEP in `info["final_info"]`.
    Owner    of observations and ends with `copy=False`: the boards. The next call overwrites them.
    """

    _GROUP = TEAM

    @staticmethod
    def _spaces(obs: str) -> tuple[Box, Space[Any]]:
        return team_space(obs), MultiDiscrete([MOVES] * TEAM)

    def _shared_rewards(self) -> NDArray[np.float32]:
        summed: NDArray[np.float32] = self.boards.rewards.reshape(self.num_envs, TEAM).sum(axis=1)
        return summed


class SnakeVectorEnv(BoardsVectorEnv):
    """Many snakes, each a sub-environment; the snakes of a board are neighbours.

    Three to a board, with `opponent="none"` six; `num_envs` must be a multiple of that. They end together. `own_share` w: a
    snake's reward is w times its own and 1 - w times its team's mean.

    Shapes  observations float32 [num_envs, features], actions integers [num_envs], rewards float32 [num_envs].
    Returns  as TeamVectorEnv.
    Owner    as TeamVectorEnv.
    """

    _GROUP = 1

    @staticmethod
    def _spaces(obs: str) -> tuple[Box, Space[Any]]:
        return snake_space(obs), Discrete(MOVES)

    def __init__(
        self,
        num_envs: int = TEAM,
        *,
        own_share: float = 1.0,
        obs: str = "30",
        reward: str = "score",
        opponent: str | Team = "level2",
        episode_length: int = 200,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.own_share = real("own_share", own_share, 0, 1)
        super().__init__(
            num_envs,
            obs=obs,
            reward=reward,
            opponent=opponent,
            episode_length=episode_length,
            autoreset_mode=autoreset_mode,
            copy=copy,
            render_mode=render_mode,
        )

    def _shared_rewards(self) -> NDArray[np.float32]:
        own = self.boards.rewards.reshape(-1, TEAM)
        if self.own_share == 1:
            return own.reshape(-1).copy()
        mean = own.mean(axis=1, keepdims=True)
        shared: NDArray[np.float32] = self.own_share * own + (1 - self.own_share) * mean
        return shared.reshape(-1)
