"""What launchers, modules and shells leave in a process's environment and limits."""

import contextlib
import json
import pathlib
import re
import resource
import signal
import socket
import subprocess

import pytest

from processes import (BINARY, PATIENCE_S, STARTER, TINY, clean_environment, fingerprint, flags, free_port, ranks_by_hand, run_folder,
                       served as call, starter, wait_until_listening)

LEFT_OVER = [{"MASTER_PORT": 29500}, {"MASTER_ADDR": "localhost"}, {"MASTER_ADDR": "localhost", "MASTER_PORT": 29500},
             {"LOCAL_RANK": 0}, {"RANK": ""}, {"RANK": "", "WORLD_SIZE": ""}]
HALF = [{"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}, {"RANK": 1}, {"WORLD_SIZE": 2}]
WHOLE = {"RANK": 1, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}
# Four tasks of a step of SLURM, and the shell that `srun --pty` gives the first one.
STEP = {"SLURM_JOB_ID": 77, "SLURM_STEP_ID": 0, "SLURM_PROCID": 0, "SLURM_NTASKS": 4, "SLURM_STEP_TASKS_PER_NODE": "4",
        "SLURM_LOCALID": 0, "SLURM_STEP_NODELIST": "localhost"}
SHELL = STEP | {"SLURM_PTY_PORT": 40000, "PMI_RANK": 0, "PMI_SIZE": 4}
MPIRUN = {"OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_RANK": 1, "OMPI_COMM_WORLD_LOCAL_RANK": 1, "PMIX_RANK": 1}
MATCH = ["--team_a", "level1", "--team_b", "level2", "--games", 4]
# Every command that may be one of several ranks, except training.
SHARED = [["eval", *MATCH, "--json"], ["eval", "--ladder", "level1", "level2", "--games", 4, "--json"]]


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin


def result(done):
    assert done.returncode == 0, done.stderr
    return {name: value for name, value in json.loads(done.stdout).items() if name != "steps_per_second"}


@pytest.mark.parametrize("variables", [*LEFT_OVER, *HALF, SHELL])
def test_what_is_left_over_in_a_shell_does_not_change_a_match(variables):
    for line in SHARED:
        assert result(call(*line, **variables)) == result(call(*line))


@pytest.mark.parametrize("variables", LEFT_OVER)
def test_what_is_left_over_in_a_shell_does_not_change_a_training_of_one_process(tmp_path, variables):
    done = call(*flags(TINY | {"runs_dir": tmp_path}), **variables)
    assert done.returncode == 0 and "1 CPU rank on " in done.stdout and sorted(fingerprint(done.stdout)["ranks"]) == [0]


@pytest.mark.parametrize("variables", [*LEFT_OVER, *HALF, WHOLE, SHELL])
def test_own_ranks_ignore_the_variables_of_a_group(tmp_path, variables):
    done = call("--ddp", "--world_size", 2, *flags(TINY | {"runs_dir": tmp_path}), **variables)
    assert done.returncode == 0, done.stderr
    assert sorted(fingerprint(done.stdout)["ranks"]) == [0, 1]
    assert ("the ranks started here get their own" in done.stderr) == (variables == WHOLE), done.stderr


@pytest.mark.parametrize("variables", LEFT_OVER)
def test_messages_name_no_rank_without_a_group(variables):
    for line in (["--threads", 10**7], ["eval", "--team_a", "nobody", "--team_b", "level1"]):
        assert re.match(r"snake_ddp: (--threads|team) ", call(*line, **variables).stderr)


@pytest.mark.parametrize("variables", HALF)
def test_training_refuses_half_a_group(tmp_path, variables):
    done = call(*flags(TINY | {"runs_dir": tmp_path}), **variables)
    assert done.returncode == 2 and re.search(r"is set but|are set but", done.stderr), done.stderr
    assert "rank" not in done.stderr.split(":")[1], "no rank without a group"
    assert not (tmp_path / "snakes_3v3").exists()


def test_ranks_of_mpirun_are_no_separate_runs(tmp_path):
    training = flags(TINY | {"runs_dir": tmp_path})
    for line in ([*training], ["--ddp", "--world_size", 2, *training], *SHARED, ["pretrain", "--stage", "tokenizer", "--data_path", tmp_path]):
        done = call(*line, **MPIRUN)
        assert done.returncode == 2, (line, done.stdout, done.stderr)
        assert "OMPI_COMM_WORLD_SIZE=2" in done.stderr and "env MASTER_ADDR=HOST" in done.stderr
    assert not (tmp_path / "snakes_3v3").exists()


@pytest.mark.parametrize("variable", ["PMIX_RANK", "PMI_RANK"])
def test_the_first_process_of_an_unknown_number_trains_with_own_ranks_only(tmp_path, variable):
    training = flags(TINY | {"runs_dir": tmp_path})
    done = call(*training, **{variable: 0})
    assert done.returncode == 2 and f"{variable}=0" in done.stderr and "or --ddp; if it is the only one, unset" in done.stderr, done.stderr
    assert not (tmp_path / "snakes_3v3").exists()
    assert result(call(*SHARED[0], **{variable: 0})) == result(call(*SHARED[0]))
    done = call("--ddp", "--world_size", 2, *training, **{variable: 0})
    assert done.returncode == 0 and sorted(fingerprint(done.stdout)["ranks"]) == [0, 1], done.stderr


def test_mpirun_and_an_address_make_a_group(start, tmp_path):
    port = free_port()
    ranks = [start([BINARY, *flags(TINY | {"runs_dir": tmp_path})], MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                   **MPIRUN | {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": rank}) for rank in range(2)]
    assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].text() + ranks[1].text()
    assert sorted(fingerprint(ranks[0].text())["ranks"]) == [0, 1] and len(list((tmp_path / "snakes_3v3").iterdir())) == 1


@pytest.mark.parametrize("line", [[], *SHARED])
def test_a_rank_says_whom_it_waits_for_and_gives_up_in_time(start, tmp_path, line):
    line = line or flags(TINY | {"runs_dir": tmp_path})
    first = start([BINARY, *line, "--join_timeout", 7], **STEP, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    assert first.wait() == 3
    assert re.search(r"^rank 0 on .*: waiting for ranks 1 to 3 of srun \(job 77\), at most \d s more \(--join_timeout\)$",
                     first.text(), re.M), first.text()
    assert "did not join within 7 s" in first.text()


def a_library(folder, name):
    folder.mkdir(exist_ok=True)
    subprocess.run(["gcc", "-shared", "-x", "c", "-o", folder / name, "-"], input="int x;", text=True, check=True)
    return folder / name


def info(**variables):
    return subprocess.run([STARTER, "info"], env=clean_environment(**variables), capture_output=True, text=True, timeout=PATIENCE_S)


def needed():
    """The libraries that the program is linked with, except the C library's."""
    listed = subprocess.run(["objdump", "-p", BINARY], capture_output=True, text=True, check=True).stdout
    return re.findall(r"NEEDED\s+(?!lib[cm]\.so|ld-linux)(\S+)", listed)


def test_libraries_of_others_do_not_replace_the_program_s_own(tmp_path):
    assert {"libtorch_cpu.so", "libc10.so", "libstdc++.so.6", "libz.so.1"} <= set(needed())
    for name in (*needed(), "libtorch.so", "libtorch_cuda.so", "libgomp.so.1"):
        a_library(tmp_path, name)
    done = info(LD_LIBRARY_PATH=tmp_path)
    assert done.returncode == 0 and "LibTorch" in done.stdout, done.stderr
    for name in ("libtorch_cpu.so", "libc10.so"):
        done = info(LD_PRELOAD=f"{a_library(tmp_path / 'other', 'libother.so')}:{tmp_path / name}")
        assert done.returncode == 2 and "unset LD_PRELOAD" in done.stderr, done.stderr
    assert info(LD_PRELOAD=tmp_path / "other" / "libother.so").returncode == 0


def test_a_small_stack_is_raised_or_refused(tmp_path):
    def limited(soft, hard):
        return lambda: resource.setrlimit(resource.RLIMIT_STACK, (soft << 10, hard if hard < 0 else hard << 10))

    def train(soft, hard):
        return subprocess.run([STARTER, *flags(TINY | {"algo": "dqn", "obs": "view", "runs_dir": tmp_path})], env=clean_environment(),
                              capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=limited(soft, hard))

    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    assert most < 0 or most >= 8 << 20, "this test needs a higher limit"
    assert train(200, 8192).returncode == 0
    done = train(200, 200)
    assert done.returncode == 2 and "ulimit -s" in done.stderr, done.stderr


@pytest.mark.parametrize("line", [["--version"], ["info"], [], *SHARED, ["report", "/"], ["--ddp", "--world_size", 2]])
def test_a_working_directory_that_was_removed_is_named(tmp_path, line):
    folder = tmp_path / "removed"
    folder.mkdir()
    done = subprocess.run(["sh", "-c", 'rmdir ../removed; exec "$@"', "sh", STARTER, *map(str, line)], cwd=folder, capture_output=True,
                          env=clean_environment(), text=True, timeout=PATIENCE_S)
    assert done.returncode == 4 and done.stderr == "snake_ddp: the working directory was removed: change to one that exists\n"


@pytest.mark.parametrize("limit", ["-Sn 200", "-n 200"])
def test_strangers_who_use_up_the_store_s_descriptors_do_not_end_a_run(start, tmp_path, limit):
    port = free_port()
    settings = TINY | {"runs_dir": tmp_path, "max_episodes": 60, "checkpoint_interval": 10, "num_envs": 1}
    run, other = ranks_by_hand(start, 2, "-c", f'ulimit {limit}; exec "$@"', "sh", BINARY, *flags(settings), program="sh", port=port)
    if limit == "-Sn 200":  # which is raised: the store takes them all
        wait_until_listening(port)
    else:
        run.wait_for("Run folder: ")
    with contextlib.ExitStack() as guests:
        for _ in range(600):
            guests.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        assert [run.wait(), other.wait()] == [0, 0], run.text()
    assert "Training completed!" in run.text() and list((run_folder(run.text()) / "trained_model").iterdir())


def test_the_limit_of_open_files_is_raised(start, tmp_path):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    run = start(["sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh", BINARY, *flags(TINY | {"max_episodes": 10**6, "runs_dir": tmp_path})])
    run.wait_for("Run folder: ")
    limits = pathlib.Path(f"/proc/{run.popen.pid}/limits").read_text()
    run.popen.send_signal(signal.SIGTERM)
    assert int(re.search(r"Max open files\s+(\d+)", limits)[1]) == min(hard, 1 << 20)
    assert run.wait() == 75


def test_far_more_threads_than_cores_are_refused(tmp_path):
    done = call(*flags(TINY | {"runs_dir": tmp_path, "threads": 4096}))
    assert done.returncode == 2 and "--threads 4096: more than " in done.stderr, done.stderr
