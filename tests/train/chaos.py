"""Runs with a fault at a random moment, and their results. Started by tests/chaos.sh; ten of them are in the suite."""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import sys
import tempfile
import time

from processes import (STARTER, TINY, Process, call, descendants, fingerprint, flags, is_alive, only_json, run_folder,
                       wait_until_loading, worker_pids)

RANKS = 3
DIST_TIMEOUT_S = 4
JOIN_TIMEOUT_S = 15  # a rank that hangs before it has joined is detected only by this
NOTICE_LIMIT_S = 60  # join_timeout or dist_timeout, the survivors' farewell, the launcher's patience
SETTINGS = TINY | {"max_episodes": 40, "buffer_size": 600, "n_step": 3, "checkpoint_interval": 4, "eval_interval": 15,
                   "eval_games": 12, "dist_timeout": DIST_TIMEOUT_S, "join_timeout": JOIN_TIMEOUT_S, "resume": "auto",
                   "check_consistency": 50}
LONG_GAMES = {"eval_games": 1500}  # most of the run's time is evaluation then; it changes no bits


def newest_checkpoint(runs):
    found = runs.glob("snakes_3v3/*/checkpoints/step_*")
    return max((path for path in found if path.is_dir()), key=lambda path: path.name, default=None)


def send(number, to):
    def fault(run, dice):
        pids = sorted(worker_pids(run, RANKS).values())
        struck = {"one": [dice.choice(pids)], "all": pids, "launcher": [run.popen.pid]}[to]
        for pid in struck:
            os.kill(pid, number)
        return struck if number in (signal.SIGKILL, signal.SIGSTOP) else []
    return fault


def send_while_loading(number, to):
    def fault(run, dice):
        until = time.monotonic() + NOTICE_LIMIT_S
        while not (pids := [run.popen.pid] if to == "launcher" else descendants(run.popen.pid)) and time.monotonic() < until:
            time.sleep(0.002)
        pid = dice.choice(pids)
        wait_until_loading(pid)
        os.kill(pid, number)
    return fault


def stray_connection(run, _dice):
    pid = next(iter(worker_pids(run, RANKS).values()))
    variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    port = next(int(v.split("=")[1]) for v in variables if v.startswith("MASTER_PORT="))
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(range(256)) * 8)


def killed_with_a_damaged_checkpoint(run, dice):
    send(signal.SIGKILL, "all")(run, dice)
    run.wait()
    folder = pathlib.Path(run.runs)
    newest = newest_checkpoint(folder)
    if newest is None or len(list(newest.parent.glob("step_*"))) < 2:
        return
    path = dice.choice(sorted(newest.iterdir()))
    data = bytearray(path.read_bytes())
    if dice.random() < 0.5 or not data:
        path.write_bytes(data[:len(data) // 2])
    else:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)


def killed_with_a_part_that_cannot_be_read(run, dice):
    send(signal.SIGKILL, "all")(run, dice)
    run.wait()
    newest = newest_checkpoint(pathlib.Path(run.runs))
    if newest is None:
        return
    before = set(newest.parent.iterdir())
    part = dice.choice(sorted(newest.iterdir()))
    kept = part.rename(part.with_suffix(".kept"))
    part.symlink_to(part)  # who opens it goes round in circles
    refused = begin(run.output.parent, run.runs, "_refused")
    if end_within(refused, 120) is None or refused.popen.returncode != 4:
        run.trouble = f"what cannot be read is not refused:\n{refused.text()}"
    elif set(newest.parent.iterdir()) != before:
        run.trouble = f"what cannot be read is set aside:\n{refused.text()}"
    part.unlink()
    kept.rename(part)


def killed_beside_foreign_entries(run, dice):
    send(signal.SIGKILL, "all")(run, dice)
    run.wait()
    game = pathlib.Path(run.runs) / "snakes_3v3"
    game.mkdir(parents=True, exist_ok=True)
    (game / "run70_20260101.tar.gz").write_bytes(bytes(100))
    (game / "run71_gone").symlink_to("nowhere")
    (game / "run72_circle").symlink_to("run72_circle")
    (game / "run73_empty").mkdir()
    for checkpoints in game.glob("run*/checkpoints"):
        (checkpoints / "step_999999999999").write_bytes(bytes(100))


def no_room(run, _dice):
    import resource
    for pid in worker_pids(run, RANKS).values():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))


@dataclasses.dataclass
class Fault:
    do: object  # gives the processes that cannot notice it themselves
    ends: bool  # the run is expected to end before its time, and how long that takes is measured
    under: tuple = ()  # what starts the run
    at_start: bool = False  # else at a random moment
    settings: dict = dataclasses.field(default_factory=dict)  # of the run that it happens to


FAULTS = {
    "a rank killed": Fault(send(signal.SIGKILL, "one"), True),
    "all ranks killed": Fault(send(signal.SIGKILL, "all"), True),
    "the launcher killed": Fault(send(signal.SIGKILL, "launcher"), True),
    "a rank hangs": Fault(send(signal.SIGSTOP, "one"), True),
    "SIGTERM to a rank": Fault(send(signal.SIGTERM, "one"), True),
    "SIGTERM to all": Fault(send(signal.SIGTERM, "all"), True),
    "SIGHUP to the launcher": Fault(send(signal.SIGHUP, "launcher"), True),
    "SIGTERM to a rank in its first second": Fault(send_while_loading(signal.SIGTERM, "one"), True, at_start=True),
    "SIGHUP to the launcher in the first second": Fault(send_while_loading(signal.SIGHUP, "launcher"), True, at_start=True),
    "SIGUSR2 to a rank in its first second": Fault(send_while_loading(signal.SIGUSR2, "one"), False, at_start=True),
    "SIGTERM to a rank in an evaluation": Fault(send(signal.SIGTERM, "one"), True, settings=LONG_GAMES),
    "SIGINT to the launcher": Fault(send(signal.SIGINT, "launcher"), True),
    "SIGUSR1 to a rank": Fault(send(signal.SIGUSR1, "one"), True),
    "SIGUSR2 to a rank": Fault(send(signal.SIGUSR2, "one"), False),
    "killed, newest checkpoint damaged": Fault(killed_with_a_damaged_checkpoint, True),
    "killed, a part cannot be read": Fault(killed_with_a_part_that_cannot_be_read, True),
    "killed beside foreign entries": Fault(killed_beside_foreign_entries, True),
    "no room for checkpoints": Fault(no_room, False),
    "garbage on the store's port": Fault(stray_connection, False),
    "a rank killed, closed descriptors": Fault(send(signal.SIGKILL, "one"), True, ("bash", "-c", 'exec "$@" <&- 2>&-', "bash")),
}


@dataclasses.dataclass
class Verdict:
    fault: str
    notice_s: float | None = None  # from the fault to the end of the first rank that can notice it
    end_s: float | None = None  # to the end of all processes
    trouble: str = ""


def begin(folder, runs, number, under=(), **settings):
    process = Process([*under, STARTER, "--ddp", "--world_size", str(RANKS), *flags(SETTINGS | {"runs_dir": runs} | settings)],
                      folder / f"output{number}.txt")
    process.runs = runs
    process.trouble = ""  # of a fault that looks for itself
    return process


def bits(run):
    """Hashes of the weights and of all boards. Who goes on from the very end draws no batch any more."""
    return re.sub(r" batch \w+", "", fingerprint(run.text())["line"])


def end_within(process, limit_s, witnesses=()):
    """Waits for a run and its ranks. Returns seconds to the first witness's end, and to that of all; None if they do not end."""
    begun, first = time.monotonic(), None
    while time.monotonic() < begun + limit_s:
        now = time.monotonic() - begun
        ended = process.popen.poll() is not None
        if first is None and (ended or not all(is_alive(pid) for pid in witnesses)):
            first = now
        if ended and not any(is_alive(pid) for pid in witnesses):
            return first, now
        time.sleep(0.02)
    return None


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def one_run(name, dice, usual_s, expected, folder):
    """A run with one fault, started again until it is done."""
    runs = folder / "runs"
    verdict = Verdict(name)
    run = begin(folder, runs, 0, FAULTS[name].under, **FAULTS[name].settings)
    everybody = []
    try:
        if not FAULTS[name].at_start:
            time.sleep(dice.uniform(0.1, 0.9) * usual_s)
        if run.popen.poll() is None:
            witnesses = []
            with contextlib.suppress(AssertionError, ProcessLookupError):  # it ended just then
                struck = (FAULTS[name].do(run, dice) if FAULTS[name].at_start else []) or []
                ranks = list(worker_pids(run, RANKS).values())
                everybody = [run.popen.pid, *ranks]
                struck += ([] if FAULTS[name].at_start else FAULTS[name].do(run, dice)) or []
                witnesses = [pid for pid in ranks if pid not in struck]
            if run.trouble:
                verdict.trouble = run.trouble
                return verdict
            took = end_within(run, NOTICE_LIMIT_S if FAULTS[name].ends else 120, witnesses)
            if took is None:
                verdict.trouble = f"hangs:\n{run.text()}"
                return verdict
            if FAULTS[name].ends:
                verdict.notice_s, verdict.end_s = took if witnesses else (None, took[1])
        for number in range(1, 4):
            if run.wait() == 0:
                break
            kill_all(everybody)  # ranks whose launcher was killed end by themselves; a stopped one cannot
            run = begin(folder, runs, number, FAULTS[name].under)
            everybody = [run.popen.pid, *descendants(run.popen.pid)]
            if end_within(run, 120) is None:
                verdict.trouble = f"hangs after its restart:\n{run.text()}"
                return verdict
        if run.wait() != 0:
            verdict.trouble = f"never ends well:\n{run.text()}"
        elif bits(run) != expected:
            verdict.trouble = f"other bits:\n{run.text()}"
        else:
            reported = only_json(call("info", "--json", run_folder(run.text())).stdout)
            if not reported["whole"] or not reported["checkpoints"]:
                verdict.trouble = f"checkpoints lost: {reported['broken']}"
        return verdict
    finally:
        kill_all(everybody)
        if run.popen.poll() is None:
            kill_all([run.popen.pid, *descendants(run.popen.pid)])
        run.popen.wait()


def spread(times):
    known = [t for t in times if t is not None]
    return f"{statistics.median(known):.1f} s, {max(known):.1f} s" if known else "–"


def many_runs(count, seed, scratch, say=print, at_once=1):
    say(f"seed {seed}")
    for number in range(2):  # the first one also reads the program from disk
        usual = begin(scratch, scratch / f"usual{number}", number)
        assert usual.wait() == 0, usual.text()
    usual_s, expected = usual.took_s, bits(usual)
    names = list(FAULTS)
    random.Random(seed).shuffle(names)

    def run(number):
        folder = scratch / f"run{number}"
        folder.mkdir()
        verdict = one_run(names[number % len(names)], random.Random(f"{seed} {number}"), usual_s, expected, folder)
        if verdict.trouble:
            say(f"run {number}: {verdict.fault}: {verdict.trouble}")
        return verdict

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        verdicts = list(pool.map(run, range(count)))
    say(f"{'fault':<36} {'tried':>5} {'survived':>8} {'noticed after':>18} {'ended after':>18}   (median, worst)")
    for name in FAULTS:
        mine = [v for v in verdicts if v.fault == name]
        if mine:
            say(f"{name:<36} {len(mine):>5} {sum(not v.trouble for v in mine):>8} {spread([v.notice_s for v in mine]):>18} "
                f"{spread([v.end_s for v in mine]):>18}")
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--at_once", type=int, default=1, help="runs at the same time; more than 1 delays what is measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snake_ddp_chaos.") as scratch:
        verdicts = many_runs(arguments.runs, arguments.seed, pathlib.Path(scratch), at_once=arguments.at_once)
    troubles = sum(bool(v.trouble) for v in verdicts)
    print(f"{len(verdicts) - troubles} survived, {troubles} did not")
    sys.exit(troubles > 0)


if __name__ == "__main__":
    main()
