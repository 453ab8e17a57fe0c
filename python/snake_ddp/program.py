"""The trainer in this package, as a program: finds it and what it needs, and the presets and models beside it.

Imports nothing of the package, so that the command `snake_ddp` becomes the program at once.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
from typing import NoReturn

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(FOLDER, "program")  # launch/wheel.sh puts it there
CHOSEN = "SNAKE_DDP_PROGRAM"
HELD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# What the program was compiled for (x86-64-v3), as /proc/cpuinfo names it.
PROCESSOR = ("avx2", "bmi2", "fma", "movbe")
CONFIGS, MODELS, MIX = "configs", "models", "mix"
ENDINGS = {CONFIGS: ".json", MODELS: ".pth"}
# The flags that take a preset, a mix with teams in it, or a team or several.
NAMES = {"config": CONFIGS, "preset": CONFIGS, "opponent_mix": MIX}
NAMES |= dict.fromkeys(("team_a", "team_b", "ladder", "anchor", "judge", "champion", "actor", "load_model", "load_model_path"), MODELS)
# What a command takes if its flag is left out: files of the working directory, in a checkout.
USUAL = {"play": {"team_a": "champion", "team_b": "champion"}, "replay": {"judge": "champion:puct200"}, "report": {"champion": "champion"}}


class UnfitError(Exception):
    """The program cannot run here; the text says why, in one line."""


def path_of(kind: str, name: str) -> str:
    """The path of the package's preset (CONFIGS) or model (MODELS) of this name, as in "champion" or "models/champion.pth:look4"; the
    name itself if the working directory has such a file, or the package has none."""
    file, colon, way = name.partition(":") if kind == MODELS else (name, "", "")
    stem = file.removeprefix(f"{kind}/").removesuffix(ENDINGS[kind])
    path = os.path.join(FOLDER, kind, stem + ENDINGS[kind])
    return name if not stem or "/" in stem or os.path.isfile(file) or not os.path.isfile(path) else path + colon + way


def resolved(arguments: list[str]) -> list[str]:
    """A command line with the paths of the package's presets and models in place of their names."""
    line: list[str] = []
    given: set[str] = set()
    command = arguments[0] if arguments else ""
    kind = MODELS if command == "info" else ""
    for argument in arguments:
        head, value = "", argument
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            head, name = flag + equals, flag[2:].replace("-", "_")
            kind = NAMES.get(name, "")
            given.add(name)
        if kind == MIX:
            value = re.sub(r"(?<=file:)[^:,]+", lambda file: path_of(MODELS, file[0]), value)
        elif kind:
            value = path_of(kind, value)
        line.append(head + value)
    for name, usual in USUAL.get(command, {}).items():
        path = path_of(MODELS, usual)
        if name not in given and path != usual and (name != "judge" or "blunders" in given):
            line.append(f"--{name}={path}")
    return line


def found() -> tuple[str, dict[str, str]]:
    """The program's path, and the environment to start it with: LibTorch is that of this Python's torch.

    Throws  UnfitError.
    """
    environment = dict(os.environ)
    if environment.get(CHOSEN):
        return environment[CHOSEN], environment
    program = os.path.join(PROGRAM, "starter", "snake_ddp")
    if not os.path.exists(program):
        raise UnfitError(
            "this package is the one without the trainer: install the wheel that has it (docs/install.md), or name a program that you "
            f"built in {CHOSEN}"
        )
    with open(os.path.join(PROGRAM, "needs"), encoding="ascii") as file:
        needs = dict(line.split() for line in file)
    lacking = [feature for feature in PROCESSOR if feature not in _processor().split()]
    if lacking:
        raise UnfitError(
            f"this processor has no {lacking[0]}, and the program was compiled for x86-64-v3: build it here from its sources (docs/install.md)"
        )
    glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2]
    if _numbers(glibc) < _numbers(needs["glibc"]):
        raise UnfitError(f"this system has glibc {glibc or 'unknown'}, older than {needs['glibc']}: build the program here from its sources (docs/install.md)")
    torch = _torch_folder()
    version, cuda = _versions_of(torch) if torch else ("none", "")
    if not version.startswith(needs["torch"] + "."):
        raise UnfitError(
            f"{sys.executable} has torch {version}, and the program needs {needs['torch']}: {sys.executable} -m pip install 'torch=={needs['torch']}.*'"
        )
    if "cuda" in needs and cuda.split(".")[0] != needs["cuda"]:
        raise UnfitError(
            f"torch {version} of {sys.executable} is not for CUDA {needs['cuda']}, with whose libraries the program is linked, for machines "
            f"without a GPU, too: install PyTorch's usual wheel, or build the program from its sources (docs/install.md)"
        )
    nvidia = os.path.join(os.path.dirname(torch), "nvidia", f"cu{needs.get('cuda', '')}", "lib")
    folders = [os.path.join(torch, "lib"), nvidia, os.path.join(PROGRAM, "lib"), *environment.get("LD_LIBRARY_PATH", "").split(":")]
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    return program, environment


def main() -> NoReturn:
    """Becomes the program. The signals of a run wait until it can handle them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and what it ignores its program would, too
    try:
        program, environment = found()
        os.execve(program, ["snake_ddp", *resolved(sys.argv[1:])], environment)
    except UnfitError as error:
        sys.exit(_said(str(error), 2))
    except OSError as error:
        sys.exit(_said(f"cannot start {error.filename or program}: {error.strerror}", 4))


def _said(text: str, code: int) -> int:
    print(f"snake_ddp: {text}", file=sys.stderr)
    return code


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return next((line for line in file if line.startswith("flags")), "")
    except OSError:  # the program will say what it lacks
        return " ".join(PROCESSOR)


def _torch_folder() -> str:
    spec = importlib.util.find_spec("torch")
    return os.path.dirname(spec.origin) if spec and spec.origin else ""


def _versions_of(torch: str) -> tuple[str, str]:
    """Of torch and of its CUDA, without a second to import it."""
    try:
        with open(os.path.join(torch, "version.py"), encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return "unknown", ""
    version = re.search(r"^__version__ = '(.*)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b.* = '(.*)'", text, re.MULTILINE)
    return version[1] if version else "unknown", cuda[1] if cuda else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


if __name__ == "__main__":
    main()
