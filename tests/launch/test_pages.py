"""The commands of all pages: each can be pasted into a fresh clone, in any order, and none leaves anything that git sees."""

import os
import random
import re
import shutil
import stat
import subprocess
import sys
import time

import pytest

from processes import BUILD, SOURCE, STARTER, clean_environment

# What a test cannot run: a pattern of the statement, and why. Other tests do what they can of these.
CANNOT_RUN = {
    r"^(sbatch|srun|mpirun|kubectl|scp) ": "needs a cluster: test_slurm.py, test_launchers.py, test_kubernetes.py, test_launch.py",
    r"^docker |^podman ": "needs an image: test_kubernetes.py",
    r"\bNNODES=|--nnodes=[2-9]": "needs a second machine: test_two_nodes.py",
    r"\./test\.sh|\bctest\b|\bcmake\b|\bninja\b|build/release/|-m pytest|dev/mutants|threads\.sh|fuzz/": "builds, or is this suite",
    r"\bsudo\b|apt-get|\bpip\b|-m venv|bin/activate|\bgit clone\b|^cd |\bconda\b": "sets a machine up, from a network: test_launch.py, tests/python",
    r"Competition_3v3snakes": "needs the platform's own code: tests/app/test_platform.py",
    r"snake_ddp\.tar\.xz|snake_ddp/start\.sh": "a bundle: test_bundle.py",
    r"nanobind|\bpython3? (-c|-m|examples/)|python examples/|^uvx? |^jupyter ": "needs the package: tests/python",
    r"\btensorboard\b|\bwandb\b": "serves until it is stopped, or needs an account",
    r"LD_PRELOAD|NCCL_|--device cuda|champion_gpu": "needs a GPU: test_gpu_check.py",
    r"SNAKE_DDP_PYTHON=": "another interpreter: test_launch.py",
    r"make_pictures\.py": "replaces the pages' pictures: tests/dev",
    r"^dev/|\bdev/\w+\.(py|sh)|launch/\w+\.sh": "takes hours, or measures: tests/dev, test_launch.py",
    r"--(seed|view_radius) [A-Z]\b|configs/[A-Z]+\.json|<[a-z ]+>|…": "has a place to fill in",
    r"\bplay\b": "needs a terminal: tests/app/test_play.py",
}
WRITES = r"--(?:record|record_boards|save_dir|output|html|runs_dir|save)[ =](\S+)"
RUN = r"runs/snakes_3v3/run\d+_\d{8}_\d{6}\w*"  # a run that a page has as an example

# In place of ./snake_ddp: the same command with less to do.
SHORTER = f'''#!{sys.executable}
import os, re, sys
line = sys.argv[1:]
command = line[0] if line and not line[0].startswith("-") else "train"
if command == "train":
    line += ["--max_minutes=0.005", "--eval_games=2", "--league_games=100", "--check_consistency=0"]
elif command == "pretrain":
    line += ["--epochs=1", "--save_interval=0", "--batch_size=512"]
elif command == "eval":
    if "--record" in line:  # whose files' names other commands know
        line = [re.sub(r"(\\.pth):(look|puct).*", r"\\1", word) for word in line]
    elif "--games" in line:
        at = line.index("--games") + 1
        line[at] = str(min(int(line[at]), 64 if "--record_boards" in line else 2))
    line = [word for word in line if word != "--watch"]
elif command == "report":
    line += ["--ladder_games=1"]
elif command == "replay":
    line = [word for word in line if word != "--text"] + (["--html=game.html"] if "--text" in line else [])
    if any(word.startswith("--blunders") for word in line) and "--judge" not in line:
        line += ["--judge=models/champion.pth:puct2"]
os.execv("{STARTER}", ["./snake_ddp", *line])
'''
# In place of train_ddp.sh, which would build, and of torchrun with the ranks of a large machine.
SCRIPT = '#!/bin/sh\nexec ./snake_ddp train --ddp --world_size "${NPROC:-1}" "$@"\n'
TORCHRUN = f'#!/bin/bash\nexec {sys.executable} -m torch.distributed.run "${{@/--nproc_per_node=[3-9]/--nproc_per_node=2}}"\n'


def pages():
    return sorted([*SOURCE.glob("*.md"), *(path for folder in ("docs", "launch", "examples", "models", "python", "configs")
                                           for path in (SOURCE / folder).glob("**/*.md"))])


def statements(text):
    """The shell's statements in a page's blocks: a line, a loop, or several lines joined by backslashes."""
    for block in re.findall(r"^\s*```(?:sh|bash|shell)\n(.*?)^\s*```", text, re.M | re.S):
        open_lines = ""
        for line in block.splitlines(keepends=True):
            open_lines += line
            incomplete = line.endswith("\\\n") or subprocess.run(["bash", "-n", "-c", open_lines], stderr=subprocess.DEVNULL).returncode
            if not incomplete:
                statement = re.sub(r"(^|\s)#.*", "", open_lines, flags=re.M).strip()
                open_lines = ""
                if statement:
                    yield statement
        assert not open_lines.strip(), f"not a statement of the shell: {open_lines}"


def all_statements():
    """{statement: [page, the variables that it needs]}. A page may set a variable for its later statements."""
    found = {}
    for page in pages():
        variables = []
        for statement in statements(page.read_text(encoding="utf-8")):
            if re.match(r"\w+=\S*\$\([^()]*\)$|\w+=\S+$", statement) or re.fullmatch(r"\w+=\$\(.*\)", statement):
                variables.append(statement)
            else:
                needed = [one for one in variables if re.search(rf"\$\{{?{one.partition('=')[0]}\b", statement)]
                found.setdefault("\n".join([*needed, statement]), page.relative_to(SOURCE))
    return found


def written_by(statement):
    """Folders and files; of sets of boards their folder, which is what others name."""
    return {path if not path.endswith(".boards") else os.path.dirname(path) for path in re.findall(WRITES, statement)}


def is_after(statement, other):
    """Whether a statement reads what another one writes."""
    reads = re.sub(WRITES, "", statement)
    stages = ["--stage tokenizer", "--stage mask_predictor", "--tokens "]
    stage, before = (next((k for k, word in enumerate(stages) if word in one), -1) for one in (statement, other))
    return (-1 < before < stage) or any(re.search(rf"[\s\"]{re.escape(path)}(/|\s|\"|$)", reads) for path in written_by(other))


STATEMENTS = all_statements()


def why_not(statement, statements=()):
    """Why a test cannot run a statement; of several also because it reads what another one writes that it cannot run."""
    own = next((why for pattern, why in CANNOT_RUN.items() if re.search(pattern, statement, re.M)), None)
    return own or next((f"needs what `{other}` writes" for other in statements if is_after(statement, other) and why_not(other)), None)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The files that git knows, with a program that has less to do, and one run."""
    root = tmp_path_factory.mktemp("clone") / "snake_ddp"
    names = subprocess.run(["git", "-C", SOURCE, "ls-files", "-coz", "--exclude-standard"], capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if name and (SOURCE / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, root / name)
    (root / "build").mkdir()
    (root / "build" / "release").symlink_to(BUILD)
    for path, text in {"snake_ddp": SHORTER, "train_ddp.sh": SCRIPT, ".venv/bin/torchrun": TORCHRUN}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(stat.S_IRWXU)
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    trained = run_in(root, "./snake_ddp --config configs/champion.json --num_envs 8 --rollout_steps 32 --hidden_size 64")
    assert trained.returncode == 0, trained.stderr
    return root


def run_in(root, statement):
    environment = clean_environment(PATH=f"{root}/.venv/bin:{os.environ['PATH']}", HOME=str(root.parent))
    return subprocess.run(["bash", "-euo", "pipefail", "-c", statement], cwd=root, env=environment, capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL)


def test_the_pages_commands_run_in_any_order_in_a_fresh_clone(clone):
    seed = time.time_ns() % 1000
    todo = sorted(statement for statement in STATEMENTS if not why_not(statement, STATEMENTS))
    assert len(todo) >= 20 and any(page.name.endswith(".zh.md") for page in pages())
    random.Random(seed).shuffle(todo)
    example = next((clone / "runs" / "snakes_3v3").iterdir()).relative_to(clone)
    failed = {}
    while todo:
        at = next((k for k, one in enumerate(todo) if not any(is_after(one, other) for other in todo if other != one)), 0)
        statement = todo.pop(at)
        done = run_in(clone, re.sub(r"(for \w+ in [^ ;]+)[^;]*", r"\1", re.sub(RUN, str(example), statement)))
        if done.returncode != 0 or "of an earlier recording" in done.stderr:
            failed[f"{STATEMENTS[statement]}: {statement}"] = f"exit code {done.returncode}: {done.stderr[-500:]}"
    assert not failed, f"order {seed}: " + "\n".join(f"{where}\n  {what}" for where, what in failed.items())
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True).stdout
    assert changed == "", "what the pages' commands write must be in .gitignore"


@pytest.mark.parametrize("text, found", [
    ("```sh\na b \\\n  c  # why\n# alone\nd\n```\n", ["a b \\\n  c", "d"]),
    ("```sh\nfor x in 1 2; do\n  a $x\ndone\n```\n", ["for x in 1 2; do\n  a $x\ndone"]),
    ("```text\na\n```\n", [])])
def test_statements_of_a_page_are_found(text, found):
    assert list(statements(text)) == found


def test_what_reads_files_comes_after_what_writes_them():
    record, replay = "./snake_ddp eval --record games/tree", "./snake_ddp replay games/tree/game_0.json --html game.html"
    assert is_after(replay, record) and not is_after(record, replay) and not is_after(record, record)
    assert is_after("pretrain --stage tokenizer --data_path boards", "eval --record_boards boards/a.boards")
    assert is_after("train --tokens pretrained", "pretrain --stage mask_predictor --data_path boards")
