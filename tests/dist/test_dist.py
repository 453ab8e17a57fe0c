"""Real processes: torchrun, hand-set variables and our own launcher, with ranks that die, hang, contradict others or never join."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from processes import BUILD, PATIENCE_S, free_port, is_alive, starter, wait_until_gone

PROBE = str(BUILD / "tests" / "dist" / "dist_probe")
# Like --standalone, but without resolving "localhost", which fails on minimal systems.
ALONE = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin
    for path in tmp_path.glob("pid.*"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def start_rank(start, rank, size, port, *arguments, join_ms=15000, timeout_ms=3000, **variables):
    command = [PROBE, *arguments, "--join_timeout_ms", join_ms, "--timeout_ms", timeout_ms]
    return start(command, RANK=rank, WORLD_SIZE=size, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **variables)


def start_ranks(start, size, *arguments, **options):
    port = free_port()
    return [start_rank(start, r, size, port, *arguments, **options) for r in range(size)]


def torchrun(start, *arguments, **variables):
    return start([sys.executable, "-m", "torch.distributed.run", *arguments], **variables)


def process_number(path):
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)
    return int(path.read_text())


# Collectives


@pytest.mark.parametrize("ranks, how", [(2, "static"), (4, "c10d")])
def test_collectives_are_right_under_torchrun(start, ranks, how):
    rendezvous = ALONE if how == "c10d" else ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    run = torchrun(start, *rendezvous, f"--nproc_per_node={ranks}", "--no-python", PROBE, "collectives")
    assert run.wait() == 0, run.text()
    for r in range(ranks):
        assert f"rank {r} of {ranks} backend gloo local {r}/{ranks} fine" in run.text()


def test_collectives_are_right_under_srun_variables(start):
    port = free_port(range(20000, 40000))  # SLURM's
    slurm = dict(SLURM_STEP_ID=0, SLURM_NTASKS=2, SLURM_NODEID=0, SLURM_STEP_TASKS_PER_NODE="2",
                 SLURM_JOB_NODELIST="127.0.0.1", SLURM_JOB_ID=20000 * 7 + port - 20000)
    tasks = [start([PROBE, "collectives"], SLURM_PROCID=r, SLURM_LOCALID=r, **slurm) for r in range(2)]
    for r, task in enumerate(tasks):
        assert task.wait() == 0, task.text()
        assert f"rank {r} of 2 backend gloo local {r}/2 fine" in task.text()


def test_the_users_choice_of_interface_is_honoured(start):
    for ranks, expected in [(start_ranks(start, 2, "collectives", GLOO_SOCKET_IFNAME="lo"), 0),
                            (start_ranks(start, 2, "collectives", GLOO_SOCKET_IFNAME="nosuch0"), 3)]:
        assert [r.wait() for r in ranks] == [expected] * 2, ranks[0].text()
    assert "nosuch0" in ranks[0].text()


def test_a_rank_that_differs_is_named_on_all_ranks(start):
    ranks = start_ranks(start, 3, "differs", "--victim", "2")
    for rank in ranks:
        assert rank.wait() == 3
        assert "the seed: not the same on all ranks: rank 2 unlike rank 0" in rank.text()
        assert f"rank 2 on {socket.gethostname()}: '8'" in rank.text()


# Several machines: processes whose host has another name


UNSHARE = ["unshare", "--uts", *([] if os.getuid() == 0 else ["--map-root-user"])]


def can_take_another_host_name():
    if not all(map(shutil.which, ("unshare", "hostname"))):
        return False
    return subprocess.run([*UNSHARE, "hostname", "node-a"], capture_output=True, timeout=30).returncode == 0


needs_host_names = pytest.mark.skipif(not can_take_another_host_name(), reason="this system lets no process take another host name")


def start_on_machines(start, machines, *arguments, timeout_ms=3000):
    """One rank for each letter of `machines`."""
    port = free_port()
    return [start([*UNSHARE, "sh", "-c", f'hostname node-{name} && exec "$0" "$@"', PROBE, *arguments, "--join_timeout_ms", 15000,
                   "--timeout_ms", timeout_ms], RANK=r, WORLD_SIZE=len(machines), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                  GLOO_SOCKET_IFNAME="lo") for r, name in enumerate(machines)]


@needs_host_names
@pytest.mark.parametrize("machines", ["ab", "aabb", "abacb"])
def test_collectives_are_right_on_several_machines(start, machines):
    for r, rank in enumerate(start_on_machines(start, machines, "collectives")):
        assert rank.wait() == 0, rank.text()
        assert f"rank {r} of {len(machines)} backend gloo" in rank.text()


@needs_host_names
@pytest.mark.parametrize("victim", [0, 2, 3])
def test_a_rank_killed_on_another_machine_is_named_by_all(start, tmp_path, victim):
    ranks = start_on_machines(start, "aabb", "for-ever", "--folder", str(tmp_path), timeout_ms=300000)
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(4)]
    begun = time.monotonic()
    os.kill(pids[victim], signal.SIGKILL)
    assert [r.wait() for r in ranks] == [-signal.SIGKILL if r == victim else 3 for r in range(4)]
    assert time.monotonic() - begun < 60
    for r in range(4):
        if r != victim:
            assert f"no word from rank {victim} on node-{'aabb'[victim]} (pid {pids[victim]})" in ranks[r].text()
    if victim == 3:  # the other machine's second rank waited for its first, whose connection broke
        assert f"rank 0 (pid {pids[0]}) gave up before sending its values" in ranks[1].text()


@needs_host_names
def test_a_rank_killed_amid_a_message_to_another_machine_is_named_at_once(start, tmp_path):
    # More values than the system buffers, so that the message is under way until rank 0 goes on.
    ranks = start_on_machines(start, "aabb", "for-ever", "--folder", str(tmp_path), "--values", 12_000_000, timeout_ms=300000)
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(4)]
    os.kill(pids[3], signal.SIGSTOP)
    time.sleep(1)  # rank 0 waits for the message, and rank 2 for rank 3
    os.kill(pids[0], signal.SIGSTOP)
    os.kill(pids[3], signal.SIGCONT)
    time.sleep(1)  # rank 2 sends
    begun = time.monotonic()
    os.kill(pids[2], signal.SIGKILL)
    os.kill(pids[0], signal.SIGCONT)
    assert [r.wait() for r in ranks] == [3, 3, -signal.SIGKILL, 3]
    assert time.monotonic() - begun < 60
    assert f"no word from rank 2 on node-b (pid {pids[2]})" in ranks[0].text()


@needs_host_names
@pytest.mark.parametrize("victim", [1, 2])
def test_a_rank_stopped_on_another_machine_is_named_within_the_timeout(start, tmp_path, victim):
    ranks = start_on_machines(start, "aabb", "for-ever", "--folder", str(tmp_path), timeout_ms=2000)
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(4)]
    os.kill(pids[victim], signal.SIGSTOP)
    for r in range(4):
        if r != victim:
            assert ranks[r].wait() == 3
            assert f"no word from rank {victim} on node-{'aabb'[victim]} (pid {pids[victim]})" in ranks[r].text()


# Lost ranks


def test_a_killed_rank_is_named_by_the_others(start, tmp_path):
    ranks = start_ranks(start, 4, "for-ever", "--folder", str(tmp_path), timeout_ms=300000)
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(4)]
    begun = time.monotonic()
    os.kill(pids[2], signal.SIGKILL)
    assert [r.wait() for r in ranks] == [3, 3, -signal.SIGKILL, 3]
    assert time.monotonic() - begun < 60, "noticed by the closed connection, not by the timeout of 300 s"
    for r in (0, 1, 3):
        assert f"rank {r} on {socket.gethostname()}: all-reduce of 1000 values" in ranks[r].text()
        assert f"no word from rank 2 on {socket.gethostname()} (pid {pids[2]}), which has ended" in ranks[r].text()


@pytest.mark.parametrize("victim", [0, 1])  # rank 0 hosts the store as well
def test_a_stopped_rank_is_named_within_the_timeout(start, tmp_path, victim):
    ranks = start_ranks(start, 3, "for-ever", "--folder", str(tmp_path), timeout_ms=2000)
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(3)]
    begun = time.monotonic()
    os.kill(pids[victim], signal.SIGSTOP)
    others = [rank for r, rank in enumerate(ranks) if r != victim]
    assert [rank.wait() for rank in others] == [3, 3]
    assert time.monotonic() - begun < 60
    for rank in others:
        assert re.search(r"failed after \d+\.\d s \(limit 2\.0 s\)", rank.text()), rank.text()
        assert f"no word from rank {victim} on {socket.gethostname()} (pid {pids[victim]}), which is stopped" in rank.text()
        stacks = dict(re.findall(r"^thread (\d+) \(.*?\):\n((?:  .+\n)+)", rank.text(), re.M))
        assert "all_reduce_mean" in stacks[str(rank.popen.pid)], "the main thread, and what it waited in"


def test_torchrun_names_the_killed_rank_as_the_root_cause(start, tmp_path):
    run = torchrun(start, *ALONE, "--nproc_per_node=4", "--no-python", PROBE, "for-ever", "--folder", str(tmp_path))
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(4)]
    os.kill(pids[2], signal.SIGKILL)
    assert run.wait() == 1
    root_cause = run.text().split("Root Cause")[1]
    assert "rank      : 2 (local_rank: 2)" in root_cause
    assert "Signal 9 (SIGKILL)" in root_cause
    assert run.text().count("no word from rank 2") >= 3, run.text()
    wait_until_gone(pids, 5)


def test_torchrun_shows_the_message_of_the_rank_that_failed(start, tmp_path):
    run = torchrun(start, *ALONE, "--nproc_per_node=2", "--no-python", PROBE, "throws", "--victim", "1")
    assert run.wait() == 1
    root_cause = run.text().split("Root Cause")[1]
    assert "rank      : 1 (local_rank: 1)" in root_cause
    assert "exitcode  : 4" in root_cause
    assert "the disk is full, says the victim" in root_cause
    assert "had already left after an error of its own" in run.text()


@pytest.mark.parametrize("how", ["static", "c10d"])
def test_a_restart_forgets_the_attempt_before(start, how):
    rendezvous = ALONE if how == "c10d" else ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    run = torchrun(start, *rendezvous, "--max-restarts=1", "--nproc_per_node=2", "--no-python", PROBE, "fails-once",
                   "--victim", "1")
    assert run.wait() == 0, run.text()
    assert "failing once" in run.text()
    for r in range(2):
        assert run.text().count(f"rank {r} of 2 backend gloo local {r}/2 fine") == 2, run.text()


def test_workers_end_with_a_killed_torchrun(start, tmp_path):
    run = torchrun(start, *ALONE, "--nproc_per_node=2", "--no-python", PROBE, "for-ever", "--folder", str(tmp_path))
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(2)]
    run.popen.kill()
    wait_until_gone(pids, 5)


def test_tensors_of_different_sizes_end_every_rank(start):
    ranks = start_ranks(start, 2, "other-size", "--victim", "1")
    assert [r.wait() for r in ranks] == [3, 3], ranks[0].text() + ranks[1].text()


def test_ranks_in_different_calls_are_reported(start):
    ranks = start_ranks(start, 2, "other-call", "--victim", "1", timeout_ms=1500)
    assert [r.wait() for r in ranks] == [3, 3]
    assert "was in barrier 'of the victim' (call 1)" in ranks[0].text()
    assert "was in all-reduce of 10 values (call 1)" in ranks[1].text()


# Joining


def test_a_missing_rank_is_named_within_the_join_timeout(start):
    port = free_port()
    ranks = [start_rank(start, r, 4, port, "collectives", join_ms=4000) for r in (0, 2)]
    assert [r.wait() for r in ranks] == [3, 3]
    for rank in ranks:
        assert rank.took_s < 60
        assert f"cannot join the group of 4 at 127.0.0.1:{port}" in rank.text()
    assert "2 of 4 ranks did not join within 4 s: rank 1, 3" in ranks[0].text()
    assert "1, 3" in ranks[1].text()


def test_a_missing_rank_0_is_reported_with_the_address(start):
    port = free_port()
    rank = start_rank(start, 1, 2, port, "collectives", join_ms=2000)
    assert rank.wait() == 3
    assert rank.took_s < 60
    assert f"rank 1 on {socket.gethostname()}: cannot join" in rank.text()
    assert f"nothing answers at 127.0.0.1:{port}" in rank.text()
    assert "Connection refused" in rank.text()


def test_a_name_that_does_not_resolve_is_reported(start):
    rank = start([PROBE, "collectives", "--join_timeout_ms", "8000"], RANK=1, WORLD_SIZE=2, MASTER_ADDR="no-such-host.invalid")
    assert rank.wait() == 3
    assert rank.took_s < 60
    assert "no-such-host.invalid" in rank.text() and ("resolve" in rank.text() or "looking up" in rank.text())


def test_a_taken_port_is_reported_with_remedies(start):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        by_hand = start_rank(start, 0, 2, port, "collectives")
        # This one is accepted but never gets a response.
        client = start_rank(start, 1, 2, port, "collectives", join_ms=2000)
        assert by_hand.wait() == 3
        assert by_hand.took_s < 60
        assert f"port {port} is taken" in by_hand.text() and "MASTER_PORT=" in by_hand.text()
        assert client.wait() == 3
        assert client.took_s < 60
        assert f"127.0.0.1:{port}" in client.text()


def test_two_processes_with_one_rank_are_reported(start):
    port = free_port()
    ranks = [start_rank(start, r, 3, port, "collectives") for r in (0, 1, 1)]
    for rank in ranks:
        assert rank.wait() == 3
        assert rank.took_s < 60
        assert "two processes claim rank 1: " in rank.text()
        assert all(f"(pid {p.popen.pid})" in rank.text() for p in ranks[1:])


def test_a_late_process_learns_which_one_has_its_rank(start, tmp_path):
    port = free_port()
    ranks = [start_rank(start, r, 2, port, "stop", "--folder", str(tmp_path), timeout_ms=20000) for r in (0, 1)]
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(2)]
    late = start_rank(start, 1, 2, port, "collectives", join_ms=1500)
    assert late.wait() == 3
    assert f"an earlier group here has 2 ranks, led by rank 1 on {socket.gethostname()} (pid {pids[1]})" in late.text()
    os.kill(pids[0], signal.SIGTERM)
    assert [r.wait() for r in ranks] == [75, 75], "the others went on undisturbed"


def test_world_sizes_that_differ_are_reported(start):
    port = free_port()
    ranks = [start_rank(start, r, size, port, "collectives") for r, size in ((0, 2), (1, 3))]
    for rank in ranks:
        assert rank.wait() == 3
        assert rank.took_s < 60
        assert "WORLD_SIZE=3" in rank.text() and "WORLD_SIZE=2" in rank.text()


def test_builds_that_differ_are_reported(start):
    port = free_port()
    ranks = [start_rank(start, r, 2, port, "collectives", "--fingerprint", f"build {r}") for r in (0, 1)]
    for rank in ranks:
        assert rank.wait() == 3
        assert "'build 1'" in rank.text() and "'build 0'" in rank.text()


def test_variables_set_in_part_exit_with_2(start):
    process = start([PROBE, "collectives"], RANK=0)
    assert process.wait() == 2
    assert "RANK is set but WORLD_SIZE and MASTER_ADDR are not" in process.text()


def test_nccl_without_a_gpu_exits_with_2(start):
    process = start([PROBE, "collectives", "--backend", "nccl"], RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1",
                    CUDA_VISIBLE_DEVICES="")
    assert process.wait() == 2
    assert "--dist_backend gloo" in process.text()


# Our own launcher


def launched(start, tmp_path, count, scenario, *arguments):
    run = start([PROBE, scenario, "--launch", str(count), "--folder", str(tmp_path), "--timeout_ms", "20000", *arguments])
    return run, [process_number(tmp_path / f"pid.{r}") for r in range(count)]


def test_our_launcher_runs_ranks_to_their_end(start):
    run = start([PROBE, "collectives", "--launch", "3"])
    assert run.wait() == 0, run.text()
    for r in range(3):
        assert f"rank {r} of 3 backend gloo local {r}/3 fine" in run.text()


def test_our_launcher_ends_all_ranks_when_one_fails(start, tmp_path):
    run, pids = launched(start, tmp_path, 3, "throws", "--victim", "1")
    assert run.wait() == 4, "the victim's code, not that of the ranks that lost it"
    assert not any(is_alive(p) for p in pids)
    assert "the disk is full, says the victim" in run.text()
    assert "; ending the others" in run.text()


def test_our_launcher_returns_3_for_a_rank_that_was_killed(start, tmp_path):
    run, pids = launched(start, tmp_path, 2, "for-ever")
    process_number(tmp_path / "busy.0")
    os.kill(pids[0], signal.SIGKILL)
    assert run.wait() == 3
    assert not any(is_alive(p) for p in pids)
    assert "Killed" in run.text()


@pytest.mark.parametrize("scenario,code", [("deaf", 4), ("deaf-stop", 3)])
def test_our_launcher_kills_ranks_that_do_not_listen(start, tmp_path, scenario, code):
    run, pids = launched(start, tmp_path, 2, scenario, "--victim", "1", "--kill_after_ms", "500")
    assert run.wait() == code
    assert run.took_s < 60
    assert not any(is_alive(p) for p in pids)


def test_our_launcher_kills_ranks_that_do_not_end_after_another_is_done(start, tmp_path):
    run, pids = launched(start, tmp_path, 3, "late", "--victim", "1", "--finish_within_ms", "500")
    assert run.wait() == 3
    assert run.took_s < 60
    assert f"rank 2 (pid {pids[2]}) still runs 0.5 s after another rank was done; killing it" in run.text()
    assert "rank 0 has printed" in run.text(), "rank 0 may take its time: its reader may be slow"


def test_our_launcher_kills_a_stopped_rank_0_after_another_is_done(start, tmp_path):
    run, pids = launched(start, tmp_path, 2, "late", "--victim", "1", "--finish_within_ms", "1500")
    os.kill(pids[0], signal.SIGSTOP)
    assert run.wait() == 3
    assert f"rank 0 (pid {pids[0]}) is stopped 1.5 s after another rank was done; killing it" in run.text()
    assert not any(is_alive(p) for p in pids)


def test_our_launcher_kills_suspended_ranks_after_a_request_to_stop(start, tmp_path):
    run, pids = launched(start, tmp_path, 2, "stop", "--suspended_after_ms", "500")
    process_number(tmp_path / "busy.1")
    os.kill(pids[0], signal.SIGSTOP)
    os.kill(pids[1], signal.SIGSTOP)
    run.popen.terminate()
    assert run.wait() == 3
    assert f"rank 0 (pid {pids[0]}) is suspended and cannot stop; killing it" in run.text()
    assert not any(is_alive(p) for p in pids)


def test_our_launcher_kills_all_ranks_after_the_third_interrupt(start, tmp_path):
    run, pids = launched(start, tmp_path, 2, "stop", "--suspended_after_ms", "600000")
    process_number(tmp_path / "busy.1")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for _ in range(3):
        run.popen.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert run.wait() == 3
    assert not any(is_alive(p) for p in pids)


def test_a_hangup_that_is_ignored_is_no_request_to_stop(start, tmp_path):
    run = start(["nohup", PROBE, "for-ever", "--launch", "2", "--folder", tmp_path, "--timeout_ms", "60000",
                 "--suspended_after_ms", "200"])
    for r in range(2):
        process_number(tmp_path / f"busy.{r}")
    run.popen.send_signal(signal.SIGHUP)
    pid = process_number(tmp_path / "pid.1")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(pid, signal.SIGCONT)
    assert run.popen.poll() is None and is_alive(pid), run.text()


def test_our_launcher_forwards_stop_signals(start, tmp_path):
    run, pids = launched(start, tmp_path, 2, "stop")
    for r in range(2):
        process_number(tmp_path / f"busy.{r}")
    run.popen.terminate()
    assert run.wait() == 75
    assert not any(is_alive(p) for p in pids)


def test_ranks_end_with_a_killed_launcher(start, tmp_path):
    run, pids = launched(start, tmp_path, 2, "for-ever")
    process_number(tmp_path / "busy.1")
    run.popen.kill()
    wait_until_gone(pids, 5)


def test_ranks_that_work_alone_learn_of_a_stop_even_from_one_that_waits(start, tmp_path):
    ranks = start_ranks(start, 3, "stop-watch", "--victim", "1", "--folder", str(tmp_path), timeout_ms=60000)
    pids = [process_number(tmp_path / f"busy.{r}") for r in range(3)]
    os.kill(pids[1], signal.SIGTERM)
    assert [rank.wait() for rank in ranks] == [75, 75, 75], ranks[0].text()


# Watchdog and error file


def test_a_rank_without_progress_is_ended(start, tmp_path):
    error_file = tmp_path / "error.json"
    process = start([PROBE, "stuck", "--timeout_ms", "1000"], TORCHELASTIC_ERROR_FILE=error_file)
    assert process.wait() == 3
    assert process.took_s < 60
    assert re.search(r"no progress for \d+\.\d s after the start \(tick 1\)", process.text()), process.text()
    assert "no progress" in json.loads(error_file.read_text())["message"]["message"]
    assert re.search(rf"^thread {process.popen.pid} \(dist_probe\):\n(?:  .+\n)*?.*sleep", process.text(), re.M), process.text()


def test_the_time_in_which_a_process_was_stopped_is_no_lack_of_progress(start, tmp_path):
    process = start([PROBE, "stuck", "--timeout_ms", "3000", "--folder", str(tmp_path)])
    pid = process_number(tmp_path / "busy.0")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(8)
    os.kill(pid, signal.SIGCONT)
    assert process.wait() == 3
    assert 3 <= float(re.search(r"no progress for (\d+\.\d) s", process.text())[1]) < 8, process.text()


def test_a_rank_may_wait_as_long_as_it_said(start):
    process = start([PROBE, "waits-longer", "--timeout_ms", "1000"])
    assert process.wait() == 0, process.text()


def test_a_rank_that_is_busy_after_a_stop_signal_is_ended(start, tmp_path):
    process = start([PROBE, "stuck", "--timeout_ms", "60000", "--folder", str(tmp_path)])
    os.kill(process_number(tmp_path / "busy.0"), signal.SIGTERM)
    assert process.wait() == 3
    assert "still busy after a stop signal" in process.text()


def test_an_exception_in_a_thread_reaches_the_error_file(start, tmp_path):
    error_file = tmp_path / "error.json"
    process = start([PROBE, "thread-throws"], TORCHELASTIC_ERROR_FILE=error_file)
    assert process.wait() == 3
    message = json.loads(error_file.read_text(encoding="utf-8"))["message"]
    assert '"quoted"' in message["extraInfo"]["py_callstack"]
    assert abs(int(message["extraInfo"]["timestamp"]) - time.time()) < 60
    assert list(tmp_path.glob("error.json.*")) == []


def test_the_error_file_is_not_written_through_a_stranger_s_link(start, tmp_path):
    (tmp_path / "victim").write_text("precious")
    process = start(["sh", "-c", 'ln -s victim "$TORCHELASTIC_ERROR_FILE.$$.tmp"; exec "$@"', "sh", PROBE, "thread-throws"],
                    TORCHELASTIC_ERROR_FILE=tmp_path / "error.json")
    assert process.wait() == 3
    assert (tmp_path / "victim").read_text() == "precious" and not (tmp_path / "error.json").is_symlink()
    assert "thrown in a thread" in (tmp_path / "error.json").read_text(encoding="utf-8")


def test_a_fatal_signal_reaches_the_error_file(start, tmp_path):
    error_file = tmp_path / "error.json"
    process = start([PROBE, "segfault"], TORCHELASTIC_ERROR_FILE=error_file)
    assert process.wait() == -signal.SIGSEGV
    document = json.loads(error_file.read_text())
    assert document["message"] == "fatal signal 11 (Segmentation fault)"
    assert abs(document["timestamp"] - time.time()) < 60


def test_a_rank_that_only_lost_its_peer_writes_the_later_time(start, tmp_path):
    port = free_port()
    files = [tmp_path / f"error.{r}.json" for r in range(2)]
    ranks = [start_rank(start, r, 2, port, "throws", "--victim", "0", TORCHELASTIC_ERROR_FILE=files[r]) for r in range(2)]
    assert [r.wait() for r in ranks] == [4, 3]
    stamps = [int(json.loads(f.read_text())["message"]["extraInfo"]["timestamp"]) for f in files]
    assert 4 <= stamps[1] - stamps[0] <= 12
