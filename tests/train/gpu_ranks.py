"""Several ranks on one GPU: the steps of launch/gpu_check.sh that need more than one. `gpu_ranks.py RANKS STEP [LEARNER]`

What a step finds is its last line; exit code 1 if that is wrong. NCCL lets ranks share a GPU from 2.30 on: SNAKE_DDP_NCCL names a
libnccl.so.2, which the ranks preload. SNAKE_DDP_RANKS_ON=cpu runs the same steps with Gloo in place of NCCL, which tests their logic.
"""

import os
import pathlib
import re
import signal
import sys
import tempfile
import time

from chaos import bits, newest_checkpoint
from processes import BINARY, BUILD, SOURCE, THROUGH_GLOO, TINY, fingerprint, flags, free_port, ranks_by_hand, run_folder, starter, torchrun

ON_CPU = os.environ.get("SNAKE_DDP_RANKS_ON") == "cpu"
PROBE = str(BUILD / "tests" / "train" / "train_probe")
NCCL = os.environ.get("SNAKE_DDP_NCCL", "")
SHARED = {"LD_PRELOAD": NCCL, "NCCL_MULTI_RANK_GPU_ENABLE": 1, "NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "WARN")}
DIST_TIMEOUT_S = 15
PLACE = {"device": "cpu"} if ON_CPU else {"device": "cuda", "dist_backend": "nccl", "boards": "device", "cuda_graph": "on"}
# The same run with another way to add up: on a CPU through shared memory.
OTHER_SUMS = {"device": "cpu"} if ON_CPU else {"device": "cuda", "dist_backend": "gloo", "boards": "device"}
RUN = TINY | {"max_episodes": 16, "buffer_size": 600, "dist_timeout": DIST_TIMEOUT_S, "join_timeout": 60, "checkpoint_interval": 2,
              "resume": "auto", "check_consistency": 20} | PLACE
# What all-reduces may need where ranks share a GPU: each line is tried where the one before hangs.
SETTINGS = [{}, {"NCCL_MAX_CTAS": 1}, {"NCCL_MAX_CTAS": 1, "NCCL_NET_GDR_LEVEL": "LOC"}]


class Wrong(Exception):
    """What a step found is not as it should be."""


def need(right, what):
    if not right:
        raise Wrong(what)


def variables(ranks):
    return THROUGH_GLOO if ON_CPU else SHARED | ({"NCCL_MAX_CTAS": 1} if ranks > 2 else {})


class Steps:
    def __init__(self, ranks, folder, start):
        self.ranks, self.folder, self.start = ranks, folder, start
        self.runs = 0

    # Starting

    def own(self, settings):
        """A run's settings, in a folder of its own unless they name one."""
        self.runs += 1
        return flags(RUN | {"runs_dir": self.folder / f"runs{self.runs}"} | settings)

    def under_torchrun(self, *command):
        run = torchrun(self.start, self.ranks, *command, **variables(self.ranks))
        need(run.wait() == 0, run.text())
        return run.text()

    def by_hand(self, settings, size=None, **more):
        """Ranks whose exit codes are seen."""
        size = size or self.ranks
        return ranks_by_hand(self.start, size, *self.own(settings), **variables(size) | more)

    def ends(self, ranks, codes):
        got = [rank.wait() for rank in ranks]
        need(got == codes, f"exit codes {got}, not {codes}:\n" + "\n".join(rank.text() for rank in ranks))
        return ranks[0]

    def to_its_end(self, size=None, **settings):
        return self.ends(self.by_hand(settings, size), [0] * (size or self.ranks))

    def begun(self):
        """Ranks by hand in the middle of their run: something has been saved and, on a GPU, recorded."""
        ranks = self.by_hand({"runs_dir": self.folder / "stopped"})
        while not newest_checkpoint(self.folder / "stopped"):
            need(ranks[0].popen.poll() is None, ranks[0].text())
            time.sleep(0.02)
        return ranks

    # The steps

    def reduce(self):
        """Which settings of NCCL all-reduces need here; the first try, in case they hang."""
        for number, settings in enumerate(SETTINGS[:1] if ON_CPU else SETTINGS):
            ranks = ranks_by_hand(self.start, self.ranks, "union", "ddpg", "softmax", PLACE["device"], self.folder / f"{number}.pth",
                                  program=PROBE, **variables(self.ranks) | settings)
            until = time.monotonic() + 20
            while time.monotonic() < until and any(rank.popen.poll() is None for rank in ranks):
                time.sleep(0.1)
            if all(rank.popen.poll() == 0 for rank in ranks):
                return "works with: " + " ".join(f"{name}={value}" for name, value in settings.items())
            for rank in ranks:
                print(f"with {settings}: exit code {rank.popen.poll()}: {rank.text()[-2000:]}", flush=True)
                rank.popen.kill()
        raise Wrong("no setting makes all-reduces work")

    def weights(self, learner):
        """Boards on the device or in main memory, recorded or plain: the same weights; ranks compare theirs every 20 updates."""
        found = {}
        for boards in ("device", "host"):
            for graph in ("off", "on"):
                text = self.under_torchrun(BINARY, *self.own({"algo": learner, "boards": boards, "cuda_graph": graph, "max_episodes": 2}))
                found[boards, graph] = fingerprint(text)
                print(f"boards {boards}, cuda_graph {graph}: {found[boards, graph]['line']}", flush=True)
                need(len(set(found[boards, graph]["ranks"].values())) == self.ranks, "ranks played the same games")
        need(len({each["line"] for each in found.values()}) == 1, "other weights, boards or batches")
        return f"{len(found)} runs, weights {found['device', 'on']['weights']}"

    def union(self, learner):
        """The ranks' updates are those of one rank with all their batches."""
        import torch
        files = [self.folder / name for name in ("together.pth", "alone.pth")]
        command = [PROBE, "union", learner, "softmax", PLACE["device"]]
        self.under_torchrun(*command, files[0])
        alone = self.start([*command, files[1]])
        need(alone.wait() == 0, alone.text())
        together, alone = (torch.load(file, weights_only=True) for file in files)
        need(list(together) == list(alone), "other tensors")
        # An Adam divides by the root of a mean of squares: rounding may move a weight by a share of one update's step.
        apart = max(float((together[name].double() - alone[name].double()).abs().max()) for name in alone if "_adam." not in name)
        need(apart < 1e-5, f"weights differ by {apart:.3g} after 8 updates with rate 0.003")
        return f"weights differ by {apart:.3g} at most"

    def sums(self):
        """NCCL's sums against Gloo's: the same course of 200 updates."""
        courses = []
        for place, found in ((PLACE, variables(self.ranks)), (OTHER_SUMS, {} if ON_CPU else variables(self.ranks))):
            kept = {name: value for name, value in RUN.items() if name not in PLACE}
            line = flags(kept | place | {"cuda_graph": "off", "max_episodes": 2, "log_every_episode": True, "runs_dir": self.folder / f"sums{len(courses)}"})
            text = self.ends(ranks_by_hand(self.start, self.ranks, *line, **found), [0] * self.ranks).text()
            updates = int(re.search(r"(\d+) updates in", text)[1])
            need(updates >= 200, f"{updates} updates")
            courses.append((fingerprint(text)["weights"], course(text)))
        (weights, first), (others, second) = courses
        if weights == others:
            return f"{updates} updates with the same bits"
        need(len(first) == len(second), f"{len(first)} and {len(second)} numbers")
        apart = max(abs(a - b) / (1 + abs(b)) for a, b in zip(first, second, strict=True))
        need(apart < 1e-3, f"the courses differ by {apart:.3g}")
        return f"{updates} updates, {len(first)} numbers, {apart:.3g} apart at most"

    def struck(self, number):
        """A rank dies or stops in the middle: the others end in time and name it, and the run goes on to the bits of one that nothing befell."""
        expected = bits(self.to_its_end())
        ranks = self.begun()
        victim = ranks[1]
        victim.popen.send_signal(number)
        struck_at = time.monotonic()
        codes = [rank.wait() for rank in ranks if rank is not victim]
        took = time.monotonic() - struck_at
        victim.popen.kill()
        victim.popen.wait()
        need(codes == [3] * (self.ranks - 1), f"exit codes {codes}:\n{ranks[0].text()}")
        need(took < 2 * DIST_TIMEOUT_S + 10, f"the others ended after {took:.0f} s")
        need(re.search(rf"rank 1 on \S+ \(pid {victim.popen.pid}\)", ranks[0].text()), f"rank 1 is not named:\n{ranks[0].text()}")
        got = bits(self.to_its_end(runs_dir=self.folder / "stopped"))
        need(got == expected, f"{got}, not {expected}")
        return f"the others ended after {took:.1f} s; resumed: {expected}"

    def killed(self):
        return self.struck(signal.SIGKILL)

    def suspended(self):
        return self.struck(signal.SIGSTOP)

    def asked(self):
        """SIGTERM to one rank: a checkpoint, and all end with 75."""
        expected = bits(self.to_its_end())
        ranks = self.begun()
        ranks[-1].popen.send_signal(signal.SIGTERM)
        self.ends(ranks, [75] * self.ranks)
        saved = newest_checkpoint(self.folder / "stopped").name
        got = bits(self.to_its_end(runs_dir=self.folder / "stopped"))
        need(got == expected, f"{got}, not {expected}")
        return f"{saved}; resumed: {expected}"

    def sizes(self):
        """Other numbers of ranks go on with a run."""
        seen = []
        for size in (self.ranks, 1, self.ranks):
            text = self.to_its_end(size, max_episodes=8 * (len(seen) + 1), runs_dir=self.folder / "sizes").text()
            need(has_ranks(size, text), text)
            seen.append(run_folder(text))
        need(len(set(seen)) == 1, f"several runs: {seen}")
        return f"{self.ranks}, 1 and {self.ranks} ranks in {seen[0].name}"

    def late(self):
        """A rank that comes seconds later than the others."""
        port, line = free_port(), self.own({})
        group = variables(self.ranks) | {"WORLD_SIZE": self.ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks = [self.start([BINARY, *line], RANK=rank, **group) for rank in range(self.ranks - 1)]
        time.sleep(5)
        ranks.append(self.start([BINARY, *line], RANK=self.ranks - 1, **group))
        self.ends(ranks, [0] * self.ranks)
        return "trained once it was there"

    def absent(self):
        """A rank that never comes."""
        group = variables(self.ranks) | {"WORLD_SIZE": self.ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        line = self.own({"join_timeout": 5})
        ranks = [self.start([BINARY, *line], RANK=rank, **group) for rank in range(self.ranks - 1)]
        text = self.ends(ranks, [3] * (self.ranks - 1)).text()
        said = re.search(rf"1 of {self.ranks} ranks did not join within 5 s: rank {self.ranks - 1}", text)
        need(said and ranks[0].took_s < 30, text)
        return said[0]

    def version(self):
        """The last rank has LibTorch's NCCL."""
        group = {"WORLD_SIZE": self.ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        line = self.own({})
        ranks = [self.start([BINARY, *line], RANK=rank, **group, **variables(self.ranks) | ({"LD_PRELOAD": ""} if rank == self.ranks - 1 else {}))
                 for rank in range(self.ranks)]
        text = self.ends(ranks, [2] * self.ranks).text()
        said = re.search(rf"rank {self.ranks - 1} on \S+ has NCCL \S+, rank 0 on \S+ NCCL \S+: all ranks need the same one", text)
        need(said, text)
        return said[0]

    def script(self):
        run = self.start([SOURCE / "train_ddp.sh", *self.own({})], NPROC=self.ranks, **variables(self.ranks))
        need(run.wait() == 0 and has_ranks(self.ranks, run.text()), run.text())
        return fingerprint(run.text())["line"]


def has_ranks(size, text):
    return re.search(rf": {size} [CG]PU ranks? on ", text) is not None


def course(text):
    """The numbers of the lines about episodes."""
    lines = re.findall(r"^\[Episode \d+\].*$", text, re.M)
    need(lines, f"no lines about episodes in:\n{text}")
    return [float(number) for line in lines for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", line)]


def main(ranks, step, *learner):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("too slow"))  # the ranks end, too
    with tempfile.TemporaryDirectory(prefix="snake_ddp_ranks.") as scratch, starter(pathlib.Path(scratch)) as start:
        try:
            print(getattr(Steps(int(ranks), pathlib.Path(scratch), start), step)(*learner))
        except (Wrong, AssertionError) as wrong:
            sys.exit(f"{wrong}\nFAILED: {ranks} ranks, {step}: {str(wrong).splitlines()[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
