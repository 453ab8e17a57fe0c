"""Many games of snakes 3v3, stepped together."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy
from numpy.typing import NDArray

from . import _core
from .arguments import MOST_BOARDS, counted, seed_of, whole
from .picture import picture_of
from .state import MAX_STEPS, STATE
from .teams import Team

_NOTHING = "none"


class Boards(_core.Boards):
    """`num_boards` games stepped together.

    The caller's team plays against `opponent`: a script (`snake_ddp.opponents()`), several by weight
    ("level2:0.7,territory:0.3"), or a `Team`. With "none" the caller moves all six snakes. With `swap_sides` it
    plays every second game of a board as team B.

    `obs` is "26", "30", "window", "view", "ahead" or "none"; `reward` is "score" (the game's own), "2021", "v1_1" or "v1_2". A game ends
    after 200 steps, or earlier if a snake has no room to respawn; at `episode_length` it is cut off (truncated). `autoreset` decides what happens then:
    "next_step"  the next step starts a new game instead of a move, with reward 0;
    "same_step"  a new game starts at once; the last observation is in `final_observations`;
    "disabled"   nothing: `reset` with a mask starts new games.

    Shapes   observations, final_observations float32 [num_boards, seen, features]; rewards float32 [num_boards, acting];
             terminated, truncated bool [num_boards]; states STATE [num_boards], scores int32 [num_boards, 2] (of the latest game
             that ended on a board: the caller's team, the other), sides uint8 [num_boards] (1 where the caller plays team B), these
             three read-only. All are views, overwritten by each call. acting is 3, or 6 without an opponent; seen is acting, or 6
             with `observe_both`: the caller's team first.
    Threads  the calling one; the GIL is released. One call at a time: RuntimeError otherwise.
    Throws   ValueError for arguments that are out of range or contradict each other.
    """

    observations: NDArray[numpy.float32]
    final_observations: NDArray[numpy.float32] | None
    rewards: NDArray[numpy.float32]
    terminated: NDArray[numpy.bool_]
    truncated: NDArray[numpy.bool_]
    states: NDArray[numpy.void]
    scores: NDArray[numpy.int32]
    sides: NDArray[numpy.uint8]

    def __init__(
        self,
        num_boards: int,
        *,
        obs: str = "30",
        reward: str = "score",
        opponent: str | Team = "level2",
        episode_length: int = 200,
        autoreset: str = "next_step",
        swap_sides: bool = False,
        observe_both: bool = False,
    ) -> None:
        if not isinstance(opponent, (str, Team)):
            raise TypeError(f"opponent is {opponent!r}, neither a name nor a Team")
        super().__init__(
            whole("num_boards", num_boards, 1, MOST_BOARDS),
            obs=obs,
            reward=reward,
            mix=opponent if isinstance(opponent, str) and opponent != _NOTHING else None,
            team=opponent._team if isinstance(opponent, Team) else None,
            episode_length=whole("episode_length", episode_length, 1, MAX_STEPS),
            autoreset=autoreset,
            swap_sides=swap_sides,
            observe_both=observe_both,
        )
        self._arguments: dict[str, Any] = {
            "num_boards": num_boards,
            "obs": obs,
            "reward": reward,
            "opponent": opponent,
            "episode_length": episode_length,
            "autoreset": autoreset,
            "swap_sides": swap_sides,
            "observe_both": observe_both,
        }
        self._seeded = False
        arrays = self._arrays()
        self.observations = arrays["observations"]
        self.final_observations = arrays["final_observations"]
        self.rewards = arrays["rewards"]
        self.terminated = arrays["terminated"]
        self.truncated = arrays["truncated"]
        self.states = arrays["states"].view(STATE)[:, 0]
        self.scores = arrays["scores"]
        self.sides = arrays["sides"]
        # Where the engine writes. The public names may be assigned to, and a caller's array must live as long as it is written.
        self._written = {name: arrays[name] for name in ("observations", "rewards", "terminated", "truncated")}

    def reset(self, seed: int | None = None, mask: NDArray[numpy.bool_] | None = None) -> None:
        """Starts new games, on all boards or where `mask` is True.

        With a seed all boards start over, with the games that the C++ program plays for it. Without one the seed's next games
        follow; the first reset then takes a random seed.

        Shapes   mask bool [num_boards].
        Throws   ValueError for a seed below 0 or of more than 64 bits, for a seed together with a mask, and for a mask before the
                 first reset.
        """
        if seed is not None:
            seed = seed_of("seed", seed)
        if not self._seeded and seed is None:
            if mask is not None:
                raise ValueError("there are no games yet: reset all boards first, without a mask")
            seed = int.from_bytes(os.urandom(8), "little")
        self._deal(seed, mask)
        self._seeded = True

    def image(self, board: int) -> NDArray[numpy.uint8]:
        """A picture of a board: team A blue, team B orange, heads with a white mark, beans green.

        Shapes   returns [160, 320, 3], a new array.
        Throws   as `picture`.
        """
        if not self._seeded:
            raise RuntimeError("there are no games yet: call reset first")
        return picture_of(self.states[self._number_of(board)])

    def picture(self, board: int) -> str:
        return super().picture(self._number_of(board))

    def _number_of(self, board: int) -> int:
        try:
            return whole("board", board, 0, self.num_boards - 1)
        except ValueError:
            raise IndexError(f"there is no board {board}: they are 0 to {self.num_boards - 1}") from None

    def use_buffers(
        self,
        *,
        observations: NDArray[numpy.float32] | None = None,
        rewards: NDArray[numpy.float32] | None = None,
        terminated: NDArray[numpy.bool_] | None = None,
        truncated: NDArray[numpy.bool_] | None = None,
    ) -> None:
        """Writes into the caller's arrays from now on, such as shared memory; `observations` and the others then are views of these.

        Shapes   as many elements as the array has that is replaced, in any shape; C-contiguous, writable.
        Throws   TypeError for another dtype, ValueError for another size or order, for a read-only array, or for one that shares memory
                 with another that is written.
        """
        given = {"observations": observations, "rewards": rewards, "terminated": terminated, "truncated": truncated}
        views = dict(self._written)
        for name, array in given.items():
            current = views[name]
            if array is None:
                continue
            if not isinstance(array, numpy.ndarray) or array.dtype != current.dtype:
                raise TypeError(f"{name}: not a numpy array of dtype {current.dtype}")
            if array.size != current.size or not array.flags.c_contiguous or not array.flags.writeable:
                raise ValueError(f"{name}: not {counted(current.size, 'writable element')} in C order")
            views[name] = array.reshape(current.shape)
        written = [*views.items(), ("final_observations", self._arrays()["final_observations"])]
        for (name, array), (other, others) in itertools.combinations(written, 2):
            if others is not None and numpy.may_share_memory(array, others):
                raise ValueError(f"{name} and {other}: they share memory")
        self._write_to(**views)
        self._written = views
        for name, array in views.items():
            setattr(self, name, array)

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "seeded": self._seeded, "progress": self._progress()}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict) or state.keys() != {"arguments", "seeded", "progress"}:
            raise ValueError("not the state of a batch of boards")
        if not isinstance(state["arguments"], dict) or not isinstance(state["progress"], dict):
            raise ValueError("not the state of a batch of boards")
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self._go_on(state["progress"])
        self._seeded = bool(state["seeded"])

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items() if name != "num_boards")
        return f"Boards({self.num_boards}, {arguments})"
