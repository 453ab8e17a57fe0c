"""Two machines: network namespaces with a cable between them, addresses and host names of their own, a torchrun in each."""

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from processes import BINARY, TINY, clean_environment, fingerprint, flags, starter, worker_pids

PORT = 29500
NODES = ("node-a", "node-b")
NETWORKS = {"IPv4": ("10.77.0.1", "10.77.0.2"), "IPv6": ("fd77::1", "fd77::2")}
counter = itertools.count()


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class TwoNodes:
    def __init__(self, folder, family):
        self.folder = folder
        self.addresses = NETWORKS[family]
        self.spaces = [f"sd{os.getpid()}-{next(counter)}-{node}" for node in NODES]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{address} {node}\n" for address, node in zip(self.addresses, NODES)))

    def make(self):
        for space in self.spaces:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("link", "add", "cable", "netns", self.spaces[0], "type", "veth", "peer", "name", "cable", "netns", self.spaces[1])
        for space, address in zip(self.spaces, self.addresses):
            if ":" in address:
                ip("-n", space, "addr", "add", f"{address}/64", "dev", "cable", "nodad")
            else:
                ip("-n", space, "addr", "add", f"{address}/24", "dev", "cable")
            ip("-n", space, "link", "set", "cable", "up")

    def cut(self):
        ip("-n", self.spaces[0], "link", "set", "cable", "down")

    def remove(self):
        for space in self.spaces:
            with contextlib.suppress(OSError):
                ip("netns", "del", space)

    def on(self, node, *command):
        """`command` as it would be started on that machine: its network, its host name, its /etc/hosts."""
        within = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
        return ["ip", "netns", "exec", self.spaces[node], "unshare", "--uts", "--mount", "sh", "-c", within, "sh",
                str(self.folder / "hosts"), NODES[node], *map(str, command)]


@pytest.fixture
def two_nodes(tmp_path):
    made = []

    def make(family):
        missing = [tool for tool in ("ip", "unshare", "mount", "hostname") if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"{', '.join(missing)} missing: apt-get install iproute2 util-linux hostname")
        nodes = TwoNodes(tmp_path, family)
        made.append(nodes)
        try:
            nodes.make()
            for node in range(2):
                subprocess.run(nodes.on(node, "true"), check=True, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here (they need root): {getattr(error, 'stderr', None) or error}")
        return nodes

    yield make
    for nodes in made:
        nodes.remove()


def start_both(start, nodes, master, settings, *more):
    def torchrun(node):
        return nodes.on(node, sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1",
                        "--rdzv-backend=c10d", f"--rdzv-endpoint={master}:{PORT}", "--rdzv-id=test", *more, "--no-python",
                        BINARY, *flags(settings))

    return [start(torchrun(node)) for node in range(2)]


@pytest.mark.parametrize("family, master", [("IPv4", "10.77.0.1"), ("IPv4", "node-a"), ("IPv6", "fd77::1")])
def test_two_machines_train(two_nodes, tmp_path, family, master):
    nodes = two_nodes(family)
    with starter(tmp_path) as start:
        both = start_both(start, nodes, master, TINY | {"runs_dir": tmp_path})
        assert [run.wait() for run in both] == [0, 0], both[0].text() + both[1].text()
    text = both[0].text() + both[1].text()
    assert len(fingerprint(text)["ranks"]) == 2
    assert re.search(r"2 rank\(s\) on (node-a, node-b|node-b, node-a), cpu", text)


def test_x(two_nodes, tmp_path):
    limit_s = 6
    nodes = two_nodes("IPv4")
    with starter(tmp_path) as start:
        both = start_both(start, nodes, "node-a", TINY | {"runs_dir": tmp_path, "max_episodes": 10**9, "dist_timeout": limit_s})
        until = time.monotonic() + 60
        while not any("[Episode " in run.text() for run in both):
            assert time.monotonic() < until
            time.sleep(0.05)
        for n in range(2):
            print(subprocess.run(nodes.on(n, "ss", "-Htnlp"), capture_output=True, text=True).stdout)
            print(subprocess.run(nodes.on(n, "ss", "-Htnp"), capture_output=True, text=True).stdout)
        nodes.cut()
        cut = time.monotonic()
        codes = []
        while len(codes) < 2 and time.monotonic() - cut < 120:
            codes = [r.popen.poll() for r in both if r.popen.poll() is not None]
            time.sleep(.1)
            if len(codes) == 1 and not hasattr(nodes, "first"):
                nodes.first = 1
                print("one ended after", time.monotonic() - cut)
        print("both ended", codes, time.monotonic() - cut)
    print(both[0].text())
    print("------------------------------")
    print(both[1].text())
    assert 0
