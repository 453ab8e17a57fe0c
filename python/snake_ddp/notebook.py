"""The program's pages, in a notebook."""

from __future__ import annotations

import html
import json
import os
import warnings
import zlib
from collections.abc import Iterator
from importlib import resources
from typing import Any

from snake_ddp.actor_record import finite, refuse
from snake_ddp.arguments import counted
from snake_ddp.state import COLUMNS, ROWS, START_LENGTH, TEAM

DIRECTIONS = ("up", "down", "left", "right")
NAME_FIELDS = ("names", "player", "players", "player_names", "teams", "team_names", "agents", "users")
NAMES_INSIDE = ("name", "username", "user_name", "nickname", "agent_name")
SNAKES = 2 * TEAM
BEANS = 5
MOST_DEPTH, MOST_STEPS = 32, 10_000  # of brackets, of a game: as in the program
UNKNOWN = -1  # an action or direction that the log does not contain
PLACE = '<script type="application/json" id="game">'


def unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Throws  ValueError for a key that is there twice, of whose values other readers may take the other."""
    found = dict(members)
    if len(found) < len(members):
        keys = [key for key, _ in members]
        raise ValueError(f'key "{next(key for key in keys if keys.count(key) > 1)}" is there twice')
    return found


def integer(number: str) -> int | float:
    """Beyond 64 bits a float, as in the program."""
    value = int(number) if len(number) <= 20 else finite(number)
    return value if -(2**63) <= value < 2**64 else float(value)


DECODER = json.JSONDecoder(parse_constant=refuse, parse_float=finite, parse_int=integer, object_pairs_hook=unique)


class Page:
    """A page of the program, which a notebook shows; `page` is its text, one HTML file."""

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


class Replay(Page):
    """A recorded game: a page with a slider and buttons."""


def replay(log: str | os.PathLike[str] | dict[str, Any] | list[Any], game: int | None = None) -> Replay:
    """Shows a recorded game, as `snake_ddp replay --html` does.

    `log` is a file of `eval --record` or of the platform, plain or gzip, or its content; `game` counts the file's games from 0.
    Without it the first is shown; a warning says if there are more.
    Throws  ValueError if there is no such game, or it is not a log.
    """
    file = "" if isinstance(log, (dict, list)) else os.fspath(log)
    games = list(games_in(log) if isinstance(log, (dict, list)) else games_in_file(log))
    title = file or "this log"
    number = 0 if game is None else game
    if not games and game is None:
        raise ValueError(f"{title}: not a game log, nor an object or a list with one inside{reason_in(log)}")
    if not 0 <= number < len(games):
        raise ValueError(f"{title}: it has {counted(len(games), 'game')}, counted from 0, and no game {number}")
    if game is None and len(games) > 1:
        warnings.warn(f"{title} has {counted(len(games), 'game')}: this is the first; game=N shows another, 0 to {len(games) - 1}", stacklevel=2)
    try:
        data = page_data(games[number], file, number)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"{title}: not a game log: {type(error).__name__}: {error}; docs/reference/formats.md has the format") from error
    template = resources.files("snake_ddp").joinpath("replay_page.html").read_text(encoding="utf-8")
    return Replay(template.replace(f"{PLACE}null", PLACE + embedded(data), 1))


def games_in_file(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The logs in a file: on lines, one after the other, in lists, inside of a service's answer."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        text, at = unpacked(content).decode("utf-8-sig"), 0
    except (zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: damaged, or not a game log: {error}") from error
    found = 0
    while at < len(text):
        if text[at] in " \t\r\n,":
            at += 1
            continue
        line = text.count("\n", 0, at) + 1
        try:
            value, at = DECODER.raw_decode(text, at)
            check(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{line}: not a game log: {error}") from error
        for part in value if isinstance(value, list) else [value]:
            before = found
            for log in () if isinstance(part, str) else games_in(part):
                found += 1
                yield log
            if found == before and part != []:
                raise ValueError(f"{path}:{line}: not a game log, nor an object or a list with one inside{reason_in(part)}")
    if found == 0:
        raise ValueError(f"{path}: no game in this file")


def unpacked(content: bytes) -> bytes:
    """Of a gzip file its parts, without what may follow them, as gzip itself."""
    parts = [content] if content[:2] != b"\x1f\x8b" else []
    while content[:2] == b"\x1f\x8b":
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        parts.append(inflater.decompress(content))
        if not inflater.eof:
            raise zlib.error("the gzip file is truncated")
        content = inflater.unused_data
    return b"".join(parts)


def check(value: Any, depth: int = 1) -> None:
    """Throws  ValueError for JSON that the program does not read: nested too deeply, or texts that are no UTF-8 or end early elsewhere."""
    if isinstance(value, str):
        value.encode()
        if "\0" in value:
            raise ValueError("a text in it has a NUL character (\\u0000)")
    elif isinstance(value, (dict, list)):
        if depth > MOST_DEPTH:
            raise ValueError(f"brackets more than {MOST_DEPTH} deep")
        for part in value:  # keys of a dict
            check(part, depth + 1)
        if isinstance(value, dict):
            for part in value.values():
                check(part, depth + 1)


def games_in(value: Any) -> Iterator[dict[str, Any]]:
    """The logs in a JSON value, whatever objects, lists and texts that hold JSON are around them."""
    if isinstance(value, str):
        value = unwrapped(value)
    if isinstance(value, dict):
        if "init_info" in value or isinstance(value.get("steps"), (list, str)):
            yield value
            return
        found = [log for part in value.values() for log in games_in(part)]
        yield from found or ([value] if "game_name" in value else [])  # one that says what is missing
    elif isinstance(value, list):
        for part in value:
            yield from games_in(part)


def reason_in(answer: Any) -> str:
    """What an answer without a game says."""
    if isinstance(answer, dict):
        for field in ("message", "msg", "error", "detail"):
            if answer.get(field) is not None:
                return f"; its {field} is {json.dumps(answer[field])[:60]}"
    return ""


def unwrapped(value: Any) -> Any:
    """Old logs and databases have lists and objects as texts that hold JSON."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            inside = DECODER.decode(value)
            check(inside)
            return inside
        except (ValueError, RecursionError):
            return value
    return value


def members(value: Any) -> Any:
    """An object's, whichever of them are texts.

    Throws  ValueError for a text that only begins like a list or an object.
    """
    if not isinstance(value, dict):
        return value
    found = {field: unwrapped(part) for field, part in value.items()}
    for field, part in found.items():
        if isinstance(part, str) and part[:1] in ("[", "{"):
            raise ValueError(f"{field} is neither a list nor an object")
    return found


def embedded(data: dict[str, Any]) -> str:
    """JSON in plain ASCII, without the characters that are special in HTML, which occur only in strings."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(log: dict[str, Any], file: str, game: int) -> dict[str, Any]:
    """What the page's script reads: boards as numbers of cells; each step's actions, rewards, deaths and explanations."""
    if log.get("game_name") != "snakes_3v3":
        raise KeyError("game_name is not snakes_3v3")
    for field, only in (("n_player", SNAKES), ("board_height", ROWS), ("board_width", COLUMNS)):
        if log[field] not in (only, str(only)):
            raise ValueError(f"{field} is {log[field]!r}, not {only}")
    log = members(log)
    init = members(log["init_info"])
    steps = [
        {field: members(value) if field in ("info_before", "info_after") else value for field, value in members(step).items()}
        for step in some(log["steps"], 0, MOST_STEPS, "steps")
    ]
    boards = [board(init, numbers(init["directions"]))]
    if len(boards[0][1]) != BEANS or any(len(body) != START_LENGTH for body in boards[0][0]):
        raise ValueError(f"not the start of a game: it has {BEANS} beans and snakes of {START_LENGTH} cells")
    for k, step in enumerate(steps):
        six(step["info_after"], "hit", 0, 1)
        if step["info_after"].get("score") is not None:
            six(step["info_after"], "score", -START_LENGTH, ROWS * COLUMNS)
        if k == 0 and step.get("info_before") is not None and numbers(step["info_before"]["directions"]) != boards[0][2]:
            raise ValueError("info_before of the first step has other directions than init_info")
        boards.append(board(step["info_after"], directions_after(steps, k)))
    ended = log.get("winner") is not None or log.get("n_return") is not None  # the result is written when the game is over
    if log.get("n_return") is not None:
        six(log, "n_return", -1_000_000, 1_000_000)
    cut_off = log.get("truncated")
    if cut_off is not None and not isinstance(cut_off, bool):
        raise ValueError("truncated is not true or false")
    return {
        "rows": ROWS,
        "columns": COLUMNS,
        "start_length": START_LENGTH,
        "names": names(log),
        "start_time": time_text(log.get("start_time")),
        "end_time": time_text(log.get("end_time")),
        "truncated": not ended if cut_off is None else bool(cut_off),
        "file": file,
        "number": game,
        "boards": boards,
        "steps": [
            [actions(step), six(step, "reward", -ROWS * COLUMNS, ROWS * COLUMNS), step["info_after"]["hit"]]
            + ([step["explanation"]] if step.get("explanation") is not None else [])
            for step in steps
        ],
    }


def names(log: dict[str, Any]) -> list[str]:
    """The teams' names, under any of the fields that logs have them in; of the teams' first snakes if each snake has one."""
    for field in NAME_FIELDS:
        if log.get(field) is None:
            continue
        found = log[field]
        if len(found) == SNAKES:
            found = found[::TEAM]
        if not isinstance(found, list) or len(found) != 2:
            raise ValueError(f"{field} has not two names")
        return [name(one) for one in found]
    return ["team A", "team B"]


def name(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_text(value)
    inside = [value[field] for field in NAMES_INSIDE if field in value]
    return name(inside[0])


def time_text(value: Any) -> str:
    if isinstance(value, (bool, dict, list)):
        raise ValueError(f"a time is {value!r}, not a text")
    return "" if value is None else value if isinstance(value, str) else number_text(value)


def number_text(value: float) -> str:
    return json.dumps(value if isinstance(value, float) or -(2**63) <= value < 2**64 else float(value))


def some(values: Any, least: int, most: int, field: str) -> list[Any]:
    """Throws  ValueError if this is not a list of so many elements."""
    if not isinstance(values, list) or not least <= len(values) <= most:
        raise ValueError(f"{field} is not a list of {least} to {most}")
    return values


def whole(value: Any, least: int, most: int, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{field}: {value!r} is not a whole number, {least} to {most}")
    return value


def six(info: dict[str, Any], field: str, least: int, most: int) -> list[int]:
    return [whole(value, least, most, field) for value in some(info[field], SNAKES, SNAKES, field)]


def board(info: dict[str, Any], directions: list[int]) -> list[Any]:
    snakes = some(info["snakes_position"], SNAKES, SNAKES, "snakes_position")
    return [[cells(snake, ROWS * COLUMNS, "snakes_position") for snake in snakes], cells(info["beans_position"], BEANS, "beans_position"), directions]


def cells(places: Any, most: int, field: str) -> list[int]:
    pairs = [some(pair, 2, 2, field) for pair in some(places, 0, most, field)]
    return [COLUMNS * whole(row, 0, ROWS - 1, field) + whole(column, 0, COLUMNS - 1, field) for row, column in pairs]


def numbers(words: Any) -> list[int]:
    return [DIRECTIONS.index(word) for word in some(words, SNAKES, SNAKES, "directions")]


def actions(step: dict[str, Any]) -> list[int]:
    if step.get("joint_action") is None:  # the reference's run_log.py omits it
        return [UNKNOWN] * SNAKES
    choices = [some(choice, 1, 1, "joint_action")[0] for choice in some(step["joint_action"], SNAKES, SNAKES, "joint_action")]
    for choice in choices:
        if sum(whole(one, 0, 1, "joint_action") for one in some(choice, len(DIRECTIONS), len(DIRECTIONS), "joint_action")) != 1:
            raise ValueError(f"joint_action: {choice} does not select one of four actions")
    return [choice.index(1) for choice in choices]


def directions_after(steps: list[dict[str, Any]], k: int) -> list[int]:
    """As the next step has them, or else this one, or the bodies of living snakes. Of the last step the platform's service has those
    before it."""
    info = steps[k]["info_after"]
    if k + 1 < len(steps):
        if steps[k + 1].get("info_before") is not None:
            return numbers(steps[k + 1]["info_before"]["directions"])
        if info.get("directions") is not None:
            return numbers(info["directions"])
    return [UNKNOWN if died else heading(body) for body, died in zip(info["snakes_position"], info["hit"], strict=True)]


def heading(body: list[list[int]]) -> int:
    """From the second cell to the head, on the torus."""
    if len(body) < 2:
        return UNKNOWN
    (row, column), (from_row, from_column) = body[:2]
    step = (row - from_row) % ROWS, (column - from_column) % COLUMNS
    ways = {(ROWS - 1, 0): 0, (1, 0): 1, (0, COLUMNS - 1): 2, (0, 1): 3}
    return ways.get(step, UNKNOWN)
