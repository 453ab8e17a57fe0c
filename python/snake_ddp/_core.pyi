"""The compiled part of snake_ddp."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy
import numpy.typing
from numpy.typing import NDArray


def level() -> str:
    """The level of the instruction set that this module is compiled for."""

def best_level() -> str:
    """The highest level of the instruction set that this machine has."""

class Error(Exception):
    """A bug in snake_ddp: please report it."""

def opponents() -> list[str]:
    """The names of the scripted opponents."""

def obs_size(obs: str) -> int:
    """
    How many features a snake sees: "26", "30", "window", "view", "ahead".

    Throws  ValueError for another name.
    """

def bounds(obs: str) -> tuple[numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]]:
    """
    The least and the greatest value of each feature.

    Throws  ValueError for an unknown name.
    """

def mirror(obs: str) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.int64]]:
    """
    Features and moves on a mirrored board, (of, signs, moves): signs[k] times feature of[k], and move moves[k].
    Empty if features name cells of the board.

    Throws  ValueError for another name.
    """

class Team:
    """A team: snake_ddp.Team makes these."""

    @staticmethod
    def scripted(name: str) -> Team: ...

    @staticmethod
    def q_network(obs: str, view_radius: int, weights: Sequence[Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]], biases: Sequence[Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]], gains: Sequence[Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]], shifts: Sequence[Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]], hidden: int, search: str | None, rival_reward: float, reward_scale: float, gamma: float) -> Team: ...

    @staticmethod
    def actor(obs: str, view_radius: int, head: str, prev: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], post0_weight: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], post0_bias: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], post2_weight: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], post2_bias: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], argmax: bool, mask_fatal: bool) -> Team: ...

    @staticmethod
    def of_values(values: Callable, search: str | None, obs: str, rival_reward: float, reward_scale: float, gamma: float) -> Team: ...

    def moves(self, observations: numpy.typing.NDArray[numpy.float32], open_moves: numpy.typing.NDArray[numpy.bool_], seed: int) -> numpy.typing.NDArray[numpy.uint8]: ...

    @staticmethod
    def moves_on(team: Team, states: numpy.typing.NDArray[numpy.uint8], side: int, seed: int, first_game: int) -> numpy.typing.NDArray[numpy.uint8]: ...

def evaluate(team_a: Team, team_b: Team, games: int, seed: int, swap_sides: bool) -> dict[str, Any]:
    """Plays a match: snake_ddp.evaluate wraps it."""

class Boards:
    """The base of snake_ddp.Boards."""

    def __init__(self, num_boards: int, obs: str, reward: str, mix: str | None, team: Team | None, episode_length: int, autoreset: str, swap_sides: bool, observe_both: bool) -> None: ...

    @property
    def num_boards(self) -> int:
        """Number of boards."""

    @property
    def acting(self) -> int:
        """Snakes that the caller moves: 3, or 6 without an opponent."""

    @property
    def seen(self) -> int:
        """Snakes whose observations are written: 3 or 6."""

    @property
    def features(self) -> int:
        """Features of an observation."""

    @property
    def finished(self) -> int:
        """How many games ended in the latest step."""

    def step(self, actions: numpy.typing.NDArray[numpy.uint8] | numpy.typing.NDArray[numpy.int32] | numpy.typing.NDArray[numpy.int64]) -> None:
        """
        Moves on every board.

        Shapes   actions [num_boards, acting], C-contiguous, each 0 up, 1 down, 2 left, 3 right.
        Threads  the calling one, without the GIL.
        Throws   TypeError for another dtype; ValueError for another shape or order, for an action outside 0..3, and
                 with autoreset "disabled" for a board whose game has ended: then no board has moved. RuntimeError
                 before the first reset and while another thread is using the batch.
        """

    def open_moves(self) -> numpy.typing.NDArray[numpy.bool_]:
        """
        The moves that are not certain death; all four if each one is.

        Shapes   returns [num_boards, acting, 4], a new array.
        """

    def picture(self, board: int) -> str:
        """
        A board as text: `o` beans, `A` to `F` heads, arrows towards the head.

        Throws   IndexError if there is no such board.
        """

    def hash(self) -> int:
        """A fingerprint of all boards: equal for equal boards, on every machine."""

    def _deal(self, seed: int | None, mask: numpy.typing.NDArray[numpy.bool_] | None) -> None: ...

    def _write_to(self, observations: numpy.typing.NDArray[numpy.float32], rewards: numpy.typing.NDArray[numpy.float32], terminated: numpy.typing.NDArray[numpy.bool_], truncated: numpy.typing.NDArray[numpy.bool_]) -> None: ...

    def _progress(self) -> dict[str, Any]: ...

    def _go_on(self, progress: dict[str, Any]) -> None: ...

    def _arrays(self) -> dict[str, Any]: ...
