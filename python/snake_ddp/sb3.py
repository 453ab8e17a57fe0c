"""Stable-Baselines3's VecEnv over boards that are stepped together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, tile_images

from snake_ddp.envs import BoardsVectorEnv, SnakeVectorEnv, TeamVectorEnv

FACES: dict[str, type[BoardsVectorEnv]] = {"snake": SnakeVectorEnv, "team": TeamVectorEnv}


class SnakesVecEnv(VecEnv):
    """`num_envs` snakes or teams for Stable-Baselines3.

    Snakes have `Discrete` actions, which every algorithm takes; teams have `MultiDiscrete` ones. Keyword arguments as
    SnakeVectorEnv and TeamVectorEnv. `env_method("action_masks")` serves sb3-contrib's MaskablePPO.

    Returns  at ends `infos[i]["terminal_observation"]`, `["TimeLimit.truncated"]` and `["scores"]`.
    """

    def __init__(self, num_envs: int, *, per: Literal["snake", "team"] = "snake", **settings: Any) -> None:
        if per not in FACES:
            raise ValueError(f'per {per!r}: "snake" or "team"')
        self.vector = FACES[per](num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **settings)
        self._actions: Any = None
        super().__init__(self.vector.num_envs, self.vector.single_observation_space, self.vector.single_action_space)
        self.metadata["render_fps"] = self.vector.metadata["render_fps"]

    def reset(self) -> VecEnvObs:
        observations, _ = self.vector.reset(seed=self._seeds[0], options=self._options[0])
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminated, truncated, info = self.vector.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if info:
            for i in np.flatnonzero(info["_final_obs"]):
                infos[i] = {
                    "terminal_observation": info["final_obs"][i],
                    "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
                    "scores": info["final_info"]["scores"][i],
                }
        return observations, rewards, terminated | truncated, infos

    def close(self) -> None:
        self.vector.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        value = self.action_masks if attr_name == "action_masks" else getattr(self.vector, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        if len(list(self._get_indices(indices))) != self.num_envs:
            raise ValueError(f"{attr_name}: these environments share one object; set it for all of them")
        setattr(self.vector, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any) -> list[Any]:
        if method_name not in ("action_masks", "render"):
            raise AttributeError(f"{method_name}: these environments share one object; call it on .vector")
        each = self.action_masks() if method_name == "action_masks" else self._frames()
        return [each[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def render(self, mode: str | None = None) -> Any:
        """Each board once: "rgb_array" returns one picture of them all, "ansi" their texts."""
        if self.render_mode is None or mode not in (None, self.render_mode):
            return super().render(mode)
        boards = self._frames()[:: self.num_envs // self.vector.boards.num_boards]
        return tile_images(boards) if self.render_mode == "rgb_array" else boards

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        return self._frames() if self.render_mode == "rgb_array" else [None] * self.num_envs

    def _frames(self) -> list[Any]:
        """One for each environment."""
        return list(self.vector.render() or [None] * self.num_envs)

    def action_masks(self) -> NDArray[np.bool_]:
        """Shapes  [num_envs, 4] for snakes, [num_envs, 12] for teams."""
        return self.vector.open_moves().reshape(self.num_envs, -1)

    def _get_indices(self, indices: VecEnvIndices) -> Iterable[int]:
        return super()._get_indices(indices)
