"""Chooses the module compiled for this machine's processor."""

import importlib
import importlib.util
import os

_LEVELS = ("v2", "v3", "v4")  # of the x86-64 instruction set, ascending


def _is_built(level):
    return importlib.util.find_spec(f"{__package__}._core_{level}") is not None


def _load(level):
    return importlib.import_module(f"{__package__}._core_{level}")


def _choose():
    for alone in ("native", "generic"):  # built for one kind of processor
        if _is_built(alone):
            return _load(alone)
    best = _load("v2").best_level()
    level = os.environ.get("SNAKE_DDP_CPU", "") or best
    if level not in _LEVELS:
        raise ImportError(f"SNAKE_DDP_CPU is {level!r}, not one of: {', '.join(_LEVELS)}")
    if level > best:
        raise ImportError(f"SNAKE_DDP_CPU is {level!r}, but this processor has x86-64-{best} at most")
    return _load(level)


_module = _choose()
level = _module.level
best_level = _module.best_level
Boards = _module.Boards
Team = _module.Team
Error = _module.Error
bounds = _module.bounds
evaluate = _module.evaluate
mirror = _module.mirror
obs_size = _module.obs_size
opponents = _module.opponents
