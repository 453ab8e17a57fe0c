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

from processes import BINARY, PATIENCE_S, TINY, fingerprint, flags, starter

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


def start_both(start, nodes, settings, each):
    return [start(nodes.on(node, sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", *each(node),
                           "--no-python", BINARY, *flags(settings))) for node in range(2)]


def c10d(master):
    return lambda node: ["--rdzv-backend=c10d", f"--rdzv-endpoint={master}:{PORT}", "--rdzv-id=test"]


def static(master):
    return lambda node: [f"--node_rank={node}", f"--master_addr={master}", f"--master_port={PORT}"]


def listeners(nodes, node):
    """{port: program} of what listens on that machine."""
    done = subprocess.run(nodes.on(node, "ss", "--no-header", "-ltnp"), check=True, capture_output=True, text=True, timeout=30)
    return {int(port): program for port, program in re.findall(r":(\d+)\s+\S+:\*\s+users:\(\(\"([^\"]+)", done.stdout)}


def wait_for_training(both):
    until = time.monotonic() + PATIENCE_S
    while not any("episode 1  " in run.text() for run in both):
        assert time.monotonic() < until and all(run.popen.poll() is None for run in both), both[0].text() + both[1].text()
        time.sleep(0.05)


@pytest.mark.parametrize("family, how", [("IPv4", c10d("node-a")), ("IPv4", static("10.77.0.1")), ("IPv6", c10d("fd77::1"))],
                         ids=["name", "IPv4", "IPv6"])
def test_two_machines_train(two_nodes, tmp_path, family, how):
    nodes = two_nodes(family)
    with starter(tmp_path) as start:
        both = start_both(start, nodes, TINY | {"runs_dir": tmp_path}, how)
        assert [run.wait() for run in both] == [0, 0], both[0].text() + both[1].text()
    text = both[0].text() + both[1].text()
    assert len(fingerprint(text)["ranks"]) == 2
    assert re.search(r": 2 CPU ranks on (node-a, node-b|node-b, node-a), ", text), text


def test_a_cut_cable_ends_both_sides_and_each_names_the_missing_rank(two_nodes, tmp_path):
    limit_s = 6
    nodes = two_nodes("IPv4")
    for space in nodes.spaces:
        ip("netns", "exec", space, "sh", "-c", "echo 41000 41099 > /proc/sys/net/ipv4/ip_local_port_range")
    with starter(tmp_path) as start:
        both = start_both(start, nodes, TINY | {"runs_dir": tmp_path, "max_episodes": 10**9, "dist_timeout": limit_s},
                          static("node-a"))
        wait_for_training(both)
        open_on = [listeners(nodes, node) for node in range(2)]
        nodes.cut()
        cut = time.monotonic()
        assert [run.wait() for run in both] == [1, 1]
        took_s = time.monotonic() - cut
    on_a, on_b = (run.text() for run in both)
    assert took_s < 60, on_a + on_b  # on an idle machine 4 s more than the limit
    assert "no word from rank 1 on node-b" in on_a
    assert re.search(rf"no word from rank 0 on node-a|the launcher's store at node-a:{PORT} is lost", on_b), on_b
    for text in (on_a, on_b):
        assert re.search(r"exitcode  : 3 ", text) and f"(limit {limit_s}.0 s)" in text, text
    # The ports that launch/two_nodes.md lists: the store's, and the system's range for the ranks.
    assert PORT in open_on[0] and PORT not in open_on[1]
    assert all(port == PORT or 41000 <= port <= 41099 for ports in open_on for port in ports), open_on
    assert all("snake_ddp" in ports.values() for ports in open_on), open_on
