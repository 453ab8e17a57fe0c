"""The program's replay page, in a notebook."""

from __future__ import annotations

import gzip
import html
import json
import os
import zlib
from collections.abc import Iterator
from importlib import resources
from typing import Any

from snake_ddp.state import COLUMNS, ROWS, START_LENGTH, TEAM

DIRECTIONS = ("up", "down", "left", "right")
UNKNOWN = -1  # an action or direction that the log does not contain
PLACE = '<script type="application/json" id="game">'


class Replay:
    """A recorded game. A notebook shows it as a page with a slider and buttons; `page` is that page, one HTML file."""

    def __init__(self, page: str) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        # In its own frame, so that the page's style and script do not affect the notebook.
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" sandbox="allow-scripts" width="100%" height="900" '
            'style="border: 0"></iframe>'
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.page)


def replay(log: str | os.PathLike[str] | dict[str, Any], game: int = 0) -> Replay:
    """Shows a recorded game, as `snake_ddp replay --html` does.

    `log` is a file of `eval --record` or of the platform, plain or gzip, or its content; `game` counts the file's games from 0.
    Throws  ValueError if there is no such game, or it is not a log.
    """
    file = ""
    if not isinstance(log, dict):
        file, games = os.fspath(log), list(games_in(log))
        if not 0 <= game < len(games):
            raise ValueError(f"{log}: it has {len(games)} game(s), counted from 0, and no game {game}")
        log = games[game]
    try:
        data = page_data(log, file, game)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"not a game log: {type(error).__name__}: {error}; docs/formats.md has the format") from error
    template = resources.files("snake_ddp").joinpath("replay_page.html").read_text(encoding="utf-8")
    return Replay(template.replace(f"{PLACE}null", PLACE + embedded(data), 1))


def games_in(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The logs in a file, one or more."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: a damaged gzip file: {error}") from error
    text, at = content.decode("utf-8", errors="replace"), 0
    decoder = json.JSONDecoder()
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{path}: not a game log: {error}") from error
        if not isinstance(value, dict):
            raise ValueError(f"{path}: not a game log, but a {type(value).__name__}")
        yield value


def embedded(data: dict[str, Any]) -> str:
    """JSON in plain ASCII, without the characters that are special in HTML, which occur only in strings."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(log: dict[str, Any], file: str, game: int) -> dict[str, Any]:
    """What the page's script reads: boards as numbers of cells; each step's actions, rewards, deaths and explanations."""
    if log.get("game_name") != "snakes_3v3":
        raise KeyError("game_name is not snakes_3v3")
    steps = log["steps"]
    directions = [numbers(step["info_before"]["directions"]) for step in steps]
    boards = [board(log["init_info"], numbers(log["init_info"]["directions"]))]
    for k, step in enumerate(steps):
        after = step["info_after"]
        shown = directions[k + 1] if k + 1 < len(steps) else last_directions(after)
        boards.append(board(after, shown))
    return {
        "rows": ROWS,
        "columns": COLUMNS,
        "start_length": START_LENGTH,
        "names": log.get("names", ["team A", "team B"]),
        "start_time": log.get("start_time") or "",
        "end_time": log.get("end_time") or "",
        "truncated": log.get("truncated", False),
        "file": file,
        "number": game,
        "boards": boards,
        "steps": [
            [actions(step), as_list(step["reward"]), step["info_after"]["hit"]]
            + ([step["explanation"]] if "explanation" in step else [])
            for step in steps
        ],
    }


def board(info: dict[str, Any], directions: list[int]) -> list[Any]:
    return [[cells(snake) for snake in info["snakes_position"]], cells(info["beans_position"]), directions]


def cells(places: list[list[int]]) -> list[int]:
    return [COLUMNS * row + column for row, column in places]


def numbers(words: list[str]) -> list[int]:
    return [DIRECTIONS.index(word) for word in words]


def as_list(value: Any) -> list[Any]:
    """Old logs have lists as texts that hold JSON."""
    found = json.loads(value) if isinstance(value, str) else value
    return list(found)


def actions(step: dict[str, Any]) -> list[int]:
    if "joint_action" not in step:  # the reference's run_log.py omits it
        return [UNKNOWN] * 2 * TEAM
    return [choice[0].index(1) for choice in as_list(step["joint_action"])]


def last_directions(info: dict[str, Any]) -> list[int]:
    """The log lacks them; the bodies of living snakes show theirs."""
    return [
        UNKNOWN if died else heading(body) for body, died in zip(info["snakes_position"], info["hit"], strict=True)
    ]


def heading(body: list[list[int]]) -> int:
    """From the second cell to the head, on the torus."""
    if len(body) < 2:
        return UNKNOWN
    (row, column), (from_row, from_column) = body[:2]
    step = (row - from_row) % ROWS, (column - from_column) % COLUMNS
    ways = {(ROWS - 1, 0): 0, (1, 0): 1, (0, COLUMNS - 1): 2, (0, 1): 3}
    return ways.get(step, UNKNOWN)
