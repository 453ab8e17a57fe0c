"""Disks that fill up, are read only, or lose the run's folder: what continues, what is reported, and what is left."""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from processes import BINARY, BUILD, EPISODE, TINY, call, fingerprint, flags, only_json, run_folder, starter, suspend

ENDLESS = TINY | {"max_episodes": 10**9, "buffer_size": 2000, "updates_per_step": 0.05, "checkpoint_interval": 50,
                  "save_interval": 70, "record_interval": 30, "opponent_difficulty_strategy": "fixed:2"}


@pytest.fixture
def start(tmp_path):
    with starter(tmp_path) as begin:
        yield begin


def mount(*words):
    return subprocess.run(["mount", *map(str, words)], capture_output=True, text=True)


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    done = mount("-t", "tmpfs", "-o", "size=3m", "small_disk", folder)
    if done.returncode != 0:
        reason = f"no file system can be mounted here: {done.stderr.strip()}"
        assert "CI" not in os.environ, reason
        pytest.skip(reason)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def whole(run):
    info = only_json(call("info", "--json", run).stdout)
    assert info["whole"] and info["checkpoints"], info
    return info


def goes_on(run, more_episodes=10):
    """Resumes the run; its end is that of a run that nothing happened to."""
    settings = json.loads((run / "config.json").read_text())
    newest = max((run / "checkpoints").glob("step_*"))
    total = json.loads((newest / "manifest.json").read_text())["episode"] + more_episodes
    again = call("--resume", run, "--max_episodes", total)
    assert again.returncode == 0, again.stderr
    undisturbed = call(*flags(ENDLESS | {"max_episodes": total, "runs_dir": run.parent.parent / "undisturbed"}))
    assert settings["checkpoint_interval"] == ENDLESS["checkpoint_interval"]
    assert fingerprint(again.stdout)["line"] == fingerprint(undisturbed.stdout)["line"]


def test_on_a_full_disk_training_continues_and_writes_again_when_there_is_room(start, small_disk):
    run = start([BINARY, *flags(ENDLESS | {"runs_dir": small_disk})])
    for line in (r"\nNo checkpoint at step \d+: .*No space left on device.* Training continues",
                 r"\nactor_\d+ and critic_\d+ could not be saved: .*No space left on device.* Training continues",
                 r"\nNo game log: .*No space left on device.* Training continues",
                 r"\ncannot write '[^\n]*/train.log': No space left on device.* Training continues",
                 r"\ncannot write '[^\n]*/events\.out[^\n]*': No space left on device.* Training continues"):
        run.wait_for(line)
    folder = run_folder(run.text())
    whole(folder)
    assert mount("-o", "remount,size=200m", small_disk).returncode == 0
    run.wait_for(r"\ntrain.log can be written again")
    run.wait_for(r"\nthe TensorBoard file can be written again")
    run.wait_for(r"written again(?s:.*)\nCheckpoint step \d+: (?s:.*)\nCheckpoint step \d+: ")
    run.popen.send_signal(signal.SIGTERM)
    assert run.wait() == 75, run.text()
    whole(folder)
    goes_on(folder)


def test_a_full_disk_at_the_end_is_an_error_and_the_last_whole_checkpoint_loads(start, small_disk):
    run = start([BINARY, *flags(ENDLESS | {"runs_dir": small_disk})])
    run.wait_for(r"\nNo checkpoint at step \d+: ")
    run.wait_for(r"\nactor_\d+ and critic_\d+ could not be saved")
    run.popen.send_signal(signal.SIGTERM)
    assert run.wait() == 4, run.text()
    assert re.search(r"snake_ddp: .*No space left on device. Free some space there", run.text())
    assert mount("-o", "remount,size=200m", small_disk).returncode == 0
    folder = run_folder(run.text())
    whole(folder)
    goes_on(folder)


def fill(disk, leave=0):
    """Takes the disk's room but for so many bytes."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    room = os.statvfs(disk)
    with contextlib.suppress(OSError), open(ballast, "wb") as file:
        file.write(bytes(room.f_bavail * room.f_frsize - leave))


def test_a_run_can_resume_and_finish_its_checkpoint_whatever_room_the_disk_has_left(start, small_disk):
    settings = TINY | {"hidden_size": 96, "checkpoint_interval": 10**6, "record_interval": 5, "runs_dir": small_disk, "num_envs": 1}
    first = call(*flags(settings), "--checkpoint_replay", "off")
    assert first.returncode == 0, first.stderr
    run = run_folder(first.stdout)
    newest = max((run / "checkpoints").glob("step_*"))
    checkpoint_bytes = sum(path.stat().st_size for path in newest.iterdir())
    weights_bytes = sum(path.stat().st_size for path in (run / "trained_model").iterdir())
    written = (run / "config.json").read_bytes()

    # The remains of a killed run's checkpoint are all that fills the disk.
    left = run / "checkpoints" / ".step_000000999999"
    left.mkdir()
    fill(left.parent)
    (left.parent / "ballast").rename(left / "shared.pth")
    again = call("--resume", run, "--max_episodes", 6)
    assert again.returncode == 0 and not left.exists(), again.stdout + again.stderr
    assert (run / "config.json").read_bytes() != written
    shutil.rmtree(newest)

    # No room at all: it begins, says what is missing, and its end is an error.
    fill(small_disk)
    written = (run / "config.json").read_bytes()
    full = call("--resume", run, "--max_episodes", 8, "--gamma", 0.9, "--log_every_episode")
    assert "\nconfig.json is still that of an earlier start; it is rewritten once there is room: cannot write '" in full.stdout, full.stderr
    assert full.returncode == 4 and "\n[Episode 00008]" in full.stdout, full.stdout + full.stderr
    assert re.search(r"no final checkpoint: rank 0 on .*No space left on device.*; actor and critic are not saved: cannot write",
                     full.stderr)
    assert (run / "config.json").read_bytes() == written and not list((run / "checkpoints").glob(".step_*"))

    # Room for a checkpoint, and then none for the weights beside it. The run is suspended meanwhile, as its log would take that room.
    shutil.rmtree(min((run / "checkpoints").glob("step_*")))
    (small_disk / "ballast").unlink()
    last = start([BINARY, "--resume", run, "--max_episodes", 10**9, "--record_interval", 10**9])
    last.wait_for(EPISODE)
    suspend(last.popen.pid)
    fill(small_disk, checkpoint_bytes + weights_bytes // 2)
    last.popen.send_signal(signal.SIGTERM)
    last.popen.send_signal(signal.SIGCONT)
    assert last.wait() == 75, last.text()
    assert re.search(r"Stopped by a signal at episode \d+; actor and critic are not saved: .*No space left on device.* Continue with: ",
                     last.text())
    assert (run / "checkpoints" / "resumable").exists()
    (small_disk / "ballast").unlink()
    whole(run)
    done = call("--resume", run, "--max_episodes", 1)
    assert done.returncode == 0 and "No checkpoint" not in done.stdout, done.stdout + done.stderr
    episode = json.loads((max((run / "checkpoints").glob("step_*")) / "manifest.json").read_text())["episode"]
    assert (run / "trained_model" / f"actor_{episode}.pth").exists()


def test_a_start_without_room_leaves_no_run_folder(small_disk):
    fill(small_disk)
    done = call(*flags(TINY | {"runs_dir": small_disk}))
    assert done.returncode == 4 and "config.json': No space left on device" in done.stderr
    assert list(small_disk.rglob("*run*")) == []


def test_a_read_only_place_is_rejected_at_once(small_disk):
    assert mount("-o", "remount,ro", small_disk).returncode == 0
    done = call(*flags(ENDLESS | {"runs_dir": small_disk / "runs"}))
    assert done.returncode == 4
    assert "Read-only file system. Give this user access to it or choose another folder" in done.stderr


def test_a_run_whose_folder_is_removed_creates_it_again(start, tmp_path):
    run = start([BINARY, *flags(ENDLESS | {"runs_dir": tmp_path / "runs"})])
    run.wait_for(r"\nCheckpoint step [1-9]\d*: ")
    folder = run_folder(run.text())
    folder.rename(tmp_path / "taken")
    run.wait_for(r"The run folder, or part of it, was removed during the run; it has been created again(?s:.*)\nCheckpoint step ")
    run.popen.send_signal(signal.SIGTERM)
    assert run.wait() == 75, run.text()
    whole(folder)
    assert "Stopped by a signal" in (folder / "train.log").read_text() and list(folder.glob("events.out.tfevents.*"))
    whole(tmp_path / "taken")
    shutil.rmtree(tmp_path / "taken")
    goes_on(folder)


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
def test_an_unreadable_folder_does_not_count_as_removed(start, tmp_path, number):
    now = tmp_path / "now"
    run = start([BINARY, *flags(ENDLESS | {"runs_dir": tmp_path / "runs"})], SD_FAULT_WHEN=now,
                LD_PRELOAD=BUILD / "tests" / "train" / "libfaulty_disk.so", SD_FAULT=f"stat:/config.json:{number}")
    run.wait_for(r"\nCheckpoint step [1-9]\d*: ")
    begun = os.stat(run_folder(run.text()) / "config.json").st_ino
    now.touch()
    seen = run.text().count("\nCheckpoint step ")
    run.wait_for(r"(?s)(\nCheckpoint step .*){%d}" % (seen + 2))
    run.popen.send_signal(signal.SIGTERM)
    assert run.wait() == 75, run.text()
    assert "was removed during the run" not in run.text()
    assert os.stat(run_folder(run.text()) / "config.json").st_ino == begun
