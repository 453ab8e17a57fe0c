"""Foreign connections to the ports of a run: garbage, silence, hang-ups, and crowds."""

import collections
import contextlib
import random
import re
import socket
import struct
import subprocess
import threading
import time

import pytest

from processes import BINARY, THROUGH_GLOO, TINY, descendants, fingerprint, flags, free_port, starter, torchrun

RUN = TINY | {"checkpoint_interval": 0, "max_episodes": 24}  # time for enough visits to rank 1
SILENT = 40  # connections at each port that stay and say little or nothing
HTTP = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin


def listeners(pids):
    """{(program, address, port)} of the sockets on which these processes listen."""
    reported = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    found = set()
    for line in reported.splitlines():
        address, _, port = line.split()[3].rpartition(":")
        for program, pid in re.findall(r'\("([^"]+)",pid=(\d+)', line):
            if int(pid) in pids:
                found.add((program, address, int(port)))
    return found


def family(processes):
    found = set()
    for process in processes:
        found.add(process.popen.pid)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # ended meanwhile
            found.update(descendants(process.popen.pid))
    return found


class Strangers:
    """Connects to every port on which snake_ddp listens in some processes, until it is stopped."""

    def __init__(self, processes, seed):
        self.processes = processes
        self.random = random.Random(seed)
        self.visits = collections.Counter()  # by (program, address, port)
        self.guests = collections.defaultdict(list)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.come)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for guests in self.guests.values():
            for guest in guests:
                guest.close()

    def come(self):
        while not self.ended.is_set():
            for place in (p for p in listeners(family(self.processes)) if p[0] == "snake_ddp"):
                for _ in range(10):
                    with contextlib.suppress(OSError):  # the other side may hang up at any time, or be gone
                        self.visit(place)
                        self.visits[place] += 1

    def visit(self, place):
        guest = socket.create_connection(("127.0.0.1", place[2]), timeout=2)
        if len(self.guests[place]) < SILENT:
            self.guests[place].append(guest)
            guest.sendall(self.random.choice([b"", b"\x00", b"\x03\xce\xf7"]))
            return
        with guest:
            guest.sendall(self.random.choice([HTTP, self.random.randbytes(self.random.randrange(1, 4000)), b"\xff" * 64,
                                              b"SSH-2.0-OpenSSH_9.2\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]))
            if self.random.random() < 0.5:  # hangs up without a farewell
                guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def wait_for_visits(self, least, at_least_ports=1):
        until = time.monotonic() + 60
        while len([place for place, n in self.visits.items() if n >= least]) < at_least_ports:
            assert time.monotonic() < until, self.visits
            time.sleep(0.05)


def weights_of(processes):
    assert [p.wait() for p in processes] == [0] * len(processes), "\n".join(p.text() for p in processes)
    return fingerprint(next(p.text() for p in processes if "Fingerprint" in p.text()))["weights"]


def by_hand(start, runs, port, ranks=(0, 1)):
    return [start([BINARY, *flags(RUN | {"runs_dir": runs})], RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                  **THROUGH_GLOO) for rank in ranks]


def test_strangers_neither_disturb_the_joining_nor_the_training(start, tmp_path):
    undisturbed = weights_of(by_hand(start, tmp_path / "quiet", free_port()))
    port = free_port()
    ranks = by_hand(start, tmp_path / "loud", port, ranks=[0])
    with Strangers(ranks, seed=1) as strangers:
        strangers.wait_for_visits(100)  # while rank 0 waits for rank 1
        ranks += by_hand(start, tmp_path / "loud", port, ranks=[1])
        assert weights_of(ranks) == undisturbed
    visited = {place: n for place, n in strangers.visits.items() if n > SILENT}
    assert len(visited) == 3, f"the store and what both ranks' Gloo listens on: {strangers.visits}"
    assert {address for _, address, _ in visited} == {"127.0.0.1"}, "nothing listens on other interfaces"


def test_strangers_do_not_disturb_a_run_under_torchrun(start, tmp_path):
    # They do not connect to torchrun's own store: its one thread looks up the host name of each client, and a crowd
    # blocks it for as long as the resolver takes (PyTorch 2.11; docs/operations.md).
    quiet = weights_of([torchrun(start, 2, BINARY, *flags(RUN | {"runs_dir": tmp_path / "quiet"}), **THROUGH_GLOO)])
    run = torchrun(start, 2, BINARY, *flags(RUN | {"runs_dir": tmp_path / "loud"}), **THROUGH_GLOO)
    with Strangers([run], seed=2) as strangers:
        assert weights_of([run]) == quiet
    visited = {place: n for place, n in strangers.visits.items() if n > SILENT}
    assert len(visited) == 2, f"what both ranks' Gloo listens on: {strangers.visits}"
    assert {address for _, address, _ in visited} == {"127.0.0.1"}, "nothing of ours listens on other interfaces"
