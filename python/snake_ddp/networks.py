"""The program's networks in PyTorch, and their weights from its files."""

from __future__ import annotations

import io
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from snake_ddp._core import mirror
from snake_ddp.actor_record import FORMAT, OBS_OF_SIZE, REWARDS, actor_record, check_record
from snake_ddp.arguments import counted, whole
from snake_ddp.program import MODELS, path_of
from snake_ddp.state import MOVES, TEAM
from snake_ddp.weights import add_record, check_finite, check_fit, matrix, read_file


def softmax(logits: Tensor) -> Tensor:
    return torch.softmax(logits, -1)


def positive_share(logits: Tensor) -> Tensor:
    """Probabilities of an actor with tanh: its negative outputs count as 0."""
    weights = torch.relu(torch.tanh(logits))
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total, torch.full_like(weights, 1 / MOVES))


HEADS = {"softmax": softmax, "tanh": positive_share}


class Network(nn.Module):
    """A network whose `state_dict()` has the names of the program's files.

    `obs` names the features that it reads, "" if no observation has as many; `record` is the record in its file. A network whose
    `obs` is set to "ahead" values other moves than directions: `snake_ddp.turned_moves`.
    """

    def __init__(self, features: int, hidden: int = 1) -> None:
        super().__init__()
        self.features = whole("features", features, 1)
        whole("hidden", hidden, 1, 65536)
        self.obs = OBS_OF_SIZE.get(features, "")
        self.record: dict[str, Any] = {}


class Actor(Network):
    """A DDPG actor: each snake decides by itself. There is no activation after `prev_dense`.

    Shapes  features [..., D]; returns probabilities [..., 4].
    """

    def __init__(self, features: int, hidden: int = 256, head: str = "softmax") -> None:
        super().__init__(features, hidden)
        self.head = checked_head(head)
        self.prev_dense = nn.Sequential(nn.Linear(features, hidden))
        self.post_dense = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, MOVES))

    def logits(self, features: Tensor) -> Tensor:
        values: Tensor = self.post_dense(self.prev_dense(features))
        return values

    def forward(self, features: Tensor) -> Tensor:
        return HEADS[self.head](self.logits(features))


class Critic(Network):
    """A DDPG critic.

    Shapes  features [..., D], actions [..., 4]; returns values [..., 1].
    """

    def __init__(self, features: int, hidden: int = 256, layer_norm: bool = False) -> None:
        super().__init__(features, hidden)
        self.prev_dense = nn.Sequential(nn.Linear(features + MOVES, hidden))
        self.post_norm = nn.LayerNorm(hidden) if layer_norm else None
        self.post_dense = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        hidden = self.post_dense[0](self.prev_dense(torch.cat([features, actions], -1)))
        if self.post_norm is not None:
            hidden = self.post_norm(hidden)
        values: Tensor = self.post_dense[2](torch.relu(hidden))
        return values


class BiCNet(Network):
    """What actor and critic of BiCNet share: an LSTM over the team's three snakes, in both directions."""

    def __init__(self, features: int, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__(features, hidden)
        self.prev_dense = nn.Sequential(nn.Linear(inputs, hidden))
        self.comm_net = nn.ModuleDict({"lstm": nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)})
        self.post_dense = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def outputs(self, inputs: Tensor) -> Tensor:
        team, _ = self.comm_net["lstm"](self.prev_dense(inputs))
        values: Tensor = self.post_dense(team)
        return values


class BiCNetActor(BiCNet):
    """Shapes  features [B, 3, D]; returns probabilities [B, 3, 4]."""

    def __init__(self, features: int, hidden: int = 256, head: str = "softmax") -> None:
        super().__init__(features, features, hidden, MOVES)
        self.head = checked_head(head)

    def logits(self, features: Tensor) -> Tensor:
        return self.outputs(features)

    def forward(self, features: Tensor) -> Tensor:
        return HEADS[self.head](self.logits(features))


class BiCNetCritic(BiCNet):
    """Shapes  features [B, 3, D], actions [B, 3, 4]; returns values [B, 3, 1]."""

    def __init__(self, features: int, hidden: int = 256) -> None:
        super().__init__(features, features + MOVES, hidden, 1)

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        return self.outputs(torch.cat([features, actions], -1))


class QNetwork(Network):
    """The Q-network of DQN, VDN, QMIX and PQN.

    Shapes  features [..., D]; returns values [..., 4].
    """

    def __init__(self, features: int, hidden: int = 256, layer_norm: bool = True) -> None:
        super().__init__(features, hidden)
        self.q_net = nn.ModuleList([nn.Linear(features, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, MOVES)])
        self.norm_0 = nn.LayerNorm(hidden) if layer_norm else None
        self.norm_1 = nn.LayerNorm(hidden) if layer_norm else None

    def forward(self, features: Tensor) -> Tensor:
        hidden = features
        for layer, norm in ((self.q_net[0], self.norm_0), (self.q_net[1], self.norm_1)):
            hidden = layer(hidden)
            hidden = torch.relu(hidden if norm is None else norm(hidden))
        values: Tensor = self.q_net[2](hidden)
        return values


class RecurrentQNetwork(Network):
    """The Q-network of rqmix, which has memory.

    Shapes  features [..., D], memory [..., H], None at a game's start; returns values [..., 4] and the memory for the next step.
    """

    def __init__(self, features: int, hidden: int = 256) -> None:
        super().__init__(features, hidden)
        self.q_net = nn.ModuleList([nn.Linear(features, hidden), nn.Linear(hidden, MOVES)])
        self.gru = nn.GRUCell(hidden, hidden)

    def forward(self, features: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        inputs = torch.relu(self.q_net[0](features))
        rows = inputs.reshape(-1, inputs.shape[-1])
        before = None if memory is None else memory.reshape(rows.shape)
        after = self.gru(rows, before).reshape(inputs.shape)
        return self.q_net[1](after), after


class Mixer(Network):
    """QMIX's mixing network: a team's value from its snakes'. See docs/learners/qmix.md.

    Shapes  values [..., 3] of the chosen moves, features [..., 3, D]; returns [...].
    """

    EMBED = 32

    def __init__(self, features: int) -> None:
        super().__init__(features)
        hyper, value = nn.Module(), nn.Module()
        hyper.weight = nn.Parameter(torch.empty(TEAM * (features + 1), (TEAM + 3) * self.EMBED).uniform_(-0.05, 0.05))
        value.weight = nn.Parameter(torch.empty(self.EMBED).uniform_(-0.05, 0.05))
        value.bias = nn.Parameter(torch.zeros(1))
        self.mixer = nn.ModuleDict({"hyper": hyper, "value": value})

    def forward(self, values: Tensor, features: Tensor) -> Tensor:
        ones = torch.ones_like(features[..., :1])
        made = torch.cat([features, ones], -1).flatten(-2) @ self.get_parameter("mixer.hyper.weight")
        widths = [TEAM * self.EMBED, self.EMBED, self.EMBED, self.EMBED]
        first, bias, second, last = torch.split(made, widths, -1)
        weights = first.abs().reshape(*first.shape[:-1], TEAM, self.EMBED)
        hidden = nn.functional.elu((values.unsqueeze(-1) * weights).sum(-2) + bias)
        value = torch.relu(last) @ self.get_parameter("mixer.value.weight") + self.get_parameter("mixer.value.bias")
        return (hidden * second.abs()).sum(-1) + value


PLAYERS = (Actor, BiCNetActor, QNetwork, RecurrentQNetwork)


def load(path: str | os.PathLike[str], head: str | None = None, obs: str | None = None) -> Network:
    """The network in a file: an actor, a Q-network, a critic or a mixing network of any learner. Of the models in the wheel with the trainer
    the name suffices, such as "champion".

    `head` is an actor's last layer, "softmax" or "tanh"; `obs` the observation, of which "view" and "ahead" have one size. Without them
    the file's record decides, otherwise the settings of its run, in its folder or the one above. A network that was trained with `--tokens` reads tokens after the features of `obs`:
    `record["tokens"]` names their folder. One that was trained with `--obs ahead` values the moves ahead, back, to the left and to
    the right.
    Returns  a Network. `save(network, path)` writes a file that the program plays.
    Throws   OSError if the file cannot be read, ValueError if it is another kind of file, has numbers that are not finite, or its record
             contradicts its weights, and if nothing says what an actor's last layer is.
    """
    path = path_of(MODELS, os.fspath(path))
    file = read_file(path)
    network = like(file.tensors, head or "softmax", path)
    check_fit(file.tensors, {name: tuple(value.shape) for name, value in network.state_dict().items()}, path)
    weights = {name: torch.tensor(array) for name, array in file.tensors.items()}
    network.load_state_dict(weights)
    if head is not None and not isinstance(network, (Actor, BiCNetActor)):
        raise ValueError(f"head {head!r}: {path} is a {type(network).__name__}, which has no such layer")
    if isinstance(network, PLAYERS):
        is_actor = isinstance(network, (Actor, BiCNetActor))
        record = actor_record(
            file, path, is_q_net=not is_actor, features=network.features, hidden=hidden_of(weights), head=head or "",
            obs=obs or "", any_features=True, type_this='networks.load("{path}", {key}="{word}")',
        )  # fmt: skip
        network.record, network.obs = record.values, record.obs
        if is_actor:
            network.head = record.head
    return network


def save(network: Network, path: str | os.PathLike[str]) -> None:
    """Writes a file that the program plays: the weights, as float32, and a record of what the network observes (`network.obs`) and of
    its last layer. `network.record` may have more of the record's keys, such as the rewards that it was trained for; by default they
    are those of configs/champion.json. Of a compiled network it writes the one that was compiled.

    Throws   OSError if the file cannot be written, ValueError if the network does not have as many features as its `obs`, TypeError
             for what plays no moves, such as a critic: for these torch.save(network.state_dict(), path).
    """
    network = getattr(network, "_orig_mod", network)  # torch.compile's wrapper has other names
    if not isinstance(network, PLAYERS):
        raise TypeError(f"a {type(network).__name__}, not one of {', '.join(kind.__name__ for kind in PLAYERS)}")
    head = network.head if isinstance(network, (Actor, BiCNetActor)) else "values"
    weights = {name: value.detach().float().cpu() for name, value in network.state_dict().items()}
    record = {
        "format": FORMAT, "version": "snake_ddp.networks", "learner": "", "obs": network.obs, "view_radius": 0, "tokens": "",
        "mask_fatal": False, **REWARDS, **network.record,
    }  # fmt: skip
    record |= {"obs": network.obs, "head": head, "hidden_size": hidden_of(weights)}
    try:
        check_record(
            record, "its record", is_q_net=head == "values", features=network.features, hidden=record["hidden_size"]
        )
        check_finite({name: value.numpy() for name, value in weights.items()})
    except ValueError as e:
        raise ValueError(f"{path} is not written: {e}") from None
    file = io.BytesIO()  # torch.save has exceptions of its own for a path
    torch.save(weights, file)
    add_record(file, record)
    pathlib.Path(path).write_bytes(file.getvalue())


def mirror_image(tensors: Mapping[str, Tensor], obs: str) -> dict[str, Tensor]:
    """Of the weights of a QNetwork that reads `obs`, or of their gradients: those of the network that makes the mirrored moves on
    mirrored boards (docs/learners/dqn.md#mirror-symmetry).

    Throws  ValueError for an `obs` whose features name cells of the board, and for an odd number of hidden units.
    """
    of, sign, moves = (torch.from_numpy(array) for array in mirror(obs))
    hidden = len(tensors["q_net.0.bias"])
    if not len(moves) or hidden % 2:
        raise ValueError(f"obs {obs!r} and {counted(hidden, 'hidden unit')}: only a view and an even number have a mirror image")
    units = torch.arange(hidden).roll(hidden // 2)
    images = {}
    for name, value in tensors.items():
        image = value[moves if name.startswith("q_net.2.") else units]
        if value.dim() == 2:
            image = image[:, of] * sign if name == "q_net.0.weight" else image[:, units]
        images[name] = image
    return images


def is_symmetric(network: Network) -> bool:
    """Is it its own mirror image, as `--mirror_symmetric` makes it?"""
    if not isinstance(network, QNetwork) or network.record.get("tokens"):
        return False
    weights = network.state_dict()
    try:
        images = mirror_image(weights, network.obs)
    except ValueError:  # has none
        return False
    return all(torch.equal(weights[name], image) for name, image in images.items())


@torch.no_grad()
def symmetrize(tensors: Mapping[str, Tensor], obs: str) -> None:
    """Replaces weights or gradients by the mean of themselves and their image, exactly symmetric.

    Throws  as `mirror_image`.
    """
    for name, image in mirror_image(tensors, obs).items():
        tensors[name].add_(image).div_(2)


def like(weights: dict[str, NDArray[Any]], head: str, path: str) -> Network:
    """An untrained network of the kind and the shape of these weights.

    Throws  ValueError, as the program.
    """
    if "mixer.hyper.weight" in weights:
        return Mixer(len(matrix(weights, "mixer.hyper.weight", path)) // TEAM - 1)
    if any(name.startswith("q_net.") for name in weights):
        hidden, features = matrix(weights, "q_net.0.weight", path).shape
        is_recurrent = "gru.weight_ih" in weights
        matrix(weights, "q_net.1.weight" if is_recurrent else "q_net.2.weight", path)
        return RecurrentQNetwork(features, hidden) if is_recurrent else QNetwork(features, hidden, layer_norm="norm_0.weight" in weights)
    hidden, inputs = matrix(weights, "prev_dense.0.weight", path).shape
    is_critic = "post_dense.2.bias" in weights and weights["post_dense.2.bias"].shape == (1,)
    if any(name.startswith("comm_net.lstm.") for name in weights):
        return BiCNetCritic(inputs - MOVES, hidden) if is_critic else BiCNetActor(inputs, hidden, head)
    return Critic(inputs - MOVES, hidden, "post_norm.weight" in weights) if is_critic else Actor(inputs, hidden, head)


def hidden_of(weights: dict[str, Tensor]) -> int:
    return len(next(iter(weights.values())))


def checked_head(head: str) -> str:
    if head not in HEADS:
        raise ValueError(f"head {head!r}: {' or '.join(HEADS)}")
    return head
