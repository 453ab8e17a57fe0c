"""Games shown in a notebook: the same page as the program writes."""

import functools
import gzip
import html
import json
import re
import warnings

import pytest

import snake_ddp
from conftest import CHAMPION
from processes import DATA, call


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("games")
    done = call("eval", "--team_a", "level2", "--team_b", "territory", "--games", "3", "--seed", "1", "--record", folder)
    assert done.returncode == 0, done.stderr
    return sorted(folder.iterdir())


def page_of_the_program(log, tmp_path, *more):
    done = call("replay", log, "--html", tmp_path / "page.html", *more)
    assert done.returncode == 0, done.stderr
    return (tmp_path / "page.html").read_text()


def test_the_page_is_the_program_s(logs, tmp_path):
    for log in logs[:2]:
        shown = snake_ddp.replay(log)
        assert shown.page == page_of_the_program(log, tmp_path)
        assert shown.page == snake_ddp.replay(str(log)).page
        assert snake_ddp.replay(json.loads(log.read_text())).page == shown.page.replace(f'"file":"{log}"', '"file":""')
    shown.save(tmp_path / "saved.html")
    assert (tmp_path / "saved.html").read_text() == shown.page


def test_what_a_team_saw_is_shown_too(tmp_path):
    done = call("eval", "--team_a", f"{CHAMPION}:puct20", "--team_b", CHAMPION, "--games", "1", "--record", tmp_path, "--explain")
    assert done.returncode == 0, done.stderr
    page = snake_ddp.replay(tmp_path / "game_0.json").page
    assert '"visits"' in page and page == page_of_the_program(tmp_path / "game_0.json", tmp_path)


def test_logs_of_the_reference_are_shown_too(tmp_path):
    log = DATA / "reference_log.json.gz"
    assert snake_ddp.replay(log).page == page_of_the_program(log, tmp_path)


def test_what_follows_a_gzip_file_is_left_out_as_gzip_does(logs, tmp_path):
    log = tmp_path / "game.json.gz"
    log.write_bytes(gzip.compress(logs[0].read_bytes()) + b"junk")
    assert snake_ddp.replay(log).page == page_of_the_program(log, tmp_path)


def test_one_of_several_games_is_chosen(logs, tmp_path):
    joined = tmp_path / "games.json.gz"
    joined.write_bytes(gzip.compress(b"".join(log.read_bytes() for log in logs)))
    for game in (0, 2):
        assert snake_ddp.replay(joined, game).page == page_of_the_program(joined, tmp_path, "--game", game)
    with pytest.raises(ValueError, match="3 game"):
        snake_ddp.replay(joined, 3)


def test_old_and_cut_off_logs_and_wild_names_are_shown_as_the_program_does(logs, tmp_path):
    log = json.loads(logs[0].read_text())
    log["steps"] = log["steps"][:60]
    log |= {"truncated": True, "names": ["</script><b>&\u2028", "\u00fc\x01"], "start_time": None}
    for step in log["steps"]:
        step["joint_action"], step["reward"] = json.dumps(step["joint_action"]), json.dumps(step["reward"])
    del log["steps"][5]["joint_action"], log["end_time"], log["n_return"]
    (tmp_path / "wild.json").write_text(json.dumps(log, indent=1))
    assert snake_ddp.replay(tmp_path / "wild.json").page == page_of_the_program(tmp_path / "wild.json", tmp_path)


def test_a_text_with_a_nul_is_refused_as_the_program_does(logs, tmp_path):
    (tmp_path / "nul.json").write_text(json.dumps(json.loads(logs[0].read_text()) | {"names": ["a\0", "b"]}))
    done = call("replay", tmp_path / "nul.json", "--html", tmp_path / "page.html")
    assert done.returncode == 4 and "NUL" in done.stderr
    with pytest.raises(ValueError, match="nul.json:1: .*NUL"):
        snake_ddp.replay(tmp_path / "nul.json")


ANSWER = DATA / "platform_response_3_steps.json"


def answers():
    """What services, databases and scripts make of a log: the file's bytes, and how many games it has."""
    text = ANSWER.read_bytes()
    answer = json.loads(text)
    log = answer["data"]
    one = json.dumps(log).encode()

    def with_(**fields):
        return json.dumps(log | fields).encode()

    def texts(value):  # all lists and objects as texts
        return {name: json.dumps(part) if isinstance(part, (dict, list)) else part for name, part in value.items()}

    bare = {k: v for k, v in log.items() if k not in ("player", "start_time", "end_time")}
    steps = [{k: v for k, v in step.items() if k != "info_before"} for step in log["steps"]]
    undirected = [step | {"info_after": {k: v for k, v in step["info_after"].items() if k != "directions"}} for step in log["steps"]]
    inside = json.dumps(log | {"steps": [texts(step) for step in log["steps"]]} | {"init_info": texts(log["init_info"])})
    return {
        "as it came": (text, 1),
        "packed": (gzip.compress(text), 1),
        "packed in two parts": (gzip.compress(text[:900]) + gzip.compress(text[900:]), 1),
        "with a byte order mark": (b"\xef\xbb\xbf" + text, 1),
        "with the other line ends": (text.replace(b"\n", b"\r\n"), 1),
        "on lines": (one + b"\n" + one + b"\n", 2),
        "on lines, answers": (b"\n".join([json.dumps(answer).encode()] * 3), 3),
        "one after the other": (one + one, 2),
        "one after the other, over many lines": (text + text, 2),
        "with commas": (one + b",\n" + one + b",\n", 2),
        "a list": (b"[" + one + b", " + one + b"]", 2),
        "a list of answers over many lines": (json.dumps([answer, answer], indent=1).encode(), 2),
        "lists in a list": (json.dumps([[log], [log, log]]).encode(), 3),
        "a list in an answer": (json.dumps({"code": 200, "data": [log, log]}).encode(), 2),
        "answers in a list in an answer": (json.dumps({"data": {"list": [answer, {"id": 7, "replay": log}]}, "error": None}).encode(), 2),
        "a text in an answer": (json.dumps({"message": "[ok]", "data": json.dumps(log)}).encode(), 1),
        "a text in a text": (json.dumps({"data": json.dumps({"data": json.dumps(log)})}).encode(), 1),
        "an answer of the same name": (json.dumps({"game_name": "snakes_3v3", "steps": 3, "replay": log}).encode(), 1),
        "more games than a library's limit": (json.dumps({"data": [log] * 2000}).encode(), 2000),
        "keys in another order": (json.dumps(log, sort_keys=True).encode(), 1),
        "lists and objects as texts": (inside.encode(), 1),
        "all of the log's members as texts": (json.dumps(texts(log)).encode(), 1),
        "numbers as texts": (with_(n_player="6", board_height="10", board_width="20"), 1),
        "without what can be left out": (json.dumps(bare).encode(), 1),
        "null for what can be left out": (with_(player=None, start_time=None, end_time=None, n_return=None, truncated=None, winner=None), 1),
        "directions after steps only": (with_(steps=steps), 1),
        "directions before steps only": (with_(steps=undirected), 1),
        "without a step": (with_(steps=[]), 1),
        "a result": (with_(winner=2), 1),
        "cut off": (with_(winner=2, truncated=True), 1),
        "names": (with_(names=["a", "b"]), 1),
        "players": (with_(player=None, players=["a", 17]), 1),
        "players as objects": (with_(player=[{"id": 1, "name": "a"}, {"username": "b"}]), 1),
        "a player for each snake": (with_(player=["a", "a2", "a3", "b", "b2", "b3"]), 1),
        "times as numbers": (with_(start_time=1638542113, end_time=1638542151.5), 1),
        "times as large numbers": (with_(start_time=2**64 - 1, end_time=2**64), 1),
        "times as larger ones": (with_(start_time=-(2**63) - 1, end_time=10**30 + 7), 1),
        "times as odd floats": (with_(start_time=1e15, end_time=1e16), 1),
        "names as numbers": (with_(player=[12345678901234567890123, 5e-324]), 1),
        "names as other numbers": (with_(player=[-0.0, 9007199254740993.5]), 1),
        "a message that only looks like a list": (json.dumps(answer | {"message": "[ok"}).encode(), 1),
        "a text that cannot be used beside a log": (json.dumps({"note": '{"a": 1, "a": 2}', "data": log}).encode(), 1),
    }


def test_what_is_no_game_in_a_list_is_refused_by_both(tmp_path):
    path = tmp_path / "games.json"
    log = json.loads((DATA / "platform_response_3_steps.json").read_text())["data"]
    for value in ([log, {"x": 1}, log], [log, 1], [None, log], [json.dumps(log)], json.dumps(log), [[], {}], []):
        path.write_text(json.dumps(value))
        assert call("replay", path, "--html", tmp_path / "page.html").returncode == 4, value
        with pytest.raises(ValueError, match="games.json"):
            snake_ddp.replay(path)
    path.write_text(json.dumps([[], log]))
    assert call("replay", path, "--html", tmp_path / "page.html").returncode == 0
    assert snake_ddp.replay(path).page == (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("kind", answers())
def test_answers_of_a_service_are_read_by_both(kind, tmp_path):
    content, games = answers()[kind]
    path = tmp_path / "games.json"
    path.write_bytes(content)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        shown = snake_ddp.replay(path)
    done = call("replay", path, "--html", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert shown.page == (tmp_path / "page.html").read_text()
    assert len(told) == (games > 1)
    assert (f"{games} games" in done.stderr and "--game" in done.stderr) == (games > 1)
    assert snake_ddp.replay(path, games - 1).page == page_of_the_program(path, tmp_path, "--game", games - 1)
    with pytest.raises(ValueError, match=f"{games} game"):
        snake_ddp.replay(path, games)
    assert call("replay", path, "--html", tmp_path / "page.html", "--game", games).returncode == 2
    if games < 10:
        checked = call("verify-trace", path)
        assert checked.returncode == (1 if kind == "a result" else 0), checked.stdout  # so early, against the rules
        assert f"{games} game{'s' * (games != 1)}, {0 if kind == 'without a step' else 3 * games} steps" in checked.stdout


def test_the_whole_answer_of_the_platform_is_a_game_by_the_rules(tmp_path):
    path = DATA / "platform_response.json.gz"
    checked = call("verify-trace", path)
    assert checked.stdout == "1 game, 200 steps, 0 mismatches\n"
    shown = snake_ddp.replay(path)
    assert shown.page == page_of_the_program(path, tmp_path)
    assert '"names":["first","second"]' in shown.page and '"truncated":false' in shown.page
    assert shown.page.replace(f'"file":"{path}"', '"file":""') == snake_ddp.replay(json.loads(gzip.decompress(path.read_bytes()))).page


def refused():
    answer = json.loads(ANSWER.read_bytes())
    log = answer["data"]

    def without(name):
        return json.dumps({"data": {k: v for k, v in log.items() if k != name}}).encode()

    def changed(*path, value):
        copy = json.loads(json.dumps(log))
        functools.reduce(lambda inner, key: inner[key], path[:-1], copy)[path[-1]] = value
        return json.dumps(copy).encode()

    text = ANSWER.read_bytes()
    return {
        "empty": (b"", "no game"),
        "blank": (b"\n \r\n", "no game"),
        "an empty list": (b"[]", "no game"),
        "an answer without a game": (b'{"OK": false, "data": null, "message": "no such game"}', "no such game"),
        "truncated": (text[:3000], "truncated"),
        "a truncated list": (b"[" + json.dumps(log).encode() + b",", "truncated"),
        "truncated and packed": (gzip.compress(text)[:-20], "truncated"),
        "a second one is truncated": (json.dumps(log).encode() + b"\n" + text[:500], "truncated"),
        "an answer that is not JSON": (json.dumps(answer).encode().replace(b"true", b"yes"), "not JSON"),
        "another game": (json.dumps({"data": log | {"game_name": "chess"}}).encode(), "game_name"),
        "without steps": (without("steps"), "steps"),
        "without a start": (without("init_info"), "init_info"),
        "without its name": (without("game_name"), "game_name"),
        "without a height": (without("board_height"), "board_height"),
        "another height": (json.dumps(log | {"board_height": 6}).encode(), "board_height"),
        "names of three": (json.dumps(log | {"player": ["a", "b", "c"]}).encode(), "player"),
        "steps that are an object": (json.dumps(log | {"steps": {}}).encode(), "steps"),
        "a number that is none": (text.rstrip()[:-1] + b', "x": NaN}', "not JSON"),
        "a number too large": (text.rstrip()[:-1] + b', "x": 1e999}', "not JSON"),
        "a key twice": (text.rstrip()[:-1] + b', "data": null}', 'key "data" is there twice'),
        "a key twice in an answer": (text.rstrip()[:-1] + b', "x": [{"y": 1, "y": 1}]}', 'key "y" is there twice'),
        "a key twice in a log": (json.dumps(log).encode()[:-1] + b', "steps": []}', 'key "steps" is there twice'),
        "a key twice in a text": (json.dumps({"data": json.dumps(log)[:-1] + ', "steps": []}'}).encode(), "neither a game log"),
        "a key twice in a log's text": (json.dumps(log | {"init_info": json.dumps(log["init_info"])[:-1] + ', "directions": []}'}).encode(), "init_info"),
        "a text in a log that is no list": (json.dumps(log | {"note": "[ok"}).encode(), "note"),
        "a NUL in an answer": (json.dumps(answer | {"message": "a\0"}).encode(), "NUL"),
        "a NUL in an answer's key": (json.dumps(answer | {"a\0": 1}).encode(), "NUL"),
        "a NUL in a text": (json.dumps({"data": json.dumps(log | {"x": "\0"})}).encode(), "neither a game log"),
        "deep beside a game": (json.dumps(answer | {"x": eval("[" * 40 + "]" * 40)}).encode(), "deep"),
        "an integer too large": (text.rstrip()[:-1] + b', "x": ' + b"9" * 400 + b"}", "not JSON"),
        "half a character": (text.rstrip()[:-1] + b', "x": "\\ud800"}', "not JSON"),
        "another encoding": (text.rstrip()[:-1] + b', "x": "\xff"}', "not JSON"),
        "spaces of another kind": (b"\x0b" + text, "not JSON"),
        "brackets around brackets": (json.dumps(log | {"x": eval("[" * 40 + "]" * 40)}).encode(), "deep"),
        "a board outside": (changed("steps", 0, "info_after", "beans_position", 0, 1, value=20), "beans_position"),
        "seven snakes": (changed("init_info", "snakes_position", value=[[[0, 0]] * 3] * 7), "snakes_position"),
        "a long start": (changed("init_info", "snakes_position", 0, value=[[0, 0]] * 4), "4 cells"),
        "hits of five": (changed("steps", 1, "info_after", "hit", value=[0] * 5), "hit"),
        "a score of words": (changed("steps", 1, "info_after", "score", 3, value="x"), "score"),
        "half a reward": (changed("steps", 2, "reward", 0, value=2.5), "reward"),
        "no action": (changed("steps", 0, "joint_action", value=[[[0, 0, 0, 0]]] * 6), "joint_action"),
        "directions of five": (changed("init_info", "directions", value=["up"] * 5), "directions"),
        "other directions before": (changed("steps", 0, "info_before", "directions", value=["up"] * 6), "info_before"),
        "a time that is a list": (json.dumps(log | {"end_time": []}).encode(), "end_time"),
        "a cut that is a number": (json.dumps(log | {"truncated": 1}).encode(), "truncated"),
        "results of one": (json.dumps(log | {"n_return": [1]}).encode(), "n_return"),
        "steps that are no list": (json.dumps(log | {"steps": "[1"}).encode(), "steps"),
        "deep": (b'{"a":' * 50 + b"1" + b"}" * 50, "deep"),
        "a page": (b"<html>", "not JSON"),
    }


@pytest.mark.parametrize("kind", refused())
def test_what_both_refuse_is_named(kind, tmp_path):
    content, why = refused()[kind]
    path = tmp_path / "games.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        snake_ddp.replay(path)
    for line in (["replay", path, "--html", tmp_path / "page.html"], ["verify-trace", path]):
        done = call(*line)
        assert done.returncode == 4 and str(path) in done.stderr and why in done.stderr, done.stderr


def test_what_is_not_a_game_is_rejected(logs, tmp_path):
    packed = gzip.compress(logs[0].read_bytes())
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    path = tmp_path / "log"
    for content in (b"[]", b'"text"', b"3", b"{", b"[" * 100_000, packed[:-100], bytes(damaged), packed[:5]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=str(path)):
            snake_ddp.replay(path)
    for log in ({"game_name": "snakes_3v3"}, {"game_name": "snakes_3v3", "steps": [3], "init_info": []}):
        with pytest.raises(ValueError, match="not a game log"):
            snake_ddp.replay(log)


def test_a_game_seed_starts_the_program_s_games(logs):
    # Game k of a match with some seed is the k-th game of the first board, as in training, whose boards count from 1.
    start = json.loads(logs[1].read_text())["init_info"]
    env = snake_ddp.envs.TeamEnv()
    env.reset(seed=9, options={"game_seed": 1})
    state = env.boards.states[0]
    assert state["beans"].tolist() == [20 * row + column for row, column in start["beans_position"]]
    assert state["heads"].tolist() == [20 * row + column for (row, column), *_ in start["snakes_position"]]


def test_a_notebook_gets_a_frame_with_the_whole_page(logs):
    shown = snake_ddp.replay(logs[0])
    (content,) = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"[^>]*></iframe>', shown._repr_html_()).groups()
    assert html.unescape(content) == shown.page


def test_a_file_that_is_not_a_log_is_rejected(logs, tmp_path):
    log = json.loads(logs[0].read_text())
    for wrong in ({}, log | {"game_name": "chess"}, log | {"steps": [{}]}, log | {"init_info": {}}):
        with pytest.raises(ValueError, match="not a game log"):
            snake_ddp.replay(wrong)
    (tmp_path / "page.html").write_text("<html>")
    with pytest.raises(ValueError, match="page.html:1: not a game log"):
        snake_ddp.replay(tmp_path / "page.html")
    with pytest.raises(FileNotFoundError):
        snake_ddp.replay(tmp_path / "missing.json")
