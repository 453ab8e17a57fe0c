"""The live view and the bar of a run, on pseudo terminals."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pyte
import pytest

from processes import BINARY, PATIENCE_S, TINY, clean_environment, descendants, flags, run_folder

TICK_S = 0.2  # more than a bar needs on its way


class Terminal:
    """snake_ddp in a terminal of so many columns."""

    def __init__(self, columns, settings, *more, rows=24, **variables):
        self.leader, follower = pty.openpty()
        self.screen = pyte.HistoryScreen(columns, 24, history=100_000, ratio=1)
        self.stream = pyte.ByteStream(self.screen)
        self.resize(columns, rows)
        self.begun = time.monotonic()
        variables = {"LANG": "C.UTF-8", "LC_ALL": "", "LC_CTYPE": ""} | variables
        self.process = subprocess.Popen([BINARY, *more, *flags(settings)], stdout=follower, env=clean_environment(**variables),
                                        stdin=subprocess.DEVNULL)
        os.close(follower)
        self.said = b""

    def resize(self, columns, rows=24):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def shown(self):
        """The rows that the terminal shows."""
        return [row.rstrip() for row in self.screen.display]

    def above(self):
        """The rows that have left the terminal at its top, and those that it shows."""
        gone = ["".join(row[x].data for x in range(self.screen.columns)).rstrip() for row in self.screen.history.top]
        return gone + self.shown()

    def text(self):
        return self.said.decode()

    def bars(self):
        return re.findall(r"\r(Training +\d[^\r\n\x1b]*)", self.text())

    def rows(self):
        """The rows of a terminal without escape codes."""
        shown = []
        for row in self.text().replace("\r\n", "\n").split("\n"):
            cells = ""
            for piece in row.split("\r"):
                cells = piece + cells[len(piece):]
            shown.append(cells.rstrip())
        return shown

    def read(self):
        """What came since; None at the end."""
        with contextlib.suppress(OSError):  # EIO: the last writer is gone
            if piece := os.read(self.leader, 65536):
                self.said += piece
                self.stream.feed(piece)
                return piece
        return None

    def wait_for_bar(self, pattern):
        seen = len(self.bars())
        until = time.monotonic() + PATIENCE_S
        while not any(re.search(pattern, bar) for bar in self.bars()[seen:]):
            assert self.read() is not None and time.monotonic() < until, f"no bar with {pattern!r}:\n{self.text()}"

    def wait_until(self, seen, what):
        until = time.monotonic() + PATIENCE_S
        while not seen(self.shown()):
            assert self.read() is not None and time.monotonic() < until, f"no {what}:\n" + "\n".join(self.shown())

    def finish(self):
        while self.read() is not None:
            pass
        os.close(self.leader)
        return self.process.wait(PATIENCE_S)


def percent(bar):
    return int(re.match(r"Training +(\d+)%", bar)[1])


def test_the_bar_of_a_run_fits_the_terminal_and_runs_against_its_time_limit(tmp_path):
    settings = TINY | {"runs_dir": tmp_path, "max_episodes": 10**9}
    terminal = Terminal(100, settings | {"max_minutes": 1000}, "train", rows=12, TERM="xterm")
    try:
        terminal.wait_for_bar(r"^Training   0% \|.*\| 16:\d\d:\d\d left, training win rate [\d.]+ %, [\d.]+k? steps/s")
        first = time.monotonic()
        terminal.resize(40, 12)
        time.sleep(TICK_S)
        terminal.wait_for_bar(r"^Training   0% \|.{5,}\| 16:\d\d:\d\d left$")
        time.sleep(max(1, 0.3 * (time.monotonic() - terminal.begun)))  # a share of the whole that a percentage can show
        terminal.process.send_signal(signal.SIGTERM)
        played_s = time.monotonic() - first
        assert terminal.finish() == 75, terminal.text()
    finally:
        terminal.process.kill()
        terminal.process.wait()
    wall_s = time.monotonic() - terminal.begun
    assert all(len(bar) < 100 for bar in terminal.bars()) and len(terminal.bars()[-1]) < 40
    assert re.search(r"^First update after \d+\.\d s: \d+ transitions in rank 0's replay\r$", terminal.text(), re.M)

    # The time that was used before counts: the first bar of the next start continues where the last one ended.
    folder = run_folder(terminal.text().replace("\r", ""))
    limit_s = 1.2 * wall_s + 0.5
    resumed = Terminal(100, settings | {"resume": folder, "max_minutes": limit_s / 60}, TERM="dumb")
    assert resumed.finish() == 0, resumed.text()
    assert percent(resumed.bars()[0]) >= int(100 * played_s / limit_s) > 5
    shares = [percent(bar) for bar in resumed.bars()]
    assert shares == sorted(shares) and shares[-1] <= 100
    assert "\x1b" not in resumed.text(), "a dumb terminal knows no escape codes"
    rows = resumed.rows()
    assert rows[-1] == "" and "Training completed!" in "\n".join(rows)
    assert not any(re.match(r"Training +\d", row) for row in rows), "lines take the bar's place"


def row(shown, name):
    """What a row of the live view says."""
    found = [line[12:] for line in shown if line.startswith(f"{name:<12}")]
    return found[0] if found else ""


LIVE = TINY | {"max_episodes": 10**9, "max_minutes": 1000, "eval_interval": 32, "eval_games": 20, "target_win_rate": 1.0, "num_envs": 2,
               "opponent_mix": "level0:0.5,league:0.5", "league_interval": 16, "league_games": 100}
NAMES = ("time", "evaluation", "training", "league", "loss", "speed")


@pytest.mark.parametrize("locale, signs", [("C.UTF-8", "▁▂▃▄▅▆▇█"), ("C", "_.-~=+*#")], ids=["UTF-8", "ASCII"])
def test_the_live_view_stays_below_the_lines_and_shows_what_the_log_says(tmp_path, locale, signs):
    settings = LIVE | {"runs_dir": tmp_path, "epsilon": 0.3, "epsilon_min": 0.01, "log_every_episode": True}  # another one on each board
    terminal = Terminal(100, settings, TERM="xterm", LANG=locale)
    try:
        terminal.wait_until(lambda shown: all(row(shown, name) for name in NAMES), "whole view")
        terminal.wait_until(lambda shown: len(row(shown, "evaluation").split("  ")[0]) >= 3, "third evaluation")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.finish() == 75
    finally:
        terminal.process.kill()
        terminal.process.wait()
    # The view disappears, lines stay: each is there once, whole and in order.
    log = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", "", next(tmp_path.glob("*/*/train.log")).read_text(), flags=re.M)
    log = re.sub(r"^Settings hash.*\n", "", log, flags=re.M)
    width = terminal.screen.columns
    wanted = [line[k:k + width].rstrip() for line in log.expandtabs(8).splitlines() for k in range(0, max(len(line), 1), width)]
    seen = terminal.above()
    assert seen[:len(wanted)] == wanted and not any(seen[len(wanted):])
    assert not any(row(terminal.shown(), name) for name in NAMES)
    # Its last contents are those of the log.
    views = re.findall(r"evaluation  (\S+) +([\d.]+) % \[([\d.]+), ([\d.]+)\], best ([\d.]+) / 100 %, 20 games against level2", terminal.text())
    reported = re.findall(r"^\[Evaluation .*: won ([\d.]+) % \[([\d.]+), ([\d.]+)\] of 20", log, re.M)
    assert {view[1:4] for view in views} <= set(reported) and len(views[-1][0]) >= 3 and set(views[-1][0]) <= set(signs)
    assert float(views[-1][4]) == max(float(rate) for rate, _, _ in reported[:len(views[-1][0])])
    elo = re.findall(r"league      \S+ +(Elo -?\d+ \[-?\d+, -?\d+\])", terminal.text())
    assert elo and all(f"] {words} above" in log for words in elo)
    epsilons = set(re.findall(r"training    .*epsilon (\d\.\d\d)", terminal.text()))
    assert epsilons and epsilons <= set(re.findall(r"epsilon: (\d\.\d\d)", log))


def test_the_live_view_gives_way_to_a_bar_where_it_has_no_room(tmp_path):
    terminal = Terminal(100, LIVE | {"runs_dir": tmp_path}, TERM="xterm")
    try:
        terminal.wait_until(lambda shown: row(shown, "speed"), "view")
        terminal.resize(100, 12)
        terminal.wait_for_bar("left")
        terminal.resize(100, 24)
        terminal.wait_until(lambda shown: row(shown, "speed"), "view again")
        terminal.resize(50)
        terminal.wait_for_bar("left")
    finally:
        terminal.process.kill()
        terminal.finish()


def test_the_live_view_shows_which_rank_the_others_wait_for(tmp_path):
    terminal = Terminal(110, LIVE | {"runs_dir": tmp_path, "eval_interval": 0, "target_win_rate": 0}, "--ddp", "--world_size", "2", TERM="xterm")
    try:
        terminal.wait_until(lambda shown: re.match(r"0 \d+ %, 1 \d+ % .*, [1-9]\d+ to \d+ MB$", row(shown, "ranks")), "ranks")
        family = descendants(terminal.process.pid)
        os.kill(family[1], signal.SIGSTOP)  # a rank that hangs: rank 0 waits in an all-reduce
        terminal.wait_until(lambda shown: re.match(r"\w.*, for [3-9] s$", row(shown, "now")), "word that nothing goes on")
        os.kill(family[1], signal.SIGCONT)
        terminal.wait_until(lambda shown: row(shown, "speed") and not row(shown, "now"), "work again")
        until = time.monotonic() + PATIENCE_S
        while "; the others wait for rank 1" not in row(terminal.shown(), "ranks"):  # not where it was stopped in the all-reduce
            assert time.monotonic() < until
            os.kill(family[1], signal.SIGSTOP)
            time.sleep(0.7)
            os.kill(family[1], signal.SIGCONT)
            after = time.monotonic() + 1.5
            while time.monotonic() < after and "wait for rank 1" not in row(terminal.shown(), "ranks"):
                terminal.read()
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.finish() == 75
    finally:
        for pid in [terminal.process.pid, *descendants(terminal.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        terminal.process.wait()
