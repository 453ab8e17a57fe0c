"""launch/wheel.sh: the wheel with the trainer in it, packed from this build, and its command where it is installed."""

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import venv
import zipfile

import pytest
from conftest import ROOT
from test_package import FOLDER, OTHERS

from processes import BUILD, PATIENCE_S, TINY, call, clean_environment, fingerprint, flags, only_json, run_folder, starter, torchrun

NEWEST_GLIBC = (2, 34)  # packed on Debian 12, as in CI
VARIABLES = ("SNAKE_DDP_PROGRAM", "HOME", "LD_LIBRARY_PATH")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    (package,) = (FOLDER / "wheel").glob("*.whl")
    tools = f"{OTHERS.parents[2] / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run([ROOT / "launch/wheel.sh", folder], capture_output=True, text=True, timeout=PATIENCE_S,
                          env=clean_environment(SNAKE_DDP_BIN=BUILD, SNAKE_DDP_WHEEL=package, PATH=tools))  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def place(wheel, tmp_path_factory):
    """An environment with the wheel; nothing in it may change."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(f"{OTHERS}\n")
    subprocess.run([OTHERS.parents[2] / "bin/python", "-m", "pip", "--python", folder / "bin/python", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    before = sorted(folder.rglob("*"))
    yield folder
    assert sorted(folder.rglob("*")) == before


def environment(**variables):
    return {name: value for name, value in clean_environment().items() if name not in VARIABLES} | variables


@pytest.fixture
def command(place, tmp_path):
    def run(*arguments, python=(), **variables):
        line = [place / "bin/python", *python] if python else [place / "bin/snake_ddp"]  # python=("-c",): the first argument is code
        return subprocess.run([*line, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path,
                              env=environment(**variables), stdin=subprocess.DEVNULL)  # fmt: skip

    return run


def test_its_contents_and_tag(wheel):
    (package,) = (FOLDER / "wheel").glob("*.whl")
    own, base = ({name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name} for path in (wheel, package))
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files", "configs", "models"], capture_output=True, text=True, check=True).stdout.split()
    program = {"snake_ddp", "starter/snake_ddp", "needs", "lib/libsnake_ddp_cuda.so", "lib/libfmt.so.9", "lib/libz.so.1"}
    version = package.name.split("-")[1]
    expected = {f"snake_ddp/{name}" for name in tracked} | {f"snake_ddp/program/{name}" for name in program}
    optional = {"snake_ddp/program/lib/libsnake_ddp_cuda.so"}  # of a build with kernels
    assert own - base | optional == expected | {f"snake_ddp-{version}.data/scripts/snake_ddp"} and base <= own
    with zipfile.ZipFile(wheel) as archive:
        needs = dict(line.split() for line in archive.read("snake_ddp/program/needs").decode().splitlines())
        assert all(archive.getinfo(f"snake_ddp/program/{name}").external_attr >> 16 & 0o111 for name in ("snake_ddp", "starter/snake_ddp"))
    assert wheel.name == f"snake_ddp-{version}-cp310-abi3-manylinux_{needs['glibc'].replace('.', '_')}_x86_64.whl"
    assert needs["torch"] == "2.11" and wheel.stat().st_size < 15_000_000


def test_its_programs_need_no_newer_system_and_know_no_place_of_this_one(place):
    (package,) = place.glob("lib/python*/site-packages/snake_ddp")
    files = [path for path in package.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert len(files) >= 7
    for path in files:
        symbols = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
        numbers = [tuple(map(int, version.split("."))) for version in re.findall(r"\bGLIBC_([\d.]+)", symbols)]
        if tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))) <= (2, 36):
            assert max(numbers, default=(2, 0)) <= NEWEST_GLIBC, path
        assert "PATH)" not in subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout


def test_the_command_trains_as_the_build_does(command, tmp_path):
    here = fingerprint(call(*flags(TINY), cwd=tmp_path).stdout)["line"]
    done = command(*flags(TINY))
    assert done.returncode == 0 and fingerprint(done.stdout)["line"] == here, done.stderr
    done = command("train", *flags(TINY), python=("-m", "snake_ddp"))
    assert done.returncode == 0 and fingerprint(done.stdout)["line"] == here, done.stderr
    script = f"import snake_ddp; print(snake_ddp.train(**{TINY}, config='smoke', progress=False).folder)"
    done = command(script, python=("-c",))
    assert pathlib.Path(done.stdout.strip()).parent == tmp_path / "runs/snakes_3v3", done.stderr
    assert run_folder(call("--resume", done.stdout.strip(), "--max_episodes", "5").stdout).is_dir()


def test_ranks_of_torchrun_and_its_own(place, command, tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with starter(tmp_path) as start:
        process = torchrun(start, 2, place / "bin/snake_ddp", "train", "--config", "smoke")
        assert process.wait() == 0, process.text()
    done = command("train", "--ddp", "--world_size", "2", "--config", "smoke")
    assert fingerprint(process.text())["line"] == fingerprint(done.stdout)["line"]


def test_a_signal_while_it_starts_is_not_lost(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with starter(tmp_path) as start:
        process = start([place / "bin/snake_ddp", *flags(TINY | {"max_episodes": 10**6})])
        held = 0
        while not held & 1 << signal.SIGTERM - 1:  # the script holds it at once
            held = int(re.search(r"SigBlk:\s*(\w+)", pathlib.Path(f"/proc/{process.popen.pid}/status").read_text())[1], 16)
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 75, process.text()


def test_presets_and_models_have_names(command, tmp_path):
    assert command("--config", "champion", "--check_settings").returncode == 0
    assert command("--config=qmix", "--check_settings").returncode == 0
    won = only_json(command("eval", "--team_a", "champion", "--team_b=expert:look1", "--games", "2", "--json").stdout)
    assert won["games"] == 2
    assert only_json(command("info", "champion", "--json").stdout)["player"]["obs"] == "ahead"
    mixed = command("--config", "champion", "--opponent_mix", "level2:0.5,file:champion:0.5", "--check_settings")
    assert mixed.returncode == 0, mixed.stderr
    assert only_json(command("import snake_ddp, json; print(json.dumps(vars(snake_ddp.evaluate('champion', 'level0', games=2))))", python=("-c",)).stdout)["games"] == 2
    assert command("from snake_ddp import networks; print(networks.load('champion').obs)", python=("-c",)).stdout == "ahead\n"
    (tmp_path / "champion").write_text('{"gamma": 7}')  # the working directory's own comes first
    assert "champion: --gamma 7: out of range" in command("--config", "champion", "--check_settings").stderr
    (tmp_path / "expert").write_text("not weights")
    assert command("eval", "--team_a", "expert", "--team_b", "random").returncode == 4
    assert "No such file" in command("--config", "nobody").stderr


@pytest.fixture
def program(place):
    (path,) = place.glob("lib/python*/site-packages/snake_ddp/program.py")
    spec = importlib.util.spec_from_file_location("the_program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_a_command_takes_without_its_flag(program, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    champion = f"{program.FOLDER}/models/champion.pth"
    assert program.resolved(["play", "--team_b", "level2"]) == ["play", "--team_b", "level2", f"--team_a={champion}"]
    assert program.resolved(["replay", "game.json", "--blunders"]) == ["replay", "game.json", "--blunders", f"--judge={champion}:puct200"]
    assert program.resolved(["replay", "game.json", "--text"]) == ["replay", "game.json", "--text"]
    assert program.resolved(["report", "champion", "--champion=expert"]) == ["report", "champion", f"--champion={program.FOLDER}/models/expert.pth"]
    ladder = program.resolved(["eval", "--ladder", "random", "models/champion.pth:look4", "a/champion", "--anchor", "expert"])
    assert ladder == ["eval", "--ladder", "random", f"{champion}:look4", "a/champion", "--anchor", f"{program.FOLDER}/models/expert.pth"]
    (tmp_path / "models").mkdir()
    (tmp_path / "models/champion.pth").touch()
    assert program.resolved(["play", "--team-a", "models/champion.pth"])[2] == "models/champion.pth"


@pytest.mark.parametrize("version, text", [
    ("__version__ = '2.9.1+cu130'\ncuda: Optional[str] = '13.0'", "has torch 2.9.1\\+cu130, and the program needs 2.11: .*-m pip install 'torch==2.11.*'"),
    ("__version__ = '2.11.0+cpu'\ncuda: Optional[str] = None", "torch 2.11.0\\+cpu of .* is not for CUDA 13"),
    ("__version__ = '2.11.0+cu126'\ncuda: Optional[str] = '12.6'", "torch 2.11.0\\+cu126 of .* is not for CUDA 13"),
    ("", "has torch unknown, and the program needs 2.11"),
])  # fmt: skip
def test_another_torch_is_refused_in_one_line(command, tmp_path, version, text):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/version.py").write_text(f"from typing import Optional\n{version}\n")
    done = command("train", "--config", "smoke", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2 and done.stdout == "" and re.fullmatch(f"snake_ddp: .*{text}.*\n", done.stderr), done.stderr


def test_another_machine_is_refused_in_one_line(program, monkeypatch, capsys):
    monkeypatch.delenv("SNAKE_DDP_PROGRAM", raising=False)
    monkeypatch.setattr(sys, "argv", ["snake_ddp", "info"])
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def refused(text):
        pipe = signal.getsignal(signal.SIGPIPE)
        try:
            with pytest.raises(SystemExit) as end:
                program.main()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            signal.signal(signal.SIGPIPE, pipe)
        assert end.value.code == 2 and re.fullmatch(f"snake_ddp: {text}.*\n", capsys.readouterr().err)

    monkeypatch.setattr(program, "_torch_folder", str)
    refused(".* has torch none, and the program needs 2.11")
    monkeypatch.setattr(os, "confstr", lambda _: "glibc 2.28")
    refused("this system has glibc 2.28, older than 2.34: build the program here")
    monkeypatch.setattr(program, "_processor", lambda: "flags : sse4_2 avx avx2 fma movbe")
    refused("this processor has no bmi2, and the program was compiled for x86-64-v3: build it here")


def test_it_starts_at_once(command, place):
    """Without numpy and gymnasium, of which the package needs a second."""
    text = (place / "bin/snake_ddp").read_text().replace("program.main()", "print(json.dumps([*sys.modules]))").replace("import sys", "import json, sys")
    loaded = json.loads(command(text.split("\n", 1)[1], python=("-c",)).stdout)
    assert not {"numpy", "torch", "gymnasium", "snake_ddp"} & set(loaded)


IN_THE_ENVIRONMENT = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
try:
    nbclient.NotebookClient(notebook, timeout=120).execute()
finally:
    nbformat.write(notebook, "executed.ipynb")
"""


def test_the_notebook_runs(command, tmp_path):
    notebook = json.loads((ROOT / "examples/quickstart.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code), "it is kept without its outputs"
    (minutes,) = [cell for cell in code if cell["source"] == ["minutes = 1"]]
    minutes["source"] = ["minutes = 0.03"]
    (tmp_path / "quickstart.ipynb").write_text(json.dumps(notebook))
    places = {name: str(tmp_path / name) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR", "HOME")}
    done = command(IN_THE_ENVIRONMENT, "quickstart.ipynb", python=("-c",), **places)
    assert done.returncode == 0, done.stderr[-3000:]
    shown = [json.dumps(cell["outputs"]) for cell in json.loads((tmp_path / "executed.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
    training, report, game, export = (shown[next(k for k, cell in enumerate(code) if word in "".join(cell["source"]))]
                                      for word in ('config="champion"', "run.report()", "snake_ddp.replay", "export"))  # fmt: skip
    assert "100%" in training and "Run(" in training and "<iframe" in report and "<iframe" in game and "Wrote" in export
    assert (tmp_path / "team/submission.py").exists()
