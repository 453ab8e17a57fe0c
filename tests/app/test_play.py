"""A game in a pseudo terminal, whose other end types keys and reads the screen."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from processes import BINARY, DATA, PATIENCE_S, SOURCE, call, clean_environment, only_json

KEYS = {"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D"}
MOVES = ("up", "down", "left", "right")
TEAMS = ("--team_a", "level2", "--team_b", "level2")
FAST, SLOW = (*TEAMS, "--pace", "0.05"), (*TEAMS, "--pace", "0.3")


class Player:
    """A pseudo terminal of 80 x 24 with the program in it."""

    def __init__(self, *arguments, **variables):
        self.leader, self.follower = pty.openpty()
        fcntl.ioctl(self.follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.follower)
        variables = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "", "LC_CTYPE": "", "NO_COLOR": ""} | variables
        self.process = subprocess.Popen([BINARY, "play", *map(str, arguments)], stdin=self.follower, stdout=self.follower,
                                        stderr=self.follower, env=clean_environment(**variables), cwd=SOURCE, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.said = ""

    def press(self, *keys):
        os.write(self.leader, "".join(KEYS.get(key, key) for key in keys).encode())

    def read(self):
        if select.select([self.leader], [], [], 0.02)[0]:
            with contextlib.suppress(OSError):
                self.said += os.read(self.leader, 65536).decode(errors="replace")

    def wait_for(self, pattern, begin=0):
        until = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.said[begin:])):
            assert time.monotonic() < until and self.process.poll() is None, f"no {pattern!r} in {self.said[begin:][-3000:]}"
            self.read()
        return found

    def end(self):
        """The exit code; the terminal must be as it was."""
        until = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < until
            self.read()
        self.read()
        assert termios.tcgetattr(self.follower) == self.before
        return self.process.returncode


@pytest.fixture
def start():
    players = []

    def begin(*arguments, **variables):
        players.append(Player(*arguments, **variables))
        return players[-1]

    yield begin
    for player in players:
        if player.process.poll() is None:
            player.process.kill()
            player.process.wait()
        os.close(player.leader)
        os.close(player.follower)


def made(step, snake):
    return step["joint_action"][snake][0].index(1)


def verified(path):
    checked = only_json(call("verify-trace", path, "--json").stdout)
    assert checked["mismatches"] == 0
    return json.loads(path.read_text())


def test_the_snake_turns_on_keys_and_otherwise_goes_straight_on(start, tmp_path):
    player = start(*SLOW, "--seed", 3, "--snake", "B", "--record", tmp_path / "new" / "game.json")
    player.wait_for("You are B")
    player.press(" ")
    player.wait_for("step 2/200")
    # In quick succession: a turn and, in the next step, another; both are legal in either direction.
    for pair in (("w", "d"), ("k", "l"), ("down", "left")):
        player.press(*pair)
        step = int(re.findall(r"step (\d+)/200", player.said)[-1])
        player.wait_for(rf"step {step + 3}/200")
    player.press("q")
    assert player.end() == 0
    log = verified(tmp_path / "new" / "game.json")
    assert log["truncated"] is True and log["names"] == ["you (B) and level2", "level2"]
    before = [MOVES.index(step["info_before"]["directions"][1]) for step in log["steps"]]
    chosen = [made(step, 1) for step in log["steps"]]
    assert all(move != direction ^ 1 for move, direction in zip(chosen, before)), "never back"
    turned = [move for move, direction in zip(chosen, before) if move != direction]
    assert len(turned) >= 3, "each pair has a turn, whichever way the snake went"
    assert len(chosen) - len(turned) >= 2, "and without a key it goes straight on"
    assert "Ended after" in player.said and f"snake_ddp replay {tmp_path}" in player.said


def test_a_single_key_makes_exactly_that_move_or_none_if_it_leads_back(start, tmp_path):
    player = start(*SLOW, "--seed", 3, "--record", tmp_path / "game.json")
    player.wait_for("You are A")
    player.press("q")
    assert player.end() == 0
    direction = MOVES.index(verified(tmp_path / "game.json")["init_info"]["directions"][0])
    for key in KEYS:
        goes_back = MOVES.index(key) == direction ^ 1
        player = start(*SLOW, "--seed", 3, "--record", tmp_path / "game.json")
        player.wait_for("You are A")
        player.press(key)  # begins, and turns
        player.wait_for("step 1/200")
        player.press("q")
        assert player.end() == 0
        move = made(verified(tmp_path / "game.json")["steps"][0], 0)
        assert move == (direction if goes_back else MOVES.index(key)), key


def test_a_pause_holds_the_game(start):
    player = start(*FAST)
    player.wait_for("You are A")
    time.sleep(0.5)
    player.read()
    assert "step 1/200" not in player.said, "it waits for the first key"
    player.press(" ")
    player.wait_for("step 3/200")
    player.press(" ")
    player.wait_for("Paused")
    at = len(player.said)
    time.sleep(0.5)
    player.read()
    assert "step" not in player.said[at + 600:], "one picture of the pause, and no more"
    player.press(" ")
    player.wait_for(r"step \d+/200", at + 600)
    player.press("Q")
    assert player.end() == 0


@pytest.mark.parametrize("ending", ["Ctrl-C", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_terminal_is_restored_whatever_ends_the_game(start, ending, tmp_path):
    player = start(*FAST, "--record", tmp_path / "game.json")
    player.wait_for("You are A")
    assert termios.tcgetattr(player.follower) != player.before
    player.press("up")
    player.wait_for("step 2/200")
    if ending == "Ctrl-C":
        player.press("\x03")
    else:
        player.process.send_signal(ending)
    assert player.end() == 0
    assert player.said.count("\x1b[?1049h") == player.said.count("\x1b[?1049l") == 1
    assert player.said.rindex("\x1b[?25h") > player.said.rindex("\x1b[?25l") and "Ended after" in player.said
    assert len(verified(tmp_path / "game.json")["steps"]) >= 2


def test_a_whole_game_ends_with_its_score(start, tmp_path):
    player = start(*FAST, "--seed", 5, "--record", tmp_path / "game.json")
    player.wait_for("You are A")
    player.press(" ")
    assert player.end() == 0
    log = verified(tmp_path / "game.json")
    assert len(log["steps"]) == 200 and "truncated" not in log
    mine, theirs = sum(log["n_return"][:3]), sum(log["n_return"][3:])
    words = "You win!" if mine > theirs else "You lose." if mine < theirs else "A draw."
    assert f"{words} {mine} : {theirs}" in player.said and "Seed 5" in player.said


def test_a_game_continues_from_a_log_on_exactly_its_board(start, tmp_path):
    done = call("eval", "--team_a", "level2", "--team_b", "level1", "--games", "1", "--record", tmp_path)
    assert done.returncode == 0
    game = tmp_path / "game_0.json"
    old = json.loads(game.read_text())
    player = start(*FAST, "--from", game, "--step", 120, "--snake", "e", "--record", tmp_path / "on.json")
    player.wait_for("step 120/200")
    player.press(" ")
    player.wait_for("step 123/200")
    player.press("q")
    assert player.end() == 0
    new = verified(tmp_path / "on.json")
    assert new["steps"][:120] == old["steps"][:120] and len(new["steps"]) >= 123
    assert new["steps"][120]["info_before"] == old["steps"][120]["info_before"]
    assert new["names"] == ["level2", "you (E) and level2"]
    reference = call("play", *FAST, "--from", DATA / "reference_log.json.gz", "--step", 9, "--record", tmp_path / "on.json")
    assert reference.returncode == 2 and "does not contain the chosen moves" in reference.stderr
    for step, words in (("200", ["--step 200", "200 steps", "199"]), ("201", ["step"])):
        refused = call("play", *FAST, "--from", game, "--step", step)
        assert refused.returncode == 2 and all(word in refused.stderr for word in words)


def test_a_planted_blunder_is_found(start, tmp_path):
    # A long snake that is steered into its own body.
    done = call("eval", "--team_a", "models/champion.pth", "--team_b", "models/champion.pth", "--games", "1", "--record", tmp_path, cwd=SOURCE)
    assert done.returncode == 0, done.stderr
    old = json.loads((tmp_path / "game_0.json").read_text())
    for step in range(60, 190):
        bodies = old["steps"][step - 1]["info_after"]["snakes_position"]
        snake = max(range(6), key=lambda i: len(bodies[i]))
        row, column = bodies[snake][0]
        direction = MOVES.index(old["steps"][step]["info_before"]["directions"][snake])
        walls = [cell for body in bodies for cell in body[:-1]]
        there = {d: [(row + down) % 10, (column + right) % 20] for d, (down, right) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1)))}
        fatal = [d for d, cell in there.items() if cell in walls and d != direction ^ 1]
        free = [d for d, cell in there.items() if cell not in walls and cell not in [body[-1] for body in bodies]]
        if len(bodies[snake]) > 14 and fatal and free:
            break
    else:
        raise AssertionError("no such board")
    player = start("--from", tmp_path / "game_0.json", "--step", step, "--snake", "ABCDEF"[snake], "--record", tmp_path / "bad.json",
                   "--pace", "0.3")
    player.wait_for(rf"step {step}/200")
    player.press(MOVES[fatal[0]])
    player.wait_for("You died")
    player.press("q")
    assert player.end() == 0
    verified(tmp_path / "bad.json")
    done = call("replay", tmp_path / "bad.json", "--blunders", "--judge", "models/champion.pth:puct30", cwd=SOURCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[:3] == [str(step), "ABCDEF"[snake], MOVES[fatal[0]]]


def test_the_default_command_is_a_game_against_the_champion(start):
    player = start()
    player.wait_for("You are A")
    player.press("up")
    player.wait_for(r"step 2/200")
    player.press("q")
    assert player.end() == 0


@pytest.mark.parametrize("variables, colour, blocks", [
    ({}, True, True), ({"NO_COLOR": "1"}, False, False), ({"LANG": "C"}, True, False), ({"TERM": "dumb"}, False, False)])
def test_a_terminal_gets_what_it_can_show(start, variables, colour, blocks):
    player = start(*FAST, **variables)
    player.wait_for("q ends")
    player.press("q")
    assert player.end() == 0
    frame = player.said[:player.said.index("q ends")]
    assert ("\x1b[38;5;" in frame or "\x1b[97;44m" in frame) == colour
    assert ("▀" in frame) == blocks
    if not blocks:
        frame.encode("ascii")
    if variables.get("TERM") == "dumb":
        assert "\x1b" not in player.said
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame).replace("\r", "").split("\n")
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert sum("foe" in line for line in lines) == 3 and sum("mate" in line for line in lines) == 2


def test_a_terminal_that_is_too_small_is_told_and_the_game_waits(start):
    player = start(*FAST)
    player.wait_for("Turn or press space")
    for size, words in (((10, 30), "30 x 10 is too small,[^e]*is enough"), ((24, 80), "step 0/200")):
        begin = len(player.said)
        fcntl.ioctl(player.follower, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        player.press(" ", " ")
        player.wait_for(words, begin)
    player.press("q")
    assert player.end() == 0


def test_without_a_terminal_it_is_an_error():
    done = call("play", *FAST)
    assert done.returncode == 2 and "needs a terminal" in done.stderr and done.stdout == ""
    done = call("play", *FAST, "--step", "3")
    assert done.returncode == 2 and "--from" in done.stderr
