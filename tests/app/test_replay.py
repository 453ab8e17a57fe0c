"""Game logs and their viewers: eval --record and --watch, replay in a terminal, and its page in a real browser."""

import contextlib
import gzip
import io
import json
import os
import pty
import re
import subprocess
import time

import pytest
import torch
from PIL import Image
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browsers import browser, open_page
from processes import BINARY, BUILD, DATA, PATIENCE_S, SOURCE, TINY, call, clean_environment, flags, only_json, run_folder

LETTERS = "ABCDEF"
EVIL = '</script><script>window.hacked = 1</script><img src="x" onerror="window.hacked = 1"><!--'


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    """Five recorded games, and eval's report of them."""
    folder = tmp_path_factory.mktemp("record") / "new" / "games"
    done = call("eval", "--team_a", "level2", "--team_b", "level1", "--games", "5", "--record", folder, "--json")
    assert done.returncode == 0, done.stderr
    return folder, only_json(done.stdout)


@pytest.fixture(scope="module")
def log(games):
    return json.loads((games[0] / "game_0.json").read_text())


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def cells(places):
    return ",".join(str(20 * row + column) for row, column in places)


def board_after(log, step):
    return log["steps"][step - 1]["info_after"] if step else log["init_info"]


def scores_after(log, step):
    rewards = [s["reward"] for s in log["steps"][:step]]
    return [sum(sum(r[:3]) for r in rewards), sum(sum(r[3:]) for r in rewards)]


# Game logs


def test_recorded_games_are_those_that_were_counted_and_follow_the_rules(games):
    folder, result = games
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"game_{k}.json" for k in range(5)]
    checked = only_json(call("verify-trace", *(folder / name for name in names), "--json").stdout)
    assert checked["games"] == 5 and checked["mismatches"] == 0
    totals = {"wins": 0, "draws": 0, "losses": 0}
    score_a = 0
    for k, name in enumerate(names):
        one = json.loads((folder / name).read_text())
        assert one["names"] == (["level2", "level1"] if k % 2 == 0 else ["level1", "level2"]), "sides are swapped"
        mine, theirs = sum(one["n_return"][:3]), sum(one["n_return"][3:])
        if k % 2:
            mine, theirs = theirs, mine
        totals["wins" if mine > theirs else "losses" if mine < theirs else "draws"] += 1
        score_a += mine
    assert totals == {name: result[name] for name in totals}
    assert score_a / 5 == pytest.approx(result["score_a"])


def test_training_records_a_game_now_and_then(tmp_path):
    # Four boards end together: the first one's games are episodes 1, 5 and 9.
    settings = TINY | {"runs_dir": tmp_path, "max_episodes": 12, "record_interval": 4, "model_episode": 100,
                       "opponent_difficulty_strategy": "fixed:2"}
    done = call(*flags(settings))
    assert done.returncode == 0, done.stderr
    logs = sorted((run_folder(done.stdout) / "games").iterdir())
    assert [path.name for path in logs] == ["episode_105.json", "episode_109.json"]
    one = json.loads(logs[0].read_text())
    assert one["names"] == ["ddpg", "level2"] and len(one["steps"]) == 100 and one["truncated"] is True
    checked = only_json(call("verify-trace", *logs, "--json").stdout)
    assert checked["games"] == 2 and checked["steps"] == 200 and checked["mismatches"] == 0


# Explanations

CHAMPION = SOURCE / "models" / "champion.pth"
MOVES = ("up", "down", "left", "right")


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """A tree against a bare network, and a script against a look: the same games with and without --explain."""
    folder = tmp_path_factory.mktemp("explain")
    teams = {"tree": (f"{CHAMPION}:puct20", str(CHAMPION)), "look": ("level2", f"{CHAMPION}:look4"),
             "actor": (f"{DATA}/upstream_actor_2000.pth:softmax", "level2")}
    for name, (a, b) in teams.items():
        for kind, more in (("plain", []), ("explained", ["--explain"])):
            done = call("eval", "--team_a", a, "--team_b", b, "--games", "1", "--seed", "5", "--record", folder / kind / name, *more)
            assert done.returncode == 0, done.stderr
    return folder


def made(step):
    return [one_hot[0].index(1) for one_hot in step["joint_action"]]


def test_an_explained_game_is_the_same_game_and_says_what_its_teams_chose_by(explained):
    kinds = {"tree": ("tree", "values"), "look": (None, "look"), "actor": ("probabilities", None)}
    for name, teams in kinds.items():
        plain, reported = (json.loads((explained / kind / name / "game_0.json").read_text()) for kind in ("plain", "explained"))
        explanations = [step.pop("explanation") for step in reported["steps"]]
        for one in (plain, reported):
            del one["start_time"], one["end_time"]
        assert plain.pop("recording") != reported.pop("recording"), "one recording's games would replace the other's"
        assert reported == plain
        searched = 0
        for step, sides in zip(reported["steps"], explanations):
            for side, (kind, why) in enumerate(zip(teams, sides)):
                if kind is None:
                    assert why is None, "a script does not say"
                    continue
                assert why["kind"] in (kind, "values"), "where all moves are forced nothing is searched"
                if why["kind"] != kind:
                    continue
                searched += 1
                for snake, worth in enumerate(why["moves"]):
                    chosen = made(step)[3 * side + snake]
                    known = [w for w in worth if w is not None]
                    if kind == "tree":
                        visits = why["visits"][snake]
                        assert sum(visits) == 20 and visits[chosen] == max(visits)
                    elif kind == "probabilities":
                        assert sum(known) == pytest.approx(1, abs=1e-3) and worth[chosen] > 0
                    else:
                        assert worth[chosen] == max(known)
                    if "line" in why and len(known) < 4:
                        assert why["line"][0][3 * side + snake] == chosen
                assert ("line" in why) == (kind in ("tree", "look"))
        assert searched > 150
    logs = sorted(explained.glob("explained/*/*.json"))
    checked = only_json(call("verify-trace", *logs, "--json").stdout)
    assert checked["games"] == 3 and checked["mismatches"] == 0


# In a terminal


def test_a_game_is_played_as_text(games, log):
    done = call("replay", games[0] / "game_0.json", "--text")
    assert done.returncode == 0 and "\x1b" not in done.stdout
    frames = done.stdout.split("\n\n")[:-1]
    assert len(frames) == len(log["steps"]) + 1
    for step in (0, 1, 77, len(log["steps"])):
        lines = frames[step].strip("\n").split("\n")
        a, b = scores_after(log, step)
        assert re.search(rf"level2\s+{a} : {b}\s+level1\s+step {step}$", lines[0])
        for snake, body in enumerate(board_after(log, step)["snakes_position"]):
            row, column = body[0]
            assert lines[2 + row][1 + 2 * column] == LETTERS[snake]
            row, column = body[-1]
            assert lines[2 + row][1 + 2 * column:3 + 2 * column] == LETTERS[snake].lower() * 2
        if step:
            died = {LETTERS[i] for i, hit in enumerate(board_after(log, step)["hit"]) if hit}
            assert set(re.findall(r"([A-F]) -?\d+ died", lines[-1])) == died


def in_terminal(*arguments, stream="stdout", other=None, **variables):
    """What a terminal gets of a stream, the exit code, and the text of the other stream if that is a pipe."""
    leader, follower = pty.openpty()
    streams = {"stdout": other, "stderr": other, stream: follower}
    process = subprocess.Popen([BINARY, *map(str, arguments)], **streams, env=clean_environment(**variables), stdin=subprocess.DEVNULL)
    os.close(follower)
    said = b""
    with contextlib.suppress(OSError):  # EIO: the last writer is gone
        while piece := os.read(leader, 65536):
            said += piece
    os.close(leader)
    rest = process.communicate(timeout=PATIENCE_S)
    return said.decode(), process.returncode, rest[0] if stream == "stderr" else rest[1]


def test_progress_of_games_is_shown_on_a_terminal_alone():
    line = ["eval", "--team_a", f"{CHAMPION}:look1", "--team_b", "level2", "--games", "250"]
    for words in (["--json"], []):
        said, code, result = in_terminal(*line, *words, stream="stderr", other=subprocess.PIPE, TERM="xterm")
        assert code == 0 and b"Playing" not in result
        assert re.search(r"Playing +\d+% \|#* *\| \d\d:\d\d left", said), said
        assert said.endswith("\r\x1b[K"), "the bar stays"
    quiet = call(*line, "--json")
    assert quiet.returncode == 0 and quiet.stderr == ""


def test_in_a_terminal_each_moment_takes_the_place_of_the_last(games, log, tmp_path):
    said, code, _ = in_terminal("replay", games[0] / "game_0.json", "--text", "--speed", "1000")
    assert code == 0
    assert said.count("\x1b[2J") == 1 and said.count("\x1b[H") == len(log["steps"]) + 1
    said, code, _ = in_terminal("eval", "--team_a", "level2", "--team_b", "random", "--games", "3", "--watch", "--speed", "1000")
    assert code == 0
    assert said.count("\x1b[H") == 201 and "win rate" in said
    # A name cannot control the terminal.
    path = write(tmp_path / "evil.json", log | {"names": ["\x1b]0;title\x07", "\x9b31m"]})
    said, code, _ = in_terminal("replay", path, "--text", "--speed", "1000")
    assert code == 0 and "?]0;title?" in said and "\x1b]" not in said and "\x9b" not in said


def test_a_watched_game_is_the_recorded_game(games):
    line = ["eval", "--team_a", "level2", "--team_b", "level1", "--games", "5"]
    watched, replayed = call(*line, "--watch"), call("replay", games[0] / "game_0.json", "--text")
    frames = watched.stdout.split("\n\n")
    assert frames[:200] == replayed.stdout.split("\n\n")[:200]
    assert " step 200\n" in frames[200] and "win rate" in frames[201]


# Wrong input


@pytest.mark.parametrize("line, words", {
    "no file": (["--html", "out.html"], ["needs a file"]),
    "nothing asked for": (["{log}"], ["--html OUT", "--text"]),
    "explained where nothing is written": (["{log}", "--text", "--explain"], ["unknown flag --explain"]),
    "no judge of moves": (["{log}", "--blunders", "--judge", "level2"], ["--judge level2", "puct"]),
    "no fixed number of simulations": (["{log}", "--blunders", "--judge", "{champion}:puct@5ms"], ["puct@5ms", "number"]),
    "no such game": (["{log}", "--text", "--game", "1"], ["--game 1", "contains 1 game"]),
    "no speed": (["{log}", "--text", "--speed", "0"], ["speed"]),
    "unknown flag": (["{log}", "--htm", "x"], ["unknown flag --htm", "--html"]),
}.values())
def test_wrong_use_is_reported(games, line, words):
    done = call("replay", *(word.format(log=games[0] / "game_0.json", champion=CHAMPION) for word in line))
    assert done.returncode == 2 and done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_a_judge_that_is_not_here_is_named(games, tmp_path):
    done = call("replay", games[0] / "game_0.json", "--blunders", cwd=tmp_path)
    assert done.returncode == 4 and "--judge models/champion.pth:puct200: cannot read" in done.stderr, done.stderr


def test_wrong_files_are_reported_with_the_place(games, log, tmp_path):
    whole = (games[0] / "game_0.json").read_text()
    other_board = log | {"board_height": 6, "board_width": 8}
    wrong_type = json.loads(whole)
    wrong_type["steps"][16]["info_after"]["snakes_position"][3][0] = ["up", 4]
    bad = {
        "missing.json": (None, []),
        "cut.json": (whole[:len(whole) // 2], [":1: not JSON"]),
        "small.json": (other_board, ['"board_height": 6', "10"]),
        "type.json": (wrong_type, ["step 17: ", '"snakes_position"', '"up"']),
        "empty.json": ("", ["no game"]),
        "page.json": ("<html></html>", [":1: not JSON"]),
    }
    for name, (content, words) in bad.items():
        if content is not None:
            write(tmp_path / name, content)
        readers = [["replay", tmp_path / name, "--html", tmp_path / "out.html"], ["verify-trace", tmp_path / name]]
        for line in readers if name == "cut.json" else readers[:1]:
            done = call(*line)
            assert done.returncode == 4 and done.stdout == "", (name, done.stderr)
            for word in [str(tmp_path / name), *words]:
                assert word in done.stderr
    cut = gzip.compress(whole.encode())[:-100]
    (tmp_path / "cut.json.gz").write_bytes(cut)
    done = call("replay", tmp_path / "cut.json.gz", "--text")
    assert done.returncode == 4 and "data are truncated" in done.stderr
    assert not (tmp_path / "out.html").exists()
    done = call("replay", games[0] / "game_0.json", "--html", tmp_path / "no" / "out.html")
    assert done.returncode == 4 and "out.html" in done.stderr
    done = call("eval", "--team_a", "random", "--team_b", "random", "--games", "1", "--record", tmp_path / "cut.json" / "x")
    assert done.returncode == 4 and "cut.json" in done.stderr


# The page


def make_page(file, out, *more):
    done = call("replay", file, "--html", out, *more)
    assert done.returncode == 0, done.stderr
    assert f"{out}: " in done.stdout
    return out


def shown_step(browser):
    return int(browser.find_element(By.ID, "board").get_attribute("data-step"))


def check_board(browser, log, step):
    assert shown_step(browser) == step
    snakes, beans, points, clock = browser.execute_script("""
        return [[...document.querySelectorAll('#board .snake')].map(e => [e.dataset.snake, e.dataset.cells]),
                document.getElementById('beans').dataset.cells,
                [...document.querySelectorAll('.points')].map(e => e.textContent),
                document.getElementById('clock').textContent]""")
    board = board_after(log, step)
    assert snakes == [[LETTERS[i], cells(body)] for i, body in enumerate(board["snakes_position"])]
    assert beans == cells(board["beans_position"])
    assert [int(text.replace("\u2212", "-")) for text in points] == scores_after(log, step)
    assert clock == f"step {step} of {len(log['steps'])}"


def heads_drawn(browser):
    """Where the heads are on the screen, as cells: the middle of each head's shape."""
    return browser.execute_script("""
        const board = document.getElementById('board').getBoundingClientRect();
        return [...document.querySelectorAll('#board .snake')].map(snake => {
          const box = snake.querySelector('.full').getBoundingClientRect();
          const row = Math.floor((box.top + box.height / 2 - board.top) / board.height * 10);
          const column = Math.floor((box.left + box.width / 2 - board.left) / board.width * 20);
          return 20 * row + column;
        })""")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_slider_moves_the_board_to_the_recorded_positions(browser, games, log, tmp_path, scheme):
    page = make_page(games[0] / "game_0.json", tmp_path / "game.html")
    open_page(browser, page, scheme)
    check_board(browser, log, 0)
    slider = browser.find_element(By.ID, "slider")
    for step in [*range(0, len(log["steps"]), 9), len(log["steps"])]:
        browser.execute_script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", slider, step)
        check_board(browser, log, step)
        assert heads_drawn(browser) == [20 * body[0][0] + body[0][1] for body in board_after(log, step)["snakes_position"]]
    # With the mouse.
    ActionChains(browser).move_to_element_with_offset(slider, 0, 0).click().perform()
    assert abs(shown_step(browser) - len(log["steps"]) / 2) <= 2
    check_board(browser, log, int(slider.get_property("value")))

    picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    colours = {colour: count for count, colour in picture.getcolors(1 << 24)}
    assert len(colours) > 50, "not blank"
    brightness = sum(sum(colour) / 3 * count for colour, count in colours.items()) / sum(colours.values())
    assert brightness > 200 if scheme == "light" else brightness < 60
    team_a, team_b = ((0, 114, 178), (213, 94, 0)) if scheme == "light" else ((133, 203, 243), (246, 191, 74))
    assert colours.get(team_a, 0) > 200 and colours.get(team_b, 0) > 200, "both teams are there"


def test_the_keyboard_plays(browser, games, log, tmp_path):
    page = make_page(games[0] / "game_0.json", tmp_path / "game.html")
    last = len(log["steps"])
    open_page(browser, page, place="#150")
    check_board(browser, log, 150)

    def press(*keys):
        actions = ActionChains(browser)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    press(Keys.ARROW_RIGHT)
    check_board(browser, log, 151)
    press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    check_board(browser, log, 149)
    ActionChains(browser).key_down(Keys.SHIFT).send_keys(Keys.ARROW_LEFT).key_up(Keys.SHIFT).perform()
    check_board(browser, log, 139)
    press(Keys.END)
    check_board(browser, log, last)
    press(Keys.ARROW_RIGHT)
    check_board(browser, log, last)
    press(Keys.HOME)
    check_board(browser, log, 0)
    press(Keys.ARROW_LEFT)
    check_board(browser, log, 0)

    def playing():
        return browser.execute_script("return document.body.dataset.playing") == "true"

    assert not playing()
    press(Keys.SPACE)
    assert playing()
    until = time.monotonic() + PATIENCE_S
    while shown_step(browser) < 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    press(Keys.SPACE)
    assert not playing()
    check_board(browser, log, shown_step(browser))
    # The play button does the same, and starts again from the end.
    press(Keys.END)
    browser.find_element(By.ID, "play").click()
    assert playing() and shown_step(browser) < last
    browser.find_element(By.ID, "play").click()
    assert not playing()
    for button, step in {"last": last, "back": last - 1, "first": 0, "next": 1}.items():
        browser.find_element(By.ID, button).click()
        check_board(browser, log, step)
    assert browser.get_log("browser") == []


def test_the_curve_leads_to_the_step_that_is_clicked_and_marks_deaths(browser, games, log, tmp_path):
    open_page(browser, make_page(games[0] / "game_0.json", tmp_path / "game.html"))
    curve = browser.find_element(By.ID, "curve")
    ActionChains(browser).move_to_element_with_offset(curve, 0, -20).click().perform()
    middle = shown_step(browser)
    assert abs(middle - len(log["steps"]) / 2) <= 2
    check_board(browser, log, middle)
    ActionChains(browser).move_to_element_with_offset(curve, 100, 0).click_and_hold().move_by_offset(50, 0).release().perform()
    assert shown_step(browser) > middle + 10
    marks = browser.execute_script("return [...document.querySelectorAll('[data-deaths]')].map(e => [Number(e.dataset.deaths), "
                                   "e.classList.contains('s1') ? 0 : 1])")
    assert sorted(map(tuple, marks)) == sorted((step, team) for step in range(1, len(log["steps"]) + 1) for team in (0, 1)
                                               if any(board_after(log, step)["hit"][3 * team:3 * team + 3]))
    # On the board, too.
    step = next(step for step in range(1, len(log["steps"]) + 1) if any(board_after(log, step)["hit"]))
    browser.get(f"{browser.current_url.split('#')[0]}#{step}")
    crosses = browser.execute_script("return [...document.querySelectorAll('#board .death')].map(e => e.dataset.snake)")
    assert crosses == [LETTERS[i] for i, hit in enumerate(board_after(log, step)["hit"]) if hit]


def press(browser, *keys):
    ActionChains(browser).send_keys(*keys).perform()


def test_the_cells_that_a_snake_reaches_first_are_those_of_the_rule(browser, games, log, tmp_path):
    boards = [{"snakes": [[20 * row + column for row, column in body] for body in board_after(log, k)["snakes_position"]],
               "directions": [MOVES.index(word) for word in log["steps"][k]["info_before"]["directions"]],
               "beans": [20 * row + column for row, column in board_after(log, k)["beans_position"]], "step": k + 1}
              for k in range(len(log["steps"]))]
    write(tmp_path / "boards.jsonl", "".join(json.dumps(board) + "\n" for board in boards))
    subprocess.run([BUILD / "tests" / "app" / "app_probe", tmp_path / "boards.jsonl", tmp_path / "out.pth"], check=True, timeout=PATIENCE_S)
    rule = torch.load(tmp_path / "out.pth")["outlook"]
    open_page(browser, make_page(games[0] / "game_0.json", tmp_path / "game.html"))
    shown, unions = browser.execute_script("""
        const counts = [], unions = [], press = key => document.dispatchEvent(new KeyboardEvent("keydown", {key}));
        for (let step = 0; step < arguments[0]; ++step) {
          for (const key of "123456") {
            press(key);
            counts.push([...document.querySelectorAll("#why tbody tr")].map(row => [Number(row.dataset.room), Number(row.dataset.first)]));
            unions.push(document.getElementById("first").dataset.cells.split(",").filter(cell => cell !== "").length);
            press("Escape");
          }
          press("ArrowRight");
        }
        return [counts, unions]""", len(boards))
    shown = torch.tensor(shown).reshape(rule.shape)
    assert torch.equal(shown, rule)
    first = rule[..., 1]
    unions = torch.tensor(unions).reshape(first.shape[:2])
    assert (unions >= first.max(-1).values).all() and (unions <= first.sum(-1)).all()
    assert (unions > 0).sum() > len(boards) * 5 and rule[..., 0].max() > 90


def test_a_click_or_a_key_shows_what_a_snake_saw(browser, explained, tmp_path):
    reported = json.loads((explained / "explained" / "tree" / "game_0.json").read_text())
    page = make_page(explained / "explained" / "tree" / "game_0.json", tmp_path / "tree.html")
    assert page.stat().st_size < 450_000
    step = next(k for k in range(30, 200) if "line" in reported["steps"][k]["explanation"][0])
    open_page(browser, page, place=f"#step={step}")
    panel = browser.find_element(By.ID, "why")
    assert shown_step(browser) == step and not panel.is_displayed()
    # A click on the head.
    head = browser.find_element(By.CSS_SELECTOR, '.snake[data-snake="B"] .full')
    ActionChains(browser).move_to_element(head).click().perform()
    assert panel.is_displayed()
    why, action = reported["steps"][step]["explanation"][0], made(reported["steps"][step])[1]
    assert f"goes {MOVES[action]}" in panel.text
    rows = {row.get_attribute("data-move"): row for row in panel.find_elements(By.CSS_SELECTOR, "tbody tr")}
    for d, move in enumerate(MOVES):
        assert (move in rows[action and MOVES[action]].text) == (d == action)
        assert str(why["visits"][1][d]) in rows[move].text.split()
    arrows = browser.execute_script("return [...document.querySelectorAll('#board [data-move]')].map(e => e.dataset.move)")
    assert arrows == [move for d, move in enumerate(MOVES) if why["moves"][1][d] is not None]
    lines = browser.execute_script("return Object.fromEntries([...document.querySelectorAll('.expected')].map(e => [e.dataset.snake, e.dataset.cells]))")
    for snake, letter in enumerate(LETTERS):
        row, column = board_after(reported, step)["snakes_position"][snake][0]
        way = []
        for moves in why["line"]:
            if moves[snake] >= 0:
                down, right = ((-1, 0), (1, 0), (0, -1), (0, 1))[moves[snake]]
                row, column = (row + down) % 10, (column + right) % 20
                way.append([row, column])
        assert lines[letter] == cells(way)
    # Every picture has a text; what is pressed says so; and the next step shows its own reasons.
    pressed = browser.execute_script("return [...document.querySelectorAll('#board [role=button]')].map(e => [e.getAttribute('aria-pressed'), "
                                     "e.getAttribute('aria-label'), e.tabIndex])")
    assert [word for word, _, _ in pressed] == ["false", "true", "false", "false", "false", "false"]
    assert all(f"Snake {letter}" in words and tab == 0 for letter, (_, words, tab) in zip(LETTERS, pressed))
    assert panel.get_attribute("aria-label") and "foes" in panel.text
    press(browser, Keys.ARROW_RIGHT)
    assert f"goes {MOVES[made(reported['steps'][step + 1])[1]]}" in panel.text
    press(browser, Keys.ESCAPE)
    assert not panel.is_displayed()
    # By keys: a digit, or Tab to a snake and Enter; the focus stays from step to step.
    press(browser, "5")
    assert panel.text.startswith("E of ") and "value" in panel.text and "simulations" not in panel.text.split("\n")[1]
    press(browser, "5")
    assert not panel.is_displayed()
    browser.execute_script("document.querySelector('.snake[data-snake=A]').focus()")
    press(browser, Keys.TAB, Keys.ENTER)
    assert panel.text.startswith("B of ")
    press(browser, Keys.ARROW_RIGHT, Keys.TAB, Keys.SPACE)
    assert panel.text.startswith("C of ") and shown_step(browser) == step + 2
    assert browser.execute_script("return document.activeElement.dataset.snake") == "C"
    assert browser.get_log("browser") == []


def test_a_log_without_explanations_shows_the_cells_and_says_so(browser, games, tmp_path):
    open_page(browser, make_page(games[0] / "game_0.json", tmp_path / "game.html"), place="#step=40&snake=D")
    panel = browser.find_element(By.ID, "why")
    assert panel.text.startswith("D of ") and "--explain" in panel.text
    assert browser.find_elements(By.ID, "first") and not browser.find_elements(By.CSS_SELECTOR, "#board [data-move], .expected")
    code = browser.find_element(By.CSS_SELECTOR, "#go-on code").text
    assert code == f"./snake_ddp play --from {games[0] / 'game_0.json'} --step 40 --snake D"
    press(browser, Keys.END)
    assert not browser.find_element(By.ID, "go-on").is_displayed() and "The end." in panel.text


# Blunders


def test_blunders_are_listed_worst_first_and_the_page_leads_to_them(browser, games, tmp_path):
    line = ["replay", games[0] / "game_0.json", "--judge", f"{CHAMPION}:puct20", "--blunders=12"]
    done = call(*line, "--html", tmp_path / "game.html")
    assert done.returncode == 0, done.stderr
    assert call(*line).stdout == done.stdout[:done.stdout.index(str(tmp_path))], "the same again"
    rows = [row.split() for row in done.stdout.splitlines()[1:13]]
    losses = [float(row[4]) for row in rows]
    assert len(rows) == 12 and losses == sorted(losses, reverse=True) and losses[-1] > 0
    log = json.loads((games[0] / "game_0.json").read_text())
    for step, snake, played, better, _, team in rows:
        assert MOVES[made(log["steps"][int(step)])[LETTERS.index(snake)]] == played != better
        assert team == log["names"][LETTERS.index(snake) // 3]
    open_page(browser, tmp_path / "game.html")
    links = browser.find_elements(By.CSS_SELECTOR, "#blunders a")
    assert [(link.get_attribute("data-step"), link.text.split()[0]) for link in links] == [(row[0], row[1]) for row in rows]
    marks = browser.execute_script("return [...document.querySelectorAll('[data-blunder]')].map(e => e.dataset.blunder)")
    assert marks == [row[0] for row in rows]
    links[3].click()
    check_board(browser, log, int(rows[3][0]))
    panel = browser.find_element(By.ID, "why")
    assert panel.text.startswith(f"{rows[3][1]} of ") and f"goes {rows[3][2]}" in panel.text
    # The link of one that is already shown goes there again.
    press(browser, Keys.HOME)
    links[3].click()
    assert shown_step(browser) == int(rows[3][0]) and panel.is_displayed()


def test_a_name_is_text_and_never_markup(browser, log, tmp_path):
    names = [EVIL, "\u2028 & \"q\" 'q' \\u003c 蛇 \x1b"]
    page = make_page(write(tmp_path / "evil.json", log | {"names": names, "start_time": EVIL}), tmp_path / "evil.html")
    assert EVIL not in page.read_text() and "<img" not in page.read_text()
    open_page(browser, page)
    shown, title, scripts, hacked = browser.execute_script(
        "return [[...document.querySelectorAll('.name')].map(e => e.textContent), document.title, document.scripts.length, "
        "window.hacked === undefined]")
    assert shown == names and EVIL in title and scripts == 2 and hacked
    check_board(browser, log, 0)


def test_the_page_holds_all_it_needs_and_is_small(log, games, tmp_path):
    page = make_page(games[0] / "game_0.json", tmp_path / "game.html").read_text()
    assert set(re.findall(r"https?://[^\s\"'<>]+", page)) == {"http://www.w3.org/2000/svg"}, "a name, not an address"
    assert not re.search(r"\ssrc=|@import|url\(|fetch\(|import ", page), "nothing to fetch"
    assert len(page.encode()) < 300_000
    # In the worst case of 200 steps: a board full of snakes in each of them.
    full = json.loads(json.dumps(log))
    every = [[row, column] for row in range(10) for column in range(20)]
    for step in full["steps"]:
        step["info_after"]["snakes_position"] = [every[5 + 32 * i:5 + 32 * (i + 1)] for i in range(5)] + [every[165:]]
    assert len(full["steps"]) == 200
    assert make_page(write(tmp_path / "full.json", full), tmp_path / "full.html").stat().st_size < 300_000


def test_traces_and_the_references_own_logs_are_shown(browser, tmp_path):
    with gzip.open(DATA / "reference_log.json.gz", "rt") as file:
        reference = json.load(file)
    open_page(browser, make_page(DATA / "reference_log.json.gz", tmp_path / "reference.html"), place="#83")
    check_board(browser, reference, 83)
    open_page(browser, make_page(DATA / "games.jsonl.gz", tmp_path / "trace.html", "--game", "39"), place="#200")
    assert shown_step(browser) == 200
    with gzip.open(DATA / "games.jsonl.gz", "rt") as file:
        last = json.loads(file.readlines()[-1])
    assert heads_drawn(browser) == [body[0] for body in last["snakes"]]
