"""Games shown in a notebook: the same page as the program writes."""

import gzip
import html
import json
import re

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
    log |= {"truncated": True, "names": ["</script><b>&\u2028", "\u00fc\x00"], "start_time": None}
    for step in log["steps"]:
        step["joint_action"], step["reward"] = json.dumps(step["joint_action"]), json.dumps(step["reward"])
    del log["steps"][5]["joint_action"], log["end_time"], log["n_return"]
    (tmp_path / "wild.json").write_text(json.dumps(log, indent=1))
    assert snake_ddp.replay(tmp_path / "wild.json").page == page_of_the_program(tmp_path / "wild.json", tmp_path)


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
    with pytest.raises(ValueError, match="page.html: not a game log"):
        snake_ddp.replay(tmp_path / "page.html")
    with pytest.raises(FileNotFoundError):
        snake_ddp.replay(tmp_path / "missing.json")
