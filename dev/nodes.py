#!/usr/bin/env python3
"""Two machines on a slow network, played by two network namespaces of this one: what averaging over both costs.

  dev/nodes.py --delay_ms 0.1 0.5 2 --gbit 1 10 --ranks 2 --seconds 10 --out nodes -- --hidden_size 256

Needs root, /dev/net/tun and iproute2. A relay passes packets between the namespaces: it holds each back for --delay_ms, and
for as long as the packets before it and itself occupy a line of --gbit. Both are floors, so the round trip of one byte over
TCP is measured too. Each namespace has a host name of its own and --ranks ranks. For each network all --kinds of run, in turn,
--rounds times: "apart" (as many single runs at once, no network), "nodes" (a machine's ranks add in shared memory, one of each talks to the other), and "local"
(the same, --local_updates of --interval, with --outer_momentum). The table has updates a second, of all ranks together, and their ratio to "apart";
medians. Flags after -- are the runs'.
"""
import argparse
import collections
import contextlib
import ctypes
import fcntl
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET, PR_SET_TIMERSLACK = 0x400454CA, 0x0001, 0x1000, 0x40000000, 29
MTU = 9000
LIBC = ctypes.CDLL(None, use_errno=True)


def address(node):
    return f"10.77.0.{node + 1}"


def inside(holder, *command):
    return ["nsenter", "--target", str(holder.pid), "--net", "--uts", "--", *map(str, command)]


@contextlib.contextmanager
def namespaces():
    """Two processes that hold a network namespace and a host name each, and the open ends of their lines."""
    holders, lines = [], []
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        for node in range(2):
            script = f"hostname node-{'ab'[node]} && echo ready && exec sleep infinity"
            holders.append(subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", script], stdout=subprocess.PIPE))
            if holders[node].stdout.readline() != b"ready\n":
                sys.exit("this system gives no network namespace: start the bench as root, with unshare and hostname installed")
            there = os.open(f"/proc/{holders[node].pid}/ns/net", os.O_RDONLY)
            enter(there)
            try:
                lines.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
                fcntl.ioctl(lines[node], TUNSETIFF, struct.pack("16sH", b"line", IFF_TUN | IFF_NO_PI))
            finally:
                enter(own)
                os.close(there)
            for what in (["link", "set", "lo", "up"], ["addr", "add", f"{address(node)}/24", "dev", "line"],
                         ["link", "set", "line", "mtu", MTU, "up"]):
                subprocess.run(inside(holders[node], "ip", *what), check=True)
        yield holders, lines
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
        for descriptor in [*lines, own]:
            os.close(descriptor)


def enter(namespace):
    if LIBC.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def relay(lines, delay_s, bytes_per_s):
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    ways = [(lines[0], lines[1], collections.deque()), (lines[1], lines[0], collections.deque())]
    free_at = [0.0, 0.0]
    while True:
        now = time.perf_counter()
        for _, out, waiting in ways:
            while waiting and waiting[0][0] <= now:
                with contextlib.suppress(BlockingIOError):  # a full queue drops, as a switch does
                    os.write(out, waiting.popleft()[1])
        due = [waiting[0][0] for _, _, waiting in ways if waiting]
        ready, _, _ = select.select(lines, [], [], max(0.0, min(due) - time.perf_counter()) if due else None)
        for k, (source, _, waiting) in enumerate(ways):
            if source not in ready:
                continue
            packet = os.read(source, 65536)
            free_at[k] = max(free_at[k], time.perf_counter()) + len(packet) / bytes_per_s
            waiting.append((free_at[k] + delay_s, packet))


@contextlib.contextmanager
def network(lines, delay_ms, gbit):
    process = multiprocessing.Process(target=relay, args=(lines, delay_ms / 1e3, gbit * 1e9 / 8), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def round_trip_us(holders):
    """Of one byte over TCP, median of 300."""
    serve = (f"import socket; socket.setdefaulttimeout(60); s = socket.create_server(({address(0)!r}, 7700)); print('up', flush=True); c = s.accept()[0]\n"
             "c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\nwhile d := c.recv(1): c.send(d)")
    ask = (f"import socket, statistics, time; c = socket.create_connection(({address(0)!r}, 7700), 10); t = []\n"
           "c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
           "for _ in range(300):\n b = time.perf_counter(); c.send(b'x'); c.recv(1); t.append(time.perf_counter() - b)\n"
           "print(statistics.median(t) * 1e6)")
    with subprocess.Popen(inside(holders[0], sys.executable, "-c", serve), stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        return float(subprocess.run(inside(holders[1], sys.executable, "-c", ask), check=True, capture_output=True, timeout=60).stdout)


def updates_per_second(commands, seconds, folder):
    """Of groups of ranks that run at once: the sum over all groups and ranks."""
    running = []
    try:
        for group in commands:
            running.append([subprocess.Popen(command, env={**os.environ, **env, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, text=True, cwd=folder) for command, env in group])
        total = 0
        for group in running:
            outputs = [process.communicate(timeout=seconds + 120)[0] for process in group]
            if any(process.returncode for process in group):
                sys.exit("a run failed:\n" + "\n".join(outputs))
            total += len(group) * int(re.search(r"(\d+) updates in", outputs[0])[1])
        return total / seconds
    finally:
        for process in itertools.chain(*running):
            process.kill()
            process.wait()


KINDS = {"nodes": [], "local": ["--local_updates"]}


def measure(holders, kind, line, folder):
    flags = [line.binary, "--max_minutes", line.seconds / 60, "--max_episodes", 10**9, "--threads", 1, *line.flags]
    ranks = 2 * line.ranks
    if kind == "apart":
        runs = [[(inside(holders[r % 2], *flags, "--seed", r + 1, "--runs_dir", f"{folder}/{r}"), {})] for r in range(ranks)]
    else:
        more = [*KINDS[kind], *([line.interval, "--outer_momentum", line.outer_momentum] if kind == "local" else [])]
        runs = [[(inside(holders[r // line.ranks], *flags, *more, "--runs_dir", f"{folder}/{kind}"),
                  {"RANK": str(r), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(r % line.ranks), "LOCAL_WORLD_SIZE": str(line.ranks),
                   "MASTER_ADDR": address(0), "MASTER_PORT": "7711"}) for r in range(ranks)]]
    return updates_per_second(runs, line.seconds, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay_ms", type=float, nargs="+", default=[0.1, 0.5, 2.0], help="one way")
    parser.add_argument("--gbit", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--ranks", type=int, default=2, help="of each machine")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), help="of runs, beside apart")
    parser.add_argument("--interval", type=int, default=32, help="updates between averages of weights in local")
    parser.add_argument("--outer_momentum", type=float, default=0.0, help="of these averages")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "snake_ddp")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("nodes"), help="writes OUT.md and OUT.json")
    parser.add_argument("flags", nargs="*", help="of the runs, after --")
    line = parser.parse_args()
    line.binary = line.binary.resolve()
    rows = []
    with namespaces() as (holders, lines), tempfile.TemporaryDirectory() as folder:
        for gbit in line.gbit:
            for delay_ms in line.delay_ms:
                with network(lines, delay_ms, gbit):
                    found = collections.defaultdict(list)
                    for _ in range(line.rounds):
                        for kind in ("apart", *line.kinds):
                            found[kind].append(measure(holders, kind, line, folder))
                    row = {kind: statistics.median(rates) for kind, rates in found.items()}
                    rows.append({"ranks": line.ranks, "interval": line.interval, "delay_ms": delay_ms, "gbit": gbit, "round_trip_us": round_trip_us(holders), **row})
                    print(rows[-1], file=sys.stderr, flush=True)
    text = f"2 x {line.ranks} ranks, updates a second of all ranks together\n\n"
    heads = ["Gbit/s", "delay, ms", "round trip, us", "apart", *line.kinds, *(f"{kind} / apart" for kind in line.kinds)]
    text += f"| {' | '.join(heads)} |\n|" + "---|" * len(heads) + "\n"
    for r in rows:
        cells = [f"{r['gbit']:g}", f"{r['delay_ms']:g}", *(f"{r[name]:.0f}" for name in ("round_trip_us", "apart", *line.kinds)),
                 *(f"{r[kind] / r['apart']:.3f}" for kind in line.kinds)]
        text += f"| {' | '.join(cells)} |\n"
    line.out.with_suffix(".md").write_text(text)
    line.out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
