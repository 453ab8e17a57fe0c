"""The batch files under the distribution's own SLURM: munged, slurmctld and slurmd of this machine, in a private folder."""

import concurrent.futures
import contextlib
import getpass
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from processes import BINARY, EPISODE, SOURCE, TINY, clean_environment, fingerprint, free_port, run_folder

TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
PATIENCE_S = 240  # on a machine that has much else to do
CPUS = 16  # as many as the jobs below ask for together; that the machine has fewer is SLURM's secret

CONFIGURATION = """
ClusterName=snake
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A requeued job waits as long as a credential lives.
AuthInfo=socket={folder}/munge.sock,cred_expire=6
CredType=cred/munge
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# No control groups: a container may not have them.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=2
MpiDefault=none
ReturnToService=2
KillWait=5
# The jobs' ports follow from it; another such cluster on this machine must not meet ours.
FirstJobId={first_job}
SlurmdParameters=config_overrides
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", free_port()))
        return [s.getsockname()[1] for s in sockets]


class Cluster:
    """A folder with a repository's links as a user has them, to submit from, and SLURM's commands."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "submit"
        (self.home / ".venv" / "bin").mkdir(parents=True)
        (self.home / "snake_ddp").symlink_to(BINARY)
        (self.home / "launch").symlink_to(SOURCE / "launch")
        torchrun = self.home / ".venv" / "bin" / "torchrun"
        torchrun.write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
        torchrun.chmod(0o755)
        self.environment = clean_environment(SLURM_CONF=folder / "slurm.conf", PATH=PATH)

    def call(self, *words, check=True):
        done = subprocess.run([str(word) for word in words], cwd=self.home, env=self.environment, capture_output=True, text=True,
                              timeout=60)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def logs(self):
        return "\n".join(f"{path.name}:\n" + "\n".join(path.read_text(errors="replace").splitlines()[-30:])
                         for path in sorted(self.folder.glob("*.log")))

    def submit(self, script, settings, *how):
        """The job's number. Settings go through a file, so that a later start of the job can have others."""
        name = f"settings{len(list(self.home.glob('settings*')))}.json"
        (self.home / name).write_text(json.dumps(settings))
        words = self.call("sbatch", "--parsable", *how, f"launch/{script}", "--config", name)
        return Job(self, int(words), self.home / name)


class Job:
    def __init__(self, cluster, number, settings):
        self.cluster = cluster
        self.number = number
        self.settings = settings

    def text(self):
        path = self.cluster.home / f"snake_ddp-{self.number}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def shown(self, field):
        found = re.search(rf"\b{field}=(\S*)", self.cluster.call("scontrol", "show", "job", self.number))
        return found[1]

    def wait_for(self, what, ready):
        until = time.monotonic() + PATIENCE_S
        while not (found := ready()):
            assert time.monotonic() < until, f"job {self.number}: no {what}\n{self.text()}\n" \
                f"{self.cluster.call('scontrol', 'show', 'job', self.number, check=False)}\n{self.cluster.logs()}"
            time.sleep(0.1)
        return found

    def wait_for_text(self, pattern):
        return self.wait_for(repr(pattern), lambda: re.search(pattern, self.text()))

    def wait_for_end(self):
        """The job's last state."""
        over = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")
        return self.wait_for("end", lambda: (state := self.shown("JobState")) in over and state)


def daemon_number(path):
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    missing = [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]
    if missing:
        pytest.skip(f"no SLURM here ({', '.join(missing)} missing): apt-get install slurmctld slurmd slurm-client munge")
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)  # munged trusts no folder that others may write to
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    ctld_port, slurmd_port = free_ports(2)
    (folder / "slurm.conf").write_text(CONFIGURATION.format(
        folder=folder, host=socket.gethostname().split(".")[0], user=getpass.getuser(), cpus=CPUS, ctld_port=ctld_port,
        slurmd_port=slurmd_port, first_job=random.randrange(1, 9000)))
    made = Cluster(folder)
    try:
        made.call("munged", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock", f"--pid-file={folder}/munged.pid",
                  f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed", "--num-threads=2")
        made.call("slurmctld")
        made.call("slurmd", "-N", "localhost")
        until = time.monotonic() + 30
        while "idle" not in (state := made.call("sinfo", "--noheader", "--format=%T", check=False)):
            assert time.monotonic() < until, f"the node is {state!r}\n{made.logs()}"
            time.sleep(0.1)
        yield made
    finally:
        if daemon_number(folder / "slurmctld.pid"):
            made.call("scancel", f"--user={getpass.getuser()}", check=False)
            until = time.monotonic() + 30
            while made.call("squeue", "--noheader", check=False).strip() and time.monotonic() < until:
                time.sleep(0.2)
        for name in ("slurmd", "slurmctld", "munged"):
            if number := daemon_number(folder / f"{name}.pid"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGTERM)


ENDLESS = TINY | {"max_episodes": 10**9, "checkpoint_interval": 10**6}
STOPPED = r"Stopped by a signal at episode (\d+)"


def check_it_went_on(job):
    """`job` was stopped by a signal: it comes back by itself and goes on with its run."""
    stopped = int(job.wait_for_text(STOPPED)[1])
    job.wait_for("place in the queue", lambda: job.shown("JobState") == "PENDING")
    job.settings.write_text(json.dumps(ENDLESS | {"max_episodes": stopped + 50}))
    job.cluster.call("scontrol", "update", f"JobId={job.number}", "TimeLimit=60")
    assert job.wait_for_end() == "COMPLETED", job.text()
    first, second = job.text().split("start 2, ")
    assert "Run folder: " in first and STOPPED.split("(")[0] in first
    assert re.search(rf"^Resumed from checkpoint step \d+: episode {stopped}, ", second, re.M), second
    done = int(re.search(r"Training completed! (\d+) episodes", second)[1])
    assert done >= stopped + 50
    folder = job.cluster.home / run_folder(first)
    assert run_folder(second) == folder
    assert json.loads((folder / "config.json").read_text())["run"]["job"] == str(job.number)
    assert not (folder / "checkpoints" / "resumable").exists()


@pytest.fixture(scope="module")
def warned(cluster):
    """A job whose time is nearly up, watched from afar: SLURM looks at its clock every half minute, the other tests go on."""
    job = cluster.submit("srun.sbatch", ENDLESS, "--ntasks-per-node=2", "--time=60")
    job.wait_for_text(EPISODE)
    hours, minutes, _ = map(int, job.shown("RunTime").split(":"))
    cluster.call("scontrol", "update", f"JobId={job.number}", f"TimeLimit={60 * hours + minutes + 3}")
    with concurrent.futures.ThreadPoolExecutor(1) as watcher:
        yield job, watcher.submit(check_it_went_on, job)


def check_it_trained(job, ranks):
    assert job.wait_for_end() == "COMPLETED", job.text()
    assert len(fingerprint(job.text())["ranks"]) == ranks
    assert "Training completed! " in job.text() and "start 2" not in job.text()


def test_srun_trains_to_its_end(cluster, warned):
    check_it_trained(cluster.submit("srun.sbatch", TINY, "--ntasks-per-node=2"), 2)


def test_torchrun_trains_to_its_end(cluster, warned):
    check_it_trained(cluster.submit("torchrun.sbatch", TINY, "--cpus-per-task=2"), 2)


def test_a_failure_is_not_tried_again(cluster, warned):
    wrong = [cluster.submit(script, TINY | {"gama": 1}, f"--{how}=1")
             for script, how in (("srun.sbatch", "ntasks-per-node"), ("torchrun.sbatch", "cpus-per-task"))]
    for job in wrong:
        assert job.wait_for_end() == "FAILED"
        assert job.shown("ExitCode") == "2:0" and job.shown("Restarts") == "0"
        assert job.text().count('unknown key "gama"; did you mean "gamma"?') == 1


def test_a_preempted_torchrun_job_comes_back_and_resumes(cluster, warned):
    job = cluster.submit("torchrun.sbatch", ENDLESS, "--cpus-per-task=2")
    job.wait_for_text(EPISODE)
    cluster.call("scancel", "--signal=TERM", job.number)  # what preemption sends: to the steps, while the job goes on
    check_it_went_on(job)


@pytest.mark.parametrize("script, how", [("srun.sbatch", "ntasks-per-node"), ("torchrun.sbatch", "cpus-per-task")])
def test_a_cancelled_job_stays_away(cluster, warned, script, how):
    job = cluster.submit(script, ENDLESS, f"--{how}=1")
    job.wait_for_text(EPISODE)
    cluster.call("scancel", job.number)
    assert job.wait_for_end() == "CANCELLED"
    time.sleep(1)
    assert job.shown("JobState") == "CANCELLED" and job.shown("Restarts") == "0"


def test_a_warned_job_comes_back_and_resumes(warned):
    job, went_on = warned
    went_on.result()
    assert "warned by SLURM" in job.text()
    assert "srun ended with 75" in job.text()


def test_a_match_in_a_shell_of_several_tasks_is_played_by_one_process_and_by_all_of_an_inner_srun(cluster, warned):
    match = "./snake_ddp eval --team_a level1 --team_b level2 --games 4 --join_timeout 60 --json"
    shell = f"srun --ntasks=3 --mpi=pmi2 --pty sh -c '{match}; echo inner; srun --overlap {match}'"
    outer, inner = cluster.call("script", "-qec", shell, "/dev/null").split("inner")
    assert [text.count('"games":4,') for text in (outer, inner)] == [1, 1], outer + inner
    assert "error" not in inner and "snake_ddp:" not in outer + inner, outer + inner
