"""The program's surroundings: closed, full and stopped descriptors, terminals, and text that is not UTF-8."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import termios
import time

import pytest

from processes import BINARY, DATA, PATIENCE_S, TINY, clean_environment, descendants, flags, free_port, only_json, wait_until_gone

RUN = TINY | {"checkpoint_interval": 0}
# Many lines, and few of anything else.
WORDY = RUN | {"episode_length": 1, "num_envs": 8, "updates_per_step": 0, "log_every_episode": True}
GAMES = DATA / "games.jsonl.gz"


def popen(line, **options):
    return subprocess.Popen([BINARY, *map(str, line)], env=clean_environment(), **options)


def closing(*numbers):
    def close():
        for number in numbers:
            os.close(number)
    return close


@contextlib.contextmanager
def stopped_reader():
    """A pipe with little room that nobody reads: (its reading end, its writing end)."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    try:
        yield reading, writing
    finally:
        for end in (reading, writing):
            with contextlib.suppress(OSError):
                os.close(end)


def only_run(runs):
    folders = list((runs / "snakes_3v3").iterdir())
    assert len(folders) == 1
    return folders[0]


def wait_for(condition, what):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.02)


def log_of(runs):
    """train.log without its times; empty before there is one."""
    logs = list(runs.glob("snakes_3v3/*/train.log"))
    text = logs[0].read_text() if logs else ""
    return re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", "", text, flags=re.M)


# Standard descriptors


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
@pytest.mark.parametrize("launcher", [[], ["--ddp", "--world_size", "2"]], ids=["alone", "ranks"])
def test_closed_descriptors_take_no_file_s_place(tmp_path, closed, launcher):
    run = popen([*launcher, *flags(RUN | {"runs_dir": tmp_path})], preexec_fn=closing(*closed))
    assert run.wait(PATIENCE_S) == 0
    for log in only_run(tmp_path).glob("train*.log"):
        lines = log.read_text().splitlines()
        assert lines and all(re.match(r"\d{4}-\d\d-\d\d |\t\t\t\t", line) for line in lines), "the console is in the log"
    assert "Training completed!" in log_of(tmp_path)


WRONG = {"usage": (2, ["--gamma", "2"]), "a missing file": (4, ["eval", "--team_a", "/none.pth", "--team_b", "random"]),
         "a group that nobody joins": (3, [*flags(RUN), "--join_timeout", "0.2"])}
DEAD_ENDS = ["closed", "/dev/full", "a pipe without a reader", "a pipe that nobody reads"]


@pytest.mark.parametrize("wrong, end", [*(("usage", end) for end in DEAD_ENDS), ("a missing file", "closed"),
                                        ("a group that nobody joins", "/dev/full"),
                                        ("a group that nobody joins", "a pipe that nobody reads")])
def test_an_error_that_nobody_can_read_has_its_exit_code(tmp_path, wrong, end):
    code, line = WRONG[wrong]
    rank = {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()} if code == 3 else {}
    with stopped_reader() as (reading, writing), open("/dev/full", "wb") as full:
        options = {"stdout": subprocess.DEVNULL, "stderr": writing, "env": clean_environment(**rank), "cwd": tmp_path}
        if end == "closed":
            options |= {"stderr": None, "preexec_fn": closing(2)}
        elif end == "/dev/full":
            options["stderr"] = full
        elif end == "a pipe without a reader":
            os.close(reading)
        else:
            os.write(writing, b"x" * 4096)
        assert subprocess.Popen([BINARY, *line], **options).wait(PATIENCE_S) == code


def test_a_reader_that_leaves_ends_nothing(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as out:
        run = popen(flags(RUN | {"runs_dir": tmp_path}), stdout=out)
        assert run.wait(PATIENCE_S) == 0
        assert "Training completed!" in log_of(tmp_path)
        record = tmp_path / "games"
        # The other output that was requested is there.
        for line in (["eval", "--team_a", "random", "--team_b", "random", "--games", "2", "--show", "1", "--record", record],
                     ["train", "--help"], ["info"], ["verify-trace", GAMES], ["replay", GAMES, "--text"]):
            assert popen(line, stdout=out).wait(PATIENCE_S) == 0, line
        assert len(list(record.iterdir())) == 2


def test_a_result_that_has_no_room_is_reported(tmp_path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BINARY, "info", "--json"], env=clean_environment(), stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S)
        assert done.returncode == 4 and "stdout: No space left on device" in done.stderr
        done = subprocess.run([BINARY, "info", "--json"], env=clean_environment(), preexec_fn=closing(1), stderr=subprocess.PIPE,
                              text=True, timeout=PATIENCE_S)
        assert done.returncode == 4 and "stdout: Bad file descriptor" in done.stderr
        # Of a run it is the console, and no more.
        assert popen(flags(RUN | {"runs_dir": tmp_path}), stdout=full).wait(PATIENCE_S) == 0
    assert "Training completed!" in log_of(tmp_path)


# Readers that stop reading


def test_a_reader_that_stops_reading_does_not_stop_a_run(tmp_path):
    with stopped_reader() as (_, writing):
        run = popen(flags(WORDY | {"runs_dir": tmp_path, "max_episodes": 4000}), stdout=writing, stderr=writing)
        assert run.wait(PATIENCE_S) == 0
    log = log_of(tmp_path)
    assert "[Episode 04000]" in log
    assert int(re.search(r"^(\d+) console lines were dropped$", log, re.M)[1]) > 1000


def test_a_reader_that_continues_gets_the_number_of_missing_lines(tmp_path):
    with stopped_reader() as (reading, writing):
        run = popen(flags(WORDY | {"runs_dir": tmp_path, "max_episodes": 10**9}), stdout=writing)
        os.close(writing)
        try:
            wait_for(lambda: "[Episode 05000]" in log_of(tmp_path), "5000 episodes")
            seen = b""
            with open(reading, "rb", closefd=False) as pipe:
                while b"console lines were dropped" not in seen or not seen.endswith(b"\n"):
                    seen += pipe.readline()
                run.send_signal(signal.SIGTERM)
                seen += pipe.read()
            assert run.wait(PATIENCE_S) >= 0
        finally:
            run.kill()
    log = [line for line in log_of(tmp_path).splitlines() if not re.search("console lines were dropped$|^Settings hash", line)]
    at, notes = 0, 0
    for line in seen.decode().splitlines():
        if missing := re.fullmatch(r"(\d+) console lines were dropped; all are in train.log", line):
            at, notes = at + int(missing[1]), notes + 1
        else:
            assert line == log[at], "a note is where its lines would be"
            at += 1
    assert notes > 0 and at == len(log)


@pytest.mark.parametrize("how", ["Ctrl-S", "nobody reads"])
def test_a_terminal_that_hangs_does_not_stop_a_run(tmp_path, how):
    leader, follower = pty.openpty()
    try:
        if how == "Ctrl-S":
            termios.tcflow(follower, termios.TCOOFF)
        run = popen(flags(WORDY | {"runs_dir": tmp_path, "max_episodes": 10000}), stdin=follower, stdout=follower, stderr=follower)
        assert run.wait(PATIENCE_S) == 0
        assert "[Episode 10000]" in log_of(tmp_path)
        assert bool(select.select([leader], [], [], 0)[0]) == (how == "nobody reads")
    finally:
        os.close(leader)
        os.close(follower)


def test_ranks_whose_messages_nobody_reads_end_as_others_do(tmp_path):
    with stopped_reader() as (_, writing):
        run = popen(["--ddp", "--world_size", "2", *flags(WORDY | {"runs_dir": tmp_path, "max_episodes": 10**9, "dist_timeout": 2})],
                    stdout=writing, stderr=writing)
        try:
            wait_for(lambda: "[Episode 04000]" in log_of(tmp_path), "4000 episodes")
            family = descendants(run.pid)
            assert len(family) == 2
            os.kill(family[1], signal.SIGKILL)
            assert run.wait(PATIENCE_S) == 3
            wait_until_gone(family, PATIENCE_S)
        finally:
            for pid in [run.pid, *descendants(run.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            run.wait()


# Text that is not UTF-8


def test_text_that_is_not_utf_8_is_a_usage_error_with_its_bytes(tmp_path):
    for line, words in (([b"--runs_dir", b"caf\xe9"], r"--runs_dir caf\xe9: not UTF-8"),
                        ([b"--log_dir=\xff\xfe"], r"--log_dir=\xff\xfe: not UTF-8"),
                        ([b"--resume", b"\xc3"], r"--resume \xc3: not UTF-8"),
                        ([b"eval", b"--team_a", b"\xe9.pth", b"--team_b", b"random", b"--json"], r"--team_a \xe9.pth: not UTF-8"),
                        ([b"info", b"\xa0"], r"\xa0: not UTF-8"), ([b"--\xe9", b"1"], r"--\xe9: not UTF-8")):
        done = subprocess.run([BINARY.encode(), *line], env=clean_environment(), capture_output=True, cwd=tmp_path, timeout=PATIENCE_S)
        assert done.returncode == 2 and words in done.stderr.decode(), (line, done)
    assert not list(tmp_path.iterdir())


def test_a_working_folder_whose_name_is_not_utf_8_serves_as_any_other(tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)

    def here(*line):
        done = subprocess.run([BINARY, *map(str, line)], env=clean_environment(), capture_output=True, cwd=folder, timeout=PATIENCE_S)
        assert done.returncode == 0, done
        return done.stdout

    settings = TINY | {"max_episodes": 2, "checkpoint_interval": 1, "resume": "auto"}
    here("--ddp", "--world_size", "2", *flags(settings))
    assert b"Resumed from checkpoint" in here("--ddp", "--world_size", "2", *flags(settings | {"max_episodes": 6}))
    run = next(pathlib.Path(os.fsdecode(folder)).glob("runs/snakes_3v3/run1_*"))
    assert only_json(here("info", "--json", run.relative_to(os.fsdecode(folder))).decode())["whole"]
