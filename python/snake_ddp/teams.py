"""Teams, and matches between two of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy
from numpy.typing import ArrayLike, NDArray

from . import _core
from .actor_record import AHEAD, HEADS, REWARDS, VIEW, actor_record
from .arguments import MOST_GAMES, real, seed_of, whole
from .program import MODELS, path_of
from .state import MOVES, STATE
from .weights import check_fit, matrix, read_file

_RANDOM = "random"  # another name of level0
_ARGMAX = "argmax"
_SEARCHES = ("look", "puct")
_Q_NET = "q_net"
_HEADING = 270  # the first of the features of the heading
# Up, down, left, right are 0 to 3. By heading: ahead, back, to the left, to the right.
_TURNED = numpy.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 1, 0], [3, 2, 0, 1]])

Values = Callable[[NDArray[numpy.float32], NDArray[numpy.void]], ArrayLike]


def turned_moves(observations: NDArray[numpy.float32], obs: str) -> NDArray[numpy.int64]:
    """The direction of each move of a network that sees `observations`: with obs "ahead", those ahead, back, to the left and to the
    right; otherwise up, down, left and right.

    Shapes   observations [..., obs_size(obs)]; returns [..., 4]. numpy.take_along_axis(open_moves, turned, -1) are the open moves in
             the network's order, numpy.take_along_axis(turned, moves[..., None], -1)[..., 0] the directions of its moves.
    """
    if obs != AHEAD:
        return numpy.broadcast_to(numpy.arange(MOVES), (*observations.shape[:-1], MOVES))
    return _TURNED[observations[..., _HEADING : _HEADING + MOVES].argmax(-1)]


class Team:
    """A team: a script, or a trained network.

    `spec` is as on the command line: "random", a name of `snake_ddp.opponents()`, the path of a weights file (.pth) or the name of a model
    in the wheel with the trainer, such as "champion", or for a
    Q-network PATH:look4, PATH:puct400 or PATH:puct@5ms with a search. PATH:softmax, PATH:tanh, PATH:view or PATH:ahead, before these, say
    of a file without a record what nothing beside it says. A Q-network makes the best move that is not certain death. An
    actor's moves are sampled, with PATH:argmax it makes the most probable one; `mask_fatal` keeps it from certain death, too.
    Threads may share a team.

    Throws   ValueError for a spec that is none of these, for a file that is damaged, and for a network that plays only in the C++
             program: with memory, communication or tokens. OSError for a file that cannot be read.
    """

    spec: str
    obs: str | None
    """Which features the network reads; None for a script, which sees boards."""

    def __init__(self, spec: str | os.PathLike[str], *, mask_fatal: bool = False) -> None:
        self.spec = os.fspath(spec)
        self.mask_fatal = mask_fatal
        self.obs = None
        name = "level0" if self.spec == _RANDOM else self.spec
        if name in _core.opponents():
            self._made: tuple[str, dict[str, Any]] = ("scripted", {"name": name})
        else:
            path = path_of(MODELS, self.spec)
            self._made = _network(path, _split(path), mask_fatal)
            self.obs = self._made[1]["obs"]
        self._team = _made_team(self._made)

    @classmethod
    def of_values(
        cls,
        values: Values,
        search: str | None = None,
        *,
        obs: str = AHEAD,
        rival_reward: float = REWARDS["rival_reward"],
        reward_scale: float = REWARDS["reward_scale"],
        gamma: float = REWARDS["gamma"],
    ) -> Team:
        """A team that plays by values of your own, such as a PyTorch module's: the best open moves, or with `search`, such as
        "look4" or "puct100", those that the search finds with them.

        values(observations, states) returns what the moves of each board's six snakes are worth to their teams, in the order of
        `turned_moves`. It must depend on each board alone. `rival_reward`, `reward_scale` and `gamma` say what the values are (docs/learners/search.md).

        Shapes   observations float32 [n, 6, obs_size(obs)], team A's snakes first, each as its own team sees it; states STATE [n],
                 of running boards. Both are the callee's. values returns [n, 6, 4].
        Threads  values is called on the thread that asks the team for moves.
        Throws   ValueError for arguments that are none of these; when the team moves, what values throws, and ValueError for another shape
                 and for numbers that are not finite.
        """
        training = {"rival_reward": rival_reward, "reward_scale": reward_scale, "gamma": gamma}
        if not callable(values):
            raise TypeError(f"values is {values!r}, not a function")
        real("rival_reward", rival_reward, 0, 10), real("reward_scale", reward_scale, 1e-6, 1e6), real("gamma", gamma, 0, 1)
        team = cls.__new__(cls)
        team.spec, team.mask_fatal, team.obs = "values" + (f":{search}" if search else ""), False, obs
        team._made = ("values", {"values": values, "search": search, "obs": obs, **training})
        team._team = _made_team(team._made)
        return team

    def moves(
        self, observations: NDArray[numpy.float32], open_moves: NDArray[numpy.bool_], seed: int = 0
    ) -> NDArray[numpy.uint8]:
        """The moves of a network that sees `observations`. `seed` is that of the draws of an actor; use another one for each step.

        Shapes   observations float32 [n, 3, obs_size(obs)], open_moves bool [n, 3, 4] as `Boards.open_moves` has them; returns [n, 3].
        Throws   TypeError for another dtype; ValueError for another shape or order, and for a script or a search.
        """
        return self._team.moves(observations, open_moves, seed_of("seed", seed))

    def moves_on(
        self, states: NDArray[numpy.void], side: int = 0, seed: int = 0, first_game: int = 0
    ) -> NDArray[numpy.uint8]:
        """The moves of the team, 0 (A) or 1 (B), on boards whose games are running; 0 on others. As in a match with that seed, where
        these are the games from number `first_game` on.

        Shapes   states STATE [n], as `Boards.states`; returns [n, 3]. A network reads the lead from their `returns`, of which only the
                 range is checked: on a running board a team's are its lengths minus 9.
        Throws   TypeError for another dtype, ValueError for bytes that are not a board.
        """
        if not isinstance(states, numpy.ndarray) or states.dtype.names != STATE.names:
            raise TypeError("states: not an array of dtype snake_ddp.STATE")
        if states.ndim != 1:
            raise ValueError(f"states: shape is {states.shape}, not (n,)")
        # numpy drops the gaps of the layout where it puts arrays together.
        raw = numpy.ascontiguousarray(states, STATE).view(numpy.uint8).reshape(len(states), STATE.itemsize)
        side, seed, first_game = whole("side", side, 0, 1), seed_of("seed", seed), whole("first_game", first_game, 0, MOST_GAMES)
        return _core.Team.moves_on(self._team, raw, side, seed, first_game)

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "mask_fatal": self.mask_fatal, "made": self._made}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict) or state.keys() != {"spec", "mask_fatal", "made"}:
            raise ValueError("not the state of a team")
        self.spec, self.mask_fatal, self._made = state["spec"], state["mask_fatal"], state["made"]
        self.obs = self._made[1].get("obs")
        self._team = _made_team(self._made)

    def __repr__(self) -> str:
        return f"Team({self.spec!r}{', mask_fatal=True' if self.mask_fatal else ''})"


@dataclasses.dataclass(frozen=True)
class Match:
    """The result of a match, as `snake_ddp eval --json` reports it, for team a."""

    games: int
    wins: int
    draws: int
    losses: int
    win_rate: float
    win_rate_ci95: tuple[float, float]
    score_a: float
    score_b: float
    steps_per_second: float


def evaluate(
    team_a: str | Team, team_b: str | Team, games: int = 200, seed: int = 1, swap_sides: bool = True
) -> Match:
    """Plays `games` games; game k depends only on the seed and k. With `swap_sides` team a plays every second game as team B.

    The games are those of `snake_ddp eval`. A network's last bits depend on the processor, so another machine may play other games.

    Threads  the calling one; the GIL is released.
    Throws   as Team; ValueError for numbers that are out of range.
    """
    a, b = (team if isinstance(team, Team) else Team(team) for team in (team_a, team_b))
    games, seed = whole("games", games, 1, MOST_GAMES), seed_of("seed", seed)
    return Match(**_core.evaluate(a._team, b._team, games, seed, swap_sides))


def _made_team(made: tuple[str, dict[str, Any]]) -> _core.Team:
    makers: dict[str, Callable[..., _core.Team]] = {
        "scripted": _core.Team.scripted,
        "q_network": _core.Team.q_network,
        "actor": _core.Team.actor,
        "values": lambda values, **training: _core.Team.of_values(_checked(values), **training),
    }
    kind, arguments = made
    return makers[kind](**arguments)


def _checked(values: Values) -> Callable[[NDArray[numpy.float32], NDArray[numpy.uint8]], NDArray[numpy.float32]]:
    def checked(observations: NDArray[numpy.float32], states: NDArray[numpy.uint8]) -> NDArray[numpy.float32]:
        got = numpy.ascontiguousarray(values(observations, states.view(STATE)[:, 0]), numpy.float32)
        if got.shape != (*observations.shape[:2], MOVES):
            raise ValueError(f"values returned shape {got.shape}, not {(*observations.shape[:2], MOVES)}")
        if not numpy.isfinite(got).all():
            raise ValueError("values returned numbers that are not finite")
        return got

    return checked


@dataclasses.dataclass
class _FileSpec:
    """A path and the words after it: what its weights mean, and how to play with it."""

    path: str
    mode: str = ""
    head: str = ""
    obs: str = ""


def _split(spec: str) -> _FileSpec:
    """A file may have colons in its name."""
    file = _FileSpec(spec)
    while True:
        path, colon, word = file.path.rpartition(":")
        if not colon or "/" in word or os.path.exists(file.path):
            return file
        if word in HEADS:
            file.head = word
        elif word in (VIEW, AHEAD):
            file.obs = word
        elif not file.mode and not file.head and not file.obs:
            file.mode = word
        else:
            return file
        file.path = path


def _network(spec: str, of: _FileSpec, mask_fatal: bool) -> tuple[str, dict[str, Any]]:
    path, mode = of.path, of.mode
    if mode and mode != _ARGMAX and not mode.startswith(_SEARCHES):
        raise ValueError(
            f'team "{spec}": unknown search "{mode}". After a file\'s name there may be :argmax, or a search such as :look4 or :puct100. '
            "Before it, for a file without a record: softmax, tanh, view or ahead"
        )
    if not os.path.exists(path) and "/" not in path and not path.endswith(".pth"):
        known = ", ".join([_RANDOM, *_core.opponents()])
        raise ValueError(f'team "{spec}": neither a script ({known}) nor a file')
    file = read_file(path)
    tensors = file.tensors
    is_q_net = any(name.startswith(f"{_Q_NET}.") for name in tensors)
    for part, kind in (("gru.", "has memory (rqmix)"), ("comm_net.", "communicates (BiCNet)")):
        if any(part in name for name in tensors):
            raise ValueError(f"{path}: this network {kind}; such teams play only in the C++ program")
    if "post_dense.2.bias" in tensors and tensors["post_dense.2.bias"].shape == (1,):
        raise ValueError(f"{path} is a critic, not an actor: give the actor_*.pth beside it")
    hidden, features = matrix(tensors, f"{_Q_NET}.0.weight" if is_q_net else "prev_dense.0.weight", path).shape
    if is_q_net:
        matrix(tensors, f"{_Q_NET}.2.weight", path)
    record = actor_record(
        file, path, is_q_net=is_q_net, features=features, hidden=hidden, head=of.head, obs=of.obs
    )
    if record.tokens:
        raise ValueError(f"{path}: this network reads tokens; such teams play only in the C++ program")
    if not is_q_net:
        if mode.startswith(_SEARCHES):
            raise ValueError(
                f'team "{spec}": search needs a Q-network, which values moves; this file holds an actor, which has only '
                "probabilities of moves"
            )
        check_fit(
            tensors,
            {
                "prev_dense.0.weight": (hidden, features), "prev_dense.0.bias": (hidden,), "post_dense.0.weight": (hidden, hidden),
                "post_dense.0.bias": (hidden,), "post_dense.2.weight": (MOVES, hidden), "post_dense.2.bias": (MOVES,),
            },
            path,
        )  # fmt: skip
        take = {name: numpy.ascontiguousarray(tensor, numpy.float32) for name, tensor in tensors.items()}
        arguments: dict[str, Any] = {
            "obs": record.obs,
            "view_radius": record.view_radius,
            "head": record.head,
            "prev": numpy.vstack([take["prev_dense.0.weight"].T, take["prev_dense.0.bias"]]),
            "post0_weight": numpy.ascontiguousarray(take["post_dense.0.weight"].T),
            "post0_bias": take["post_dense.0.bias"],
            "post2_weight": take["post_dense.2.weight"],
            "post2_bias": take["post_dense.2.bias"],
            "argmax": mode == _ARGMAX,
            "mask_fatal": mask_fatal,
        }
        return "actor", arguments
    if mode.startswith(_SEARCHES) and record.reward != "score":
        raise ValueError(
            f'team "{spec}": search adds points to the network\'s values, but this one was trained for the reward {record.reward}; '
            "it needs one trained for score"
        )
    norms = range(2) if "norm_0.weight" in tensors else range(0)
    layers = [(hidden, features), (hidden, hidden), (MOVES, hidden)]
    shapes: dict[str, tuple[int, ...]] = {}
    for k, layer in enumerate(layers):
        shapes |= {f"{_Q_NET}.{k}.weight": layer, f"{_Q_NET}.{k}.bias": layer[:1]}
        shapes |= {f"norm_{k}.{name}": (hidden,) for name in ("weight", "bias") if k in norms}
    check_fit(tensors, shapes, path)
    take = {name: numpy.ascontiguousarray(tensor, numpy.float32) for name, tensor in tensors.items()}
    weights = [take[f"{_Q_NET}.{k}.weight"] for k in range(len(layers))]
    arguments = {
        "obs": record.obs,
        "view_radius": record.view_radius,
        "weights": [numpy.ascontiguousarray(weights[0].T), numpy.ascontiguousarray(weights[1].T), weights[2]],
        "biases": [take[f"{_Q_NET}.{k}.bias"] for k in range(len(layers))],
        "gains": [take[f"norm_{k}.weight"] for k in norms],
        "shifts": [take[f"norm_{k}.bias"] for k in norms],
        "hidden": hidden,
        "search": mode if mode.startswith(_SEARCHES) else None,
        "rival_reward": record.rival_reward,
        "reward_scale": record.reward_scale,
        "gamma": record.gamma,
    }
    return "q_network", arguments
