"""Starting snake_ddp and its fellows from tests: clean environments, torchrun, patience, and nobody left behind."""

import contextlib
import functools
import json
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["SD_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["SD_SOURCE_DIR"]).resolve()
BINARY = str(BUILD / "src" / "app" / "snake_ddp")
STARTER = str(BUILD / "src" / "app" / "starter" / "snake_ddp")  # what ./snake_ddp links to
DATA = SOURCE / "tests" / "data"
# Variables of ranks that find no memory to share: they sum through Gloo's connections.
THROUGH_GLOO = {"LD_PRELOAD": BUILD / "tests" / "train" / "libno_shared_memory.so"}
PATIENCE_S = 90  # for anything that takes seconds on an idle machine
# A run of a second with hundreds of updates.
TINY = {"hidden_size": 16, "batch_size": 16, "num_envs": 4, "max_episodes": 4, "episode_length": 100, "buffer_size": 1000,
        "check_consistency": 50, "threads": 1}
EPISODE = r"\bepisode \d+  "  # a line about an episode, one every few seconds
# Under nohup or in a script's background these are ignored, and programs started here would ignore them, too.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, lambda *_: None)
GROUP_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def clean_environment(**variables):
    # PyTorch's store asks the resolver for the name of whoever connects: a lost question may cost a second, not ten.
    variables = {"OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"} | variables
    kept = {name: value for name, value in os.environ.items()
            if name not in GROUP_VARIABLES and not name.startswith(("SLURM_", "TORCHELASTIC_", "PET_", "GLOO_", "OMP_"))}
    return kept | {name: str(value) for name, value in variables.items()}


def flags(settings):
    """{"seed": 3, "load_model": True} as a command line."""
    line = []
    for name, value in settings.items():
        line += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return line


# Below the ports that systems give to outgoing connections, so that a test that runs beside does not take one meanwhile.
TEST_PORTS = range(20000, 32000)


def has_bf16():
    """Whether --products bf16 works on this CPU."""
    cpu = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "amx_bf16" in cpu or "avx512_bf16" in cpu


def free_port(ports=None):
    """A port that is free now: any of TEST_PORTS, or the first one of `ports`."""
    for port in ports or random.sample(TEST_PORTS, 100):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return s.getsockname()[1]
    raise AssertionError("no free port")


def call(*arguments, timeout=PATIENCE_S, cwd=None, preexec_fn=None, **variables):
    """Runs snake_ddp to its end."""
    return subprocess.run([BINARY, *map(str, arguments)], env=clean_environment(**variables), capture_output=True, text=True,
                          timeout=timeout, cwd=cwd, preexec_fn=preexec_fn, stdin=subprocess.DEVNULL)


class Server:
    """Runs command lines in forks of a program whose libraries are loaded: see tests/app/command_server.cpp."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="snake_ddp_served.")
        self.popen = subprocess.Popen([BUILD / "tests" / "app" / "command_server", "--serve"], env=clean_environment(),
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def run(self, arguments, variables, folder, timeout):
        output, errors = (pathlib.Path(self.folder.name) / name for name in ("output", "errors"))
        request = {"arguments": arguments, "variables": variables, "folder": str(folder), "output": str(output), "errors": str(errors)}
        self.popen.stdin.write(json.dumps(request).encode() + b"\n")
        child = int(self.popen.stdout.readline())
        ended, _, _ = select.select([self.popen.stdout], [], [], timeout)
        if not ended:
            os.killpg(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(int(self.popen.stdout.readline()))
        texts = [path.read_bytes() for path in (output, errors)]
        if not ended:
            raise subprocess.TimeoutExpired(arguments, timeout, *texts)
        return subprocess.CompletedProcess(arguments, code, *(text.decode() for text in texts))


the_server = functools.cache(Server)


def served(*arguments, timeout=PATIENCE_S, cwd=None, preexec_fn=None, **variables):
    """As `call`, in a hundredth of a second instead of half of one. What is read while libraries are loaded needs a real start."""
    words = list(map(str, arguments))
    is_text = not any(0xd800 <= ord(c) <= 0xdfff for word in words for c in word)
    if preexec_fn or not is_text or any(name.startswith(("LD_", "OMP_", "MKL_")) for name in variables):
        return call(*arguments, timeout=timeout, cwd=cwd, preexec_fn=preexec_fn, **variables)
    return the_server().run(words, clean_environment(**variables), cwd or os.getcwd(), timeout)


class Process:
    """A program in a session of its own; its output goes to a file."""

    def __init__(self, command, output, **variables):
        self.output = pathlib.Path(output)
        self.begun = time.monotonic()
        with open(self.output, "wb") as out:
            self.popen = subprocess.Popen([str(word) for word in command], env=clean_environment(**variables), stdout=out,
                                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)

    def wait(self):
        try:
            code = self.popen.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {PATIENCE_S} s:\n{self.text()}") from None
        self.took_s = time.monotonic() - self.begun
        return code

    def text(self):
        return self.output.read_text(errors="replace")

    def wait_for(self, pattern):
        """The match of `pattern` in the output, as soon as it is there."""
        until = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.text())):
            assert self.popen.poll() is None, f"ended before it said {pattern!r}:\n{self.text()}"
            assert time.monotonic() < until, f"did not say {pattern!r}:\n{self.text()}"
            time.sleep(0.02)
        return found


def wait_until_listening(port):
    until = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
            return
        assert time.monotonic() < until, f"nothing listens at port {port}"
        time.sleep(0.02)


@contextlib.contextmanager
def starter(folder):
    """Gives a function that starts processes, and ends what is left of them afterwards, children included."""
    started = []

    def start(command, **variables):
        started.append(Process(command, folder / f"output{len(started)}.txt", **variables))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            family = [process.popen.pid, *descendants(process.popen.pid)]
            if process.popen.poll() is None:
                for pid in family:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.popen.wait()


def torchrun(start, ranks, *arguments, more=(), **variables):
    # As --standalone, but without asking who "localhost" is: bare systems do not know.
    alone = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    return start([sys.executable, "-m", "torch.distributed.run", *alone, *more, f"--nproc_per_node={ranks}", "--no-python",
                  *arguments], **variables)


def ranks_by_hand(start, size, *arguments, program=BINARY, each=lambda rank: [], port=None, **variables):
    """The ranks of one group, as a person would start them."""
    port = port or free_port()
    return [start([program, *arguments, *each(rank)], RANK=rank, WORLD_SIZE=size, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                  **variables) for rank in range(size)]


def descendants(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def worker_pids(process, size):
    """{rank: pid} of the snake_ddp processes below `process`."""
    until = time.monotonic() + PATIENCE_S
    while True:
        found = {}
        for pid in descendants(process.popen.pid):
            with contextlib.suppress(OSError):
                if os.path.samefile(f"/proc/{pid}/exe", BINARY):
                    variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
                    found |= {int(v[5:]): pid for v in variables if v.startswith("RANK=")}
        if len(found) == size:
            return found
        assert process.popen.poll() is None and time.monotonic() < until, f"ranks {sorted(found)} of {size}:\n{process.text()}"
        time.sleep(0.02)


def has_become(pid, program):
    with contextlib.suppress(OSError):
        return os.path.samefile(f"/proc/{pid}/exe", program)
    return False


def wait_until_loading(pid):
    """Until snake_ddp maps its libraries: for about a second from then on it cannot handle a signal."""
    until = time.monotonic() + PATIENCE_S
    while not (has_become(pid, BINARY) and "libtorch_cpu" in pathlib.Path(f"/proc/{pid}/maps").read_text()):
        assert time.monotonic() < until
        time.sleep(0.002)


def state_of(task):
    """A letter, from a process's or thread's folder below /proc."""
    return (pathlib.Path(task) / "stat").read_text().rsplit(")", 1)[1].split()[0]


def suspend(pid):
    """Returns when all threads of the process have stopped. After kill alone, one may still write a file."""
    until = time.monotonic() + PATIENCE_S
    os.kill(pid, signal.SIGSTOP)
    while any(state_of(task) != "T" for task in pathlib.Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < until
        time.sleep(0.01)


def is_alive(pid):
    try:
        return state_of(f"/proc/{pid}") not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pids, limit_s):
    until = time.monotonic() + limit_s
    while any(map(is_alive, pids)):
        assert time.monotonic() < until, f"still there: {[p for p in pids if is_alive(p)]}"
        time.sleep(0.05)


def fingerprint(text):
    """{"line", "weights", "ranks": {rank: (boards, batch)}} of the run that printed `text`."""
    lines = re.findall(r"^Fingerprint: .*$", text, re.M)
    assert len(lines) == 1, f"{len(lines)} fingerprints in:\n{text}"
    ranks = {int(rank): (boards, batch)
             for rank, boards, batch in re.findall(r"rank (\d+) boards (\w{16}) batch (\w{16})", lines[0])}
    return {"line": lines[0], "weights": re.search(r"weights (\w{16})", lines[0])[1], "ranks": ranks}


def help_groups(text):
    """{heading: {flag: what --help says of it, in one line}}"""
    groups = {}
    for heading, body in re.findall(r"^(\S.*):\n((?: .*\n)+)", text, re.M):
        flags_of_it = re.findall(r"^  (?:-\w, )?--(\w+)(.*(?:\n {8,}.*)*)", body, re.M)
        groups[heading] = {name: re.sub(r"\| ", "|", " ".join(said.split())) for name, said in flags_of_it}
    return {heading: found for heading, found in groups.items() if found}


def run_folder(text):
    return pathlib.Path(re.search(r"^Run folder: (.+)$", text, re.M)[1])


def only_json(text):
    """The one JSON object that `text` is."""
    document = json.loads(text)
    assert isinstance(document, dict) and text.count("\n") == 1, text
    return document
