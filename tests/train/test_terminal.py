"""What a person at a terminal sees of a run."""

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

from processes import BINARY, PATIENCE_S, TINY, clean_environment, flags, run_folder

TICK_S = 0.2  # more than a bar needs on its way


class Terminal:
    """snake_ddp in a terminal of so many columns."""

    def __init__(self, columns, settings, **variables):
        self.leader, follower = pty.openpty()
        self.resize(columns)
        self.begun = time.monotonic()
        self.process = subprocess.Popen([BINARY, *flags(settings)], stdout=follower, env=clean_environment(**variables),
                                        stdin=subprocess.DEVNULL)
        os.close(follower)
        self.said = b""

    def resize(self, columns):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

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
                return piece
        return None

    def wait_for_bar(self, pattern):
        seen = len(self.bars())
        until = time.monotonic() + PATIENCE_S
        while not any(re.search(pattern, bar) for bar in self.bars()[seen:]):
            assert self.read() is not None and time.monotonic() < until, f"no bar with {pattern!r}:\n{self.text()}"

    def finish(self):
        while self.read() is not None:
            pass
        os.close(self.leader)
        return self.process.wait(PATIENCE_S)


def percent(bar):
    return int(re.match(r"Training +(\d+)%", bar)[1])


def test_the_bar_of_a_run_fits_the_terminal_and_runs_against_its_time_limit(tmp_path):
    settings = TINY | {"runs_dir": tmp_path, "max_episodes": 10**9}
    terminal = Terminal(100, settings | {"max_minutes": 1000}, TERM="xterm")
    try:
        terminal.wait_for_bar(r"^Training   0% \|.*\| 16:\d\d:\d\d left, training win rate [\d.]+ %, [\d.]+k? steps/s")
        first = time.monotonic()
        terminal.resize(40)
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

    # The time that was used before counts: the first bar of the next start goes on where the last one ended.
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
