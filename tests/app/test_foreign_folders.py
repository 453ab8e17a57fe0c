"""Folders and files from strangers: links, pipes, damage, hostile names; and paths that the system refuses."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import stat
import subprocess

import pytest
import torch

from processes import BINARY, DATA, PATIENCE_S, clean_environment, flags, only_json, run_folder, served as call

SMALL = {"max_episodes": 12, "algo": "dqn", "obs": "view", "reward": "score", "mask_fatal": True, "num_envs": 4, "batch_size": 32,
         "updates_per_step": 0.25, "buffer_size": 2000, "hidden_size": 16, "checkpoint_interval": 4, "save_interval": 4, "threads": 1,
         "dist_timeout": 60, "join_timeout": 60, "eval_interval": 4, "eval_games": 4, "record_interval": 4, "resume": "never"}
LONGER = ("--max_episodes", "24")
ESCAPES = "\x1b]0;pwned\x07\x1b[31m\x7f\u009b1m\u202e"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of two ranks: with all that a run's folder can have."""
    done = call("train", *flags(SMALL | {"runs_dir": tmp_path_factory.mktemp("runs")}), "--ddp", "--world_size", 2)
    assert done.returncode == 0, done.stderr
    return run_folder(done.stdout)


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run", symlinks=True)


def names_in(folder):
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}


def contents(folder):
    return {name: path.read_bytes() for name, path in names_in(folder).items() if path.is_file() and not path.is_symlink()}


def resume(run, *more, ranks=2):
    """One rank takes a twentieth of the time that two take to start."""
    own = ("--ddp", "--world_size", ranks) if ranks > 1 else ()
    return call("train", "--resume", run, *LONGER, *more, *own)


def report(*line):
    return call("report", *line, "--json", "--ladder_games", "1")


def has_controls(text):
    return re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


# Links: what a run writes never goes through one


def test_no_link_in_a_folder_is_written_through(finished, tmp_path):
    """Each name that a run and the report write, as a link to a file outside: those that exist, and those to come."""
    clean = shutil.copytree(finished, tmp_path / "clean")
    assert report(clean).returncode == 0 and resume(clean).returncode == 0
    run, outside = shutil.copytree(finished, tmp_path / "run"), tmp_path / "outside"
    outside.mkdir()
    refused = re.compile(r"train(\.rank1)?\.log|metrics\.jsonl|events\.out.*")  # appended to: see below; under a new name at each start
    linked = []
    for name, path in (names_in(clean) | names_in(run)).items():
        victim, link = outside / name.replace("/", "+"), run / name
        if refused.fullmatch(name) or path.is_dir() or not link.parent.is_dir():
            continue
        if link.exists():
            shutil.move(link, victim)  # else there is none yet
        link.symlink_to(victim)
        linked.append(name)
    (outside / "folder").mkdir()
    (run / "checkpoints" / ".step_000000000800").symlink_to(outside / "folder")
    (run / "checkpoints" / "resumable").symlink_to(outside / "resumable")
    assert {"config.json", "ladder.json", "evaluation/best.json", "trained_model/actor_24.pth", "trained_model/critic_best.pth",
            "checkpoints/latest"} <= set(linked), linked
    before = contents(outside)
    shown = report(run)
    assert shown.returncode == 0 and contents(outside) == before, shown.stderr
    done = resume(run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(outside) == before and list((outside / "folder").iterdir()) == []
    left = {name for name, path in names_in(run).items() if path.is_symlink()}
    assert {name for name in left if name in names_in(clean) and not re.search(r"_[48]\.|_1?2\.|step_|episode_", name)} == set(), "replaced"


@pytest.mark.parametrize("name", ("train.log", "metrics.jsonl", "train.rank1.log", "trained_model", "checkpoints", "evaluation", "games"))
def test_a_link_that_cannot_be_replaced_is_refused(run, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.move(run / name, outside / name)
    (run / name).symlink_to(outside / name)
    before = contents(outside)
    assert report(run).returncode == 0
    done = resume(run, ranks=2 if name in ("train.rank1.log", "rank_1.replay") else 1)
    assert contents(outside) == before
    if name == "train.rank1.log":  # a rank other than 0 does without
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 4 and f"{name}': it is a link" in done.stderr, done.stderr


def test_a_run_that_the_user_reaches_through_a_link_goes_on(run, tmp_path):
    (tmp_path / "scratch").symlink_to(run)
    (tmp_path / "page.html").symlink_to(tmp_path / "behind.html")
    assert resume(tmp_path / "scratch", ranks=1).returncode == 0
    assert call("report", tmp_path / "scratch", "--html", tmp_path / "page.html", "--ladder_games", 0).returncode == 0
    assert (tmp_path / "page.html").is_symlink() and (tmp_path / "behind.html").stat().st_size > 1000


# Pipes, sockets and devices: nothing waits for them, and a signal ends what reads


def piped(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", ("config.json", "train.log", "metrics.jsonl", "events", "evaluation/best.json", "trained_model/actor_12.pth", "ladder.json"))
def test_a_pipe_in_a_runs_folder_stops_no_reader(run, name):
    path = next(run.glob("events.out*")) if name == "events" else run / name
    if not path.exists():
        path.write_text("")
    piped(path)
    shown, told = report(run), call("info", run)
    assert shown.returncode == (4 if name == "config.json" else 0), shown.stderr
    assert told.returncode == (4 if name in ("config.json", "trained_model/actor_12.pth") else 0), told.stderr
    if name == "evaluation/best.json":
        assert any(path.name in line for line in only_json(shown.stdout)["runs"][0]["damage"])


@pytest.mark.parametrize("name", ("manifest.json", "shared.pth", "rank_0.pth", "rank_1.replay"))
def test_a_pipe_in_a_checkpoint_is_damage(run, name):
    newest = max((run / "checkpoints").glob("step_*"))
    piped(newest / name)
    assert call("info", run).returncode == 4
    done = resume(run, ranks=2 if name in ("train.rank1.log", "rank_1.replay") else 1)
    assert done.returncode == 0 and "damaged" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ("train.log", "metrics.jsonl", "train.rank1.log"))
def test_a_pipe_in_place_of_a_log_is_refused(run, name):
    piped(run / name)
    done = resume(run, ranks=2 if "rank1" in name else 1)
    assert done.returncode == (0 if name == "train.rank1.log" else 4), done.stdout + done.stderr


def test_commands_end_at_pipes_sockets_and_devices(tmp_path):
    pipe = tmp_path / "pipe.pth"
    os.mkfifo(pipe)
    assert call("info", "/dev/zero").returncode == 4
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (pipe, pathlib.Path("/dev/null"), tmp_path / "socket"):
            for line in (("eval", "--team_a", path, "--team_b", "level2", "--games", 1), ("info", path), ("replay", path, "--text"),
                         ("verify-trace", path), ("export", "--actor", path, "--format", "safetensors"), ("train", "--config", path),
                         ("report", tmp_path, "--json", "--preset", path),
                         ("pretrain", "--stage", "tokenizer", "--data_path", path, "--save_dir", tmp_path / "save", "--cache_dir",
                          tmp_path / "cache")):
                done = call(*line)
                assert done.returncode in (2, 4) and "unexpected error" not in done.stderr, (line, done.returncode, done.stderr)


def test_pipes_that_the_user_types_are_read(tmp_path):
    game = DATA / "reference_log.json.gz"
    line = f"{BINARY} replay <(cat {game}) --html {tmp_path}/page.html && echo '{{\"seed\": 3}}' | {BINARY} train --config /dev/stdin --check_settings"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=clean_environment(), timeout=PATIENCE_S)
    assert done.returncode == 0 and (tmp_path / "page.html").exists(), done.stderr


def test_a_file_that_cannot_be_one_of_ours_is_not_read(run):
    os.truncate(run / "config.json", 1 << 40)  # takes no room
    for done in (report(run), call("info", run), resume(run, ranks=1)):
        assert done.returncode == 4 and "config.json has 1099511627776 bytes" in done.stderr, done.stderr


# NUL: names of files end there


def test_a_nul_in_a_text_is_refused(run, tmp_path):
    settings = tmp_path / "nul.json"
    for name, value in (("runs_dir", "runs/a\0b"), ("game_name", "a\0"), ("log_dir", "\0"), ("algo", "dqn\0"), ("dist_backend", "gloo\0x"),
                        ("a\0b", 1)):
        settings.write_text(json.dumps({name: value}))
        for command in ("train", "pretrain"):
            done = call(command, "--config", settings, "--runs_dir", tmp_path / "runs") if command == "train" else call(command, "--config", settings)
            assert done.returncode == 2 and "nul.json" in done.stderr, done.stderr
            if command == "train" or name == "a\0b":
                assert "NUL" in done.stderr and "\\u0000" in done.stderr, done.stderr
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"game_name": "snakes\0"}))
    for done in (resume(run, ranks=1), report(run), call("info", run)):
        assert done.returncode == 4 and "config.json" in done.stderr and "NUL" in done.stderr and "game_name" in done.stderr, done.stderr


def test_a_folder_without_a_name_is_refused():
    done = call("train", "--runs_dir", "", "--check_settings")
    assert done.returncode == 2 and '--runs_dir ""' in done.stderr


# Paths that the system refuses


def test_refused_paths_are_errors_of_files(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    private = tmp_path / "private"
    private.mkdir()
    (private / "a.pth").write_text("")
    paths = ["a" * 300, tmp_path / "loop", tmp_path / ("b" * 300)]
    if os.geteuid() != 0:
        private.chmod(0)
        paths.append(private / "a.pth")
    for path in paths:
        for line in (("eval", "--team_a", path, "--team_b", "level2", "--games", 1), ("info", path), ("report", path, "--json"),
                     ("eval", "--ladder", "level2", path), ("export", "--actor", path, "--format", "safetensors"),
                     ("replay", path, "--text"), ("verify-trace", path),
                     ("train", "--config", path), ("train", "--resume", path), ("train", "--opponent_mix", f"file:{path}:1"),
                     ("report", tmp_path, "--json", "--preset", path),
                     ("pretrain", "--stage", "tokenizer", "--data_path", path, "--save_dir", tmp_path / "save", "--cache_dir",
                      tmp_path / "cache")):
            done = call(*line)
            assert done.returncode == 4 and "unexpected error" not in done.stderr and (done.stdout == "" or line[0] == "pretrain"), (line, done.returncode, done.stderr)
    private.chmod(stat.S_IRWXU)


def test_what_cannot_be_written_is_refused_before_the_work(finished, tmp_path):
    folder, game = tmp_path / "folder.json", DATA / "reference_log.json.gz"
    folder.mkdir()
    teams = ("--team_a", "level2", "--team_b", "level4")
    for output in (folder, tmp_path / "none" / "x", "/dev/null"):
        for line in (("report", finished, "--html", output), ("replay", game, "--html", output, "--blunders")):
            done = call(*line)
            assert done.returncode == 4 and "cannot write" in done.stderr and done.stdout == "", (line, done.stderr)
    (tmp_path / "file").write_text("")
    for line in (("eval", *teams, "--games", 10**6, "--record", tmp_path / "file"),
                 ("eval", *teams, "--games", 10**6, "--record_boards", tmp_path / "file" / "x.boards")):
        assert call(*line).returncode == 4, line


# Damage of a run is shown, and ends no page


def append(text):
    def damage(run):
        with open(run / "train.log", "a") as log:
            log.write(text + "\n")
    return damage


def changed(**values):
    def damage(run):
        (run / "config.json").write_text(json.dumps(json.loads((run / "config.json").read_text()) | values))
    return damage


TAGS = ("eval/win_rate", "league/elo", "collect/env_steps", "perf/memory_mb", "collect/play_seconds", "</script>\x1b", "__proto__/x")


def reports(*points, tags=TAGS):
    """(time, step, value) of each of these tags."""
    def damage(run):
        with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
            for time, step, value in points:
                file.write(json.dumps({"step": step, "episode": 10**6, "minutes": 1e6, "time": time} | dict.fromkeys(tags, value)) + "\n")
    return damage


NAN, INF, NOW, LATER = float("nan"), float("inf"), 1.9e9, 10**9
DAMAGE = {  # what is done to the run, and a word of what the page says of it; None: it just does not matter
    "a number of an episode beyond 64 bits": (append("2026-11-29 20:00:00.000 [Evaluation at episode 99999999999999999999] against level2: won 50.0 % [1.0, 2.0] of 10 games"), None),
    "the league's": (append("2026-11-29 20:00:00.000 [League at episode 99999999999999999999] Elo 10 [1, 2]"), None),
    "a long line": (append("2026-11-29 20:00:00.000 [Evaluation at episode 4] against " + "a" * 10**6), None),
    "a line beyond all": (append("x" * (17 << 20)), "16 MiB"),
    "an impossible day": (append("9999-99-99 99:99:99.000 x\n0000-01-01 00:00:00.000 y"), None),
    "a truncated game": (lambda run: os.truncate(run / "evaluation" / "best.json", 3000), "best.json"),
    "an empty game": (lambda run: os.truncate(run / "evaluation" / "worst.json", 0), "worst.json"),
    "a folder for a game": (lambda run: [(run / "evaluation" / "worst.json").unlink(), (run / "evaluation" / "worst.json").mkdir()], "worst.json"),
    "no learner": (changed(algo=None), '"algo" is null'),
    "an opponent that is a number": (changed(eval_opponent=3, eval_games=1e300), None),
    "a run that is a list": (changed(run=[1]), '"run"'),
    "ranks in words": (changed(run={"world_size": "two", "device": 3, "version": None}), '"world_size"'),
    "no ranks": (changed(run={"world_size": 0}), '"world_size"'),
    "odd values of settings": (changed(seed={"a": [1]}, gamma="x" * 10**5, runs_dir=None), None),
    "a dangling link": (lambda run: (run / "trained_model" / "actor_999.pth").symlink_to("/nonexistent"), None),
    "a folder for weights": (lambda run: (run / "trained_model" / "actor_999.pth").mkdir(), None),
    "a ladder of another kind": (lambda run: (run / "ladder.json").write_text('{"of": null, "rows": 5, "actor": []}'), None),
    "values that are no numbers": (reports(*[(NOW + k, LATER + k, (NAN, INF, -INF)[k % 3]) for k in range(30)]), "30 lines of metrics.jsonl"),
    "values that are none": (reports(*[(NOW + k, LATER + k, (None, "x", [1], {"a": {}})[k % 4]) for k in range(30)]), None),
    "times that are none": (reports(*[((1e300, -1e300, None, 4e18)[k % 4], LATER + k, 1) for k in range(30)]), "30 lines of metrics.jsonl"),
    "steps that are none": (reports(*[(NOW + k, (2**63 - 1, -2**63, 2**70, 0, 1.5)[k % 5], 1) for k in range(30)]), "30 lines of metrics.jsonl"),
    "values beyond all": (reports(*[(NOW + k, LATER + k, 1e308 * (-1)**k) for k in range(30)]), None),
    "values next to nothing": (reports(*[(NOW + k, LATER + k, 1e-320 * k) for k in range(30)]), None),
    "more curves than a page has room for": (reports((NOW, LATER, 1), tags=[f"x/{k}" for k in range(2000)]), "500 curves"),
    "reports that are nested": (lambda run: (run / "metrics.jsonl").write_text("[" * 10**6), "1 line of metrics.jsonl"),
    "a pipe for reports": (lambda run: [(run / "metrics.jsonl").unlink(), os.mkfifo(run / "metrics.jsonl")], None),
    "a pipe for TensorBoard": (lambda run: os.mkfifo(run / "events.out.tfevents.9"), None),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_shown_and_ends_no_page(finished, run, name):
    damage, word = DAMAGE[name]
    damage(run)
    done = report(finished, run)
    assert done.returncode == 0 and not has_controls(done.stdout.replace("\n", "")), done.stderr
    whole, damaged = only_json(done.stdout)["runs"]
    assert whole["damage"] == [] and len(whole["games"]) == 3
    if word:
        assert any(word in line for line in damaged["damage"]), damaged["damage"]
    else:
        assert damaged["damage"] == []


# Hostile names reach neither terminal nor log


def test_names_from_files_are_printed_as_escapes(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / f"run{ESCAPES}\nTraining completed! x")
    actor = run / "trained_model" / "actor_12.pth"
    weights = torch.load(actor, weights_only=True)
    evil = run / "trained_model" / f"actor_13{ESCAPES}.pth"
    torch.save(weights | {ESCAPES: torch.zeros(3), "a\nb": torch.zeros(2)}, evil)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"eval_opponent": ESCAPES, ESCAPES + "\n": 1, "seed": ESCAPES}, ensure_ascii=False))
    with open(run / "train.log", "a") as log:
        log.write(f"2026-11-29 20:00:00.000 {ESCAPES}\n")
    game = tmp_path / "game.json"
    log = json.loads((run / "evaluation" / "best.json").read_text())
    game.write_text(json.dumps(log | {"names": [ESCAPES, "b\nc"]}))
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(log | {"game_name": ESCAPES, "n_player": ESCAPES}))
    manifest = max((run / "checkpoints").glob("step_*")) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version"', f'"{ESCAPES}": 1, "version"'))
    lines = [("info", run), ("info", run, "--json"), ("info", evil), ("info", manifest.parent), ("report", run, "--json", "--ladder_games", 0),
             ("report", run, "--html", tmp_path / f"page{ESCAPES}.html", "--ladder_games", 0), ("replay", game, "--text"),
             ("replay", broken, "--text"), ("verify-trace", broken), ("eval", "--team_a", evil, "--team_b", "level2", "--games", 1),
             ("eval", "--ladder", f"{evil}:{ESCAPES}", "level2"), ("export", "--actor", evil, "--format", "submission", "--output", tmp_path / "out"),
             ("train", "--resume", run), ("train", "--config", run / "config.json"), ("train", "--opponent_mix", f"file:{evil}:1", "--check_settings"),
             (f"tr{ESCAPES}ain",), ("train", f"--{ESCAPES}"), ("train", "--runs_dir", tmp_path / ESCAPES / "none", "--load_model")]
    for line in lines:
        done = call(*line)
        assert not has_controls(done.stdout + done.stderr), (line, done.stdout, done.stderr)
        assert "unexpected error" not in done.stderr, (line, done.stderr)
        assert done.stdout + done.stderr, line
    assert call("info", run, "--json").stdout.count("\n") == 1


def test_a_hostile_place_for_runs_forges_no_line_of_the_log(tmp_path):
    runs = f"{tmp_path}/runs{ESCAPES}\n2026-01-31 12:00:00.000 Training completed! x"
    done = call("train", *flags(SMALL | {"runs_dir": runs, "max_episodes": 4}))
    assert done.returncode == 0, done.stderr
    log = next(tmp_path.rglob("train.log")).read_text()
    for text in (done.stdout + done.stderr, log):
        assert not has_controls(text), text
        assert not re.search(r"^(2026-01-31 .*)?Training completed! x", text, re.M)
