#!/usr/bin/env python3
"""Runs the Python DDP trainer and snake_ddp in turn on this machine, on CPU with Gloo, and prints their speeds.

  dev/python_reference.py CHECKOUT [--python PYTHON] [--ranks 2] [--seconds 40] [--rounds 2]

CHECKOUT is a working copy of the Python trainer, the one whose `rl_trainer/main_ddp.py` takes the flags of snake_ddp's
README; you bring it yourself. PYTHON is an interpreter with its imports (torch, numpy, tensorboardX, tqdm, pyyaml).
Both play the reference's schedule: one board, one update of batch 128 a step, hidden 256; one thread and one core a rank.

The trainer is written for NVIDIA GPUs with NCCL. Its files are not changed; here its calls of torch are redirected to
the CPU: the backend is Gloo, "cuda:N" is the CPU, as many devices as ranks. Steps and updates are
counted around its `update`, which it calls once a step.
"""
import argparse
import functools
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WARM_UPDATES = 20


# ---- inside the Python trainer's process ---------------------------------------------------------------------------

class OnCpu:
    """torch as the trainer's learner sees it: every device is the CPU."""

    def __init__(self, torch):
        self._torch = torch

    def __getattr__(self, name):
        return getattr(self._torch, name)

    def device(self, *_):
        return self._torch.device("cpu")


def play_trainer(rl_trainer, seconds, result_file):
    """Starts main_ddp.py in this process, and ends the process `seconds` after its first updates."""
    import runpy
    import warnings

    import torch
    import torch.distributed
    warnings.filterwarnings("ignore")  # of lists of arrays made into tensors, once a step
    torch.set_num_threads(1)
    size = int(os.environ["WORLD_SIZE"])
    torch.cuda.device_count = lambda: size
    torch.cuda.set_device = lambda *_: None
    join = torch.distributed.init_process_group
    torch.distributed.init_process_group = lambda backend, **rest: join(backend="gloo", **rest)
    wrapper = torch.nn.parallel.DistributedDataParallel
    torch.nn.parallel.DistributedDataParallel = lambda module, device_ids, output_device, **rest: wrapper(module, **rest)

    sys.path.insert(0, rl_trainer)
    sys.path.insert(0, str(pathlib.Path(rl_trainer).parent))
    import algo.ddpg_ddp as learner
    learner.torch = OnCpu(torch)
    update = learner.DDPG_DDP.update
    counted = {"updates": 0, "begin": 0.0}

    @functools.wraps(update)
    def counting(self):
        losses = update(self)
        if self.c_loss is None:  # replay holds no batch yet
            return losses
        counted["updates"] += 1
        if counted["updates"] == WARM_UPDATES:
            counted["begin"] = time.perf_counter()
        passed = time.perf_counter() - counted["begin"]
        if counted["updates"] > WARM_UPDATES and passed >= seconds:
            made = counted["updates"] - WARM_UPDATES
            pathlib.Path(result_file).write_text(json.dumps({"updates": made, "seconds": passed}))
            os._exit(0)  # in the middle of its loop: it has no other way to stop
        return losses

    learner.DDPG_DDP.update = counting
    sys.argv = ["main_ddp.py"]
    runpy.run_path(str(pathlib.Path(rl_trainer) / "main_ddp.py"), run_name="__main__")


# ---- outside -------------------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def python_updates_per_s(line, checkout, ranks, cores):
    """Updates per second of one rank."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "trainer"  # it writes its runs beside its sources
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "models", "replay"))
        port = free_port()
        started = []
        for rank in range(ranks):
            result = pathlib.Path(folder) / f"{rank}.json"
            environment = os.environ | {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                "CUDA_VISIBLE_DEVICES": ""}
            command = ["taskset", "-c", str(cores[rank]), line.python, __file__, "--inside", str(copy / "rl_trainer"),
                       str(line.seconds), str(result)]
            with open(pathlib.Path(folder) / f"{rank}.txt", "wb") as said:
                started.append((result, subprocess.Popen(command, env=environment, stdout=said, stderr=said)))
        try:
            # The first that has its number ends the others' wait for it.
            until = time.monotonic() + line.seconds + 120
            while not any(result.exists() and result.stat().st_size for result, _ in started):
                if all(process.poll() is not None for _, process in started) or time.monotonic() > until:
                    sys.exit("the Python trainer ended without a number; it said:\n"
                             + (pathlib.Path(folder) / "0.txt").read_text(errors="replace")[-3000:])
                time.sleep(0.2)
        finally:
            for _, process in started:
                process.kill()
                process.wait()
        found = next(json.loads(result.read_text()) for result, _ in started if result.exists() and result.stat().st_size)
        return found["updates"] / found["seconds"]


def our_rates(bench, seconds, ranks):
    """{ranks: (steps/s, updates/s)} of one rank."""
    done = subprocess.run([bench, "train", "--json", "--rounds", "1", "--seconds", str(seconds), "--ranks",
                           str(ranks)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    rows = {row["name"]: row["value"] for row in json.loads(done.stdout)["benches"]}
    return {size: tuple(rows[f"train_{what}_{size}_rank{'s' * (size > 1)}"] / size for what in ("steps", "updates"))
            for size in {1, ranks}}


def main():
    if sys.argv[1:2] == ["--inside"]:
        return play_trainer(sys.argv[2], float(sys.argv[3]), sys.argv[4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bench", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/release/dev/bench/bench"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=40, help="of each measurement of the Python trainer")
    parser.add_argument("--our_seconds", type=float, default=10, help="of each of ours, which makes more updates")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="steps of all ranks per second in each round")
    line = parser.parse_args()
    if not (line.checkout / "rl_trainer" / "main_ddp.py").is_file():
        parser.error(f"{line.checkout} has no rl_trainer/main_ddp.py")
    cores = sorted(os.sched_getaffinity(0))[:line.ranks]
    if len(cores) < line.ranks:
        parser.error(f"--ranks {line.ranks} needs as many cores; there are {len(cores)}")

    worlds = sorted({1, line.ranks})
    theirs = {ranks: [] for ranks in worlds}
    ours = {ranks: [] for ranks in worlds}
    for _ in range(line.rounds):
        for ranks in worlds:
            theirs[ranks].append(python_updates_per_s(line, line.checkout, ranks, cores))
        for ranks, rates in our_rates(line.bench, line.our_seconds, line.ranks).items():
            ours[ranks].append(rates)
    if line.json:  # steps of all ranks
        print(json.dumps([{"ranks": ranks, "python_steps": [ranks * rate for rate in theirs[ranks]],
                           "our_steps": [ranks * rate[0] for rate in ours[ranks]]} for ranks in worlds]))
        return 0
    print(f"environment steps and updates per second of one rank, median of {line.rounds} round(s)")
    print(f"{'ranks':>5} {'Python steps':>13} {'updates':>9} {'snake_ddp steps':>16} {'updates':>9} {'times':>7}")
    for ranks in worlds:
        python = statistics.median(theirs[ranks])
        steps = statistics.median(rate[0] for rate in ours[ranks])
        updates = statistics.median(rate[1] for rate in ours[ranks])
        print(f"{ranks:>5} {python:>13.1f} {python:>9.1f} {steps:>16.1f} {updates:>9.1f} {updates / python:>7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
