"""What the weights in a file mean: the record beside them, or what else says it."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import typing
from typing import Any

from . import _core, flags
from .arguments import counted
from .weights import WeightsFile

HEADS = ("softmax", "tanh")
AHEAD, VIEW, WINDOW = "ahead", "view", "window"
OBS_OF_SIZE = {_core.obs_size(obs): obs for obs in ("26", "30", WINDOW, VIEW)}  # "ahead" is as large as "view"
# What a network's values mean if nothing says it: the rewards of configs/champion.json.
REWARDS: dict[str, Any] = {"reward": "score", "rival_reward": 0.5, "reward_scale": 1.0, "gamma": 0.99}
FORMAT = 1
_VALUES = "values"  # the output of a Q-network, which has no activation
_HEAD = "output_activation"
_LEAST_RADIUS = 3
_KEYS = ("obs", "view_radius", "tokens", "hidden_size", "mask_fatal", "reward", "rival_reward", "reward_scale", "gamma")
_SETTINGS = (_HEAD, "obs", "view_radius", "tokens", "reward", "rival_reward", "reward_scale", "gamma")
_MOST_SHOWN = 60


@dataclasses.dataclass(frozen=True)
class Field:
    """The values that the program's flag takes: a type, and for numbers a range, for texts the choices."""

    kind: type
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()


FIELDS = {
    "algo": Field(str, choices=typing.get_args(flags.Flags.__annotations__["algo"])),
    "obs": Field(str, choices=("26", "30", WINDOW, VIEW, AHEAD)),
    "view_radius": Field(int, 0, 10),
    "tokens": Field(str),
    "hidden_size": Field(int, 1, 65536),
    "mask_fatal": Field(bool),
    "reward": Field(str, choices=("2021", "v1_1", "v1_2", "score")),
    "rival_reward": Field(float, 0, 10),
    "reward_scale": Field(float, 1e-6, 1e6),
    "gamma": Field(float, 0, 1),
    _HEAD: Field(str, choices=HEADS),
}


@dataclasses.dataclass(frozen=True)
class ActorRecord:
    """What a network reads, and what its outputs mean; `head` is "" for a Q-network. `values` are all of the file's record."""

    obs: str
    head: str
    tokens: str = ""
    view_radius: int = 0
    reward: str = REWARDS["reward"]
    rival_reward: float = REWARDS["rival_reward"]
    reward_scale: float = REWARDS["reward_scale"]
    gamma: float = REWARDS["gamma"]
    values: dict[str, Any] = dataclasses.field(default_factory=dict)


def _shown(value: Any) -> str:
    text = json.dumps(value).replace("\x7f", "\\u007f")
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


def _checked(flag: str, value: Any, where: str, name: str) -> Any:
    """The value as its flag has it; `name` is what the file calls it."""
    field = FIELDS[flag]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    kinds = {
        bool: (isinstance(value, bool), "true or false"),
        int: (is_number and isinstance(value, int), "a whole number"),
        float: (is_number, "a number"),
        str: (isinstance(value, str) or is_number, "a string"),  # "obs": 30 is as good as "30"
    }
    fits, expected = kinds[field.kind]
    if not fits:
        raise ValueError(f'{where}: "{name}": {_shown(value)} is not {expected}')
    if field.kind in (int, float) and not field.least <= value <= field.most:
        raise ValueError(f"{where}: {name} {_shown(value)}: out of range; allowed: from {_bound(field.least)} to {_bound(field.most)}")
    if field.kind is str:
        value = value if isinstance(value, str) else json.dumps(value)
        if field.choices and value not in field.choices:
            shown = _shown(value)[1:-1]
            raise ValueError(f"{where}: {name} {shown}: not a known value; allowed: {', '.join(field.choices)}")
    return value


def _bound(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def check(given: dict[str, Any], where: str, **names: str) -> dict[str, Any]:
    """`names` are those of flags that the file names otherwise.

    Throws  ValueError for a value that the program's flags do not take.
    """
    for name in sorted(given):
        if given[name] is None:
            raise ValueError(f'{where}: "{name}" is null')
    return {name: _checked(name, given[name], where, names.get(name, name)) for name in sorted(given)}


def refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def finite(number: str) -> float:
    return float(number) if abs(float(number)) < float("inf") else refuse(number)


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        values = json.loads(text, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{where}: not JSON: {e}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{where}: not one JSON object")
    return values


def _contradiction(where: str, record: str, weights: str) -> ValueError:
    return ValueError(f"{where}: it says {record}, but the weights are {weights}; the record is of another file, or of a version that sees something else")


def check_record(values: dict[str, Any], where: str, *, is_q_net: bool, features: int, hidden: int) -> dict[str, Any]:
    """The flags that a record names.

    Throws  ValueError if it is damaged, of a later format, or contradicts the weights.
    """
    for key in ("format", *_KEYS, "learner", "head"):
        if key not in values:
            raise ValueError(f'{where}: "{key}" is missing')
    number = values["format"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f'{where}: "format": {_shown(number)} is not a whole number above 0')
    if number > FORMAT:
        raise ValueError(f"{where}: format {_shown(number)} is of a later version; this one reads {FORMAT}")
    given = {key: values[key] for key in _KEYS}
    if values["learner"] != "":
        given["algo"] = values["learner"]
    if values["head"] != _VALUES:
        given[_HEAD] = values["head"]
    known = check(given, where, output_activation="head", algo="learner")
    if (_HEAD in known) == is_q_net:
        raise _contradiction(where, f'head "{known.get(_HEAD, _VALUES)}"', "a Q-network's" if is_q_net else "an actor's")
    plain, tokens, radius = _core.obs_size(known["obs"]), known["tokens"], known["view_radius"]
    if features <= plain if tokens else features != plain:
        size = counted(features, "feature")
        raise _contradiction(where, f'observation "{known["obs"]}"{" with tokens" if tokens else ""}', f"for {size}")
    if hidden != known["hidden_size"]:
        raise _contradiction(where, f"hidden_size {known['hidden_size']}", f"{hidden} wide")
    if radius and (known["obs"] != WINDOW or radius < _LEAST_RADIUS):
        raise ValueError(f'{where}: view_radius {radius} with observation "{known["obs"]}"')
    return known


def _from_yaml(text: str) -> dict[str, Any]:
    """The Python trainer's config.yaml: "name: value" in each line, or all of them in braces."""
    if text.startswith("{"):
        text = text[1 : text.rfind("}")].replace("\n", " ").replace(",", "\n")
    values: dict[str, Any] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(": ")
        if not colon:
            continue
        value = value.split(" #")[0].strip(" \t\r'\"")
        for kind in (int, float, str):
            try:
                values[name.strip(" \t\r'\"")] = kind(value)
                break
            except ValueError:
                pass
    return values


def _from_settings(path: str) -> dict[str, Any]:
    """The settings of the run that the file belongs to: config.json of the program or config.yaml of the Python trainer, in the file's
    folder or the one above. Empty without one."""
    folder = pathlib.Path(os.path.abspath(path)).parent
    for place in (folder, folder.parent):
        for name in ("config.json", "config.yaml", "config.yml"):
            file = place / name
            if not os.path.exists(file):
                continue
            where = f"{file}, which describes the training of {path}"
            try:
                text = file.read_text(encoding="utf-8")
            except ValueError as e:
                raise ValueError(f"{where}: {e}") from None
            settings = _parsed(text, where) if name.endswith(".json") else _from_yaml(text)
            given = {key: settings[key] for key in _SETTINGS if settings.get(key) is not None}
            if given:  # otherwise it is somebody else's
                return check(given, where)
    return {}


def actor_record(
    file: WeightsFile,
    path: str,
    *,
    is_q_net: bool,
    features: int,
    hidden: int,
    head: str = "",
    obs: str = "",
    any_features: bool = False,
    type_this: str = "{path}:{word}",
) -> ActorRecord:
    """The one rule of what weights mean: `head` and `obs` if they are given, else the file's record, else the settings of its run, in its
    folder or the one above. Rewards that nothing names are those of configs/champion.json. With `any_features` a number of them that no
    observation has gives the observation "". `type_this` is how a user gives a word.

    Throws  ValueError if the record or the settings are damaged, have a value that no flag takes, or contradict the weights; and one that
            says what to type if nothing says an actor's last layer, or which of two observations of one size.
    """

    def ask(what: str, *words: str) -> ValueError:
        typed = " or ".join(type_this.format(path=path, key="head" if words == HEADS else "obs", word=word) for word in words)
        return ValueError(
            f"{path}: nothing says {what}: the file has no record, and no config.json or config.yaml of its run is in its folder or the "
            f"one above; type {typed}"
        )

    if obs and _core.obs_size(obs) != features:
        raise ValueError(f"{path}: {obs} has {counted(_core.obs_size(obs), 'feature')}; this is a network for {features}")
    if head and is_q_net:
        raise ValueError(f"{path}: {head} is an actor's last layer; this file holds a Q-network")
    values: dict[str, Any] = {}
    if file.record:
        where = f"{path}: its record snake_ddp.json"
        values = _parsed(file.record, where)
        known = check_record(values, where, is_q_net=is_q_net, features=features, hidden=hidden)
    else:
        known = _from_settings(path)
    named, tokens, radius = obs or known.get("obs", ""), known.get("tokens", ""), known.get("view_radius", 0)
    if not (tokens and named and _core.obs_size(named) < features):
        tokens = ""
        by_size = OBS_OF_SIZE.get(features)
        if by_size is None and not any_features:
            raise ValueError(
                f"{path}: a network for {counted(features, 'feature')}; this version has 26, 30, 277 (window) and {_core.obs_size(VIEW)} "
                "(view, ahead); one trained with tokens needs its record or its run's config.json"
            )
        if by_size == VIEW and named not in (VIEW, AHEAD):
            raise ask(f"whether this network of {counted(features, 'feature')} sees obs view or ahead", VIEW, AHEAD)
        named = AHEAD if by_size == VIEW and named == AHEAD else by_size or ""
    head = "" if is_q_net else head or known.get(_HEAD, "")
    if not is_q_net and not head:
        raise ask("what this actor's last layer is", *HEADS)
    if named == WINDOW and radius and radius < _LEAST_RADIUS:
        raise ValueError(f'{path}: view_radius {radius} with observation "{named}"')
    rewards = {key: known[key] for key in REWARDS if key in known}
    return ActorRecord(named, head, tokens, radius if named == WINDOW else 0, **rewards, values=values)
