"""Puts one fault at a time into a copy of the sources and runs the test that must fail; faults.py has the table.

    python3 dev/mutants/run.py                     all of them; continues where an earlier start with the same code stopped
    python3 dev/mutants/run.py --only NAME...      these
    python3 dev/mutants/run.py --from NAME         this one and those after it
    python3 dev/mutants/run.py --check             builds nothing: whether each fault has its place, and its test exists
    python3 dev/mutants/run.py --list

Run it with an interpreter that has torch and pytest, such as .venv/bin/python3. The copy and its build are in
build/mutants. Each result is a line of JSON in build/mutants/results.jsonl. The exit code is 1 if a fault was not
noticed or could not be tried.
"""

import argparse
import contextlib
import dataclasses
import difflib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import faults
import scanner

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build" / "mutants"
BUILD = COPY / "build" / "release"  # as in any clone, so that the compiler cache knows the paths
TEST_LIMIT_S = 300


@dataclasses.dataclass(frozen=True)
class Test:
    targets: tuple
    case: str = ""
    pytest: str = ""

    def __str__(self):
        return f"{self.targets[0]}: {self.case}" if self.case else self.pytest

    def command(self):
        if self.pytest:
            return [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"{COPY}/tests/{self.pytest}"]
        # Catch2 reads a comma as "or" and brackets as tags.
        name = self.case.replace(",", "\\,").replace("[", "\\[")
        (program,) = self.targets
        return [BUILD / "tests" / room_of(program, COPY).name / program, name, "-w", "NoTests"]


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    test: Test
    edits: tuple  # of (function, code, instead)


def fail(message):
    sys.exit(f"mutants: {message}")


def read_table(table):
    found = {}
    for row in table:
        test = Test(tuple(row["targets"]), row.get("case", ""), row.get("pytest", ""))
        for name, *edits in row["faults"]:
            if name in found or not edits or len(edits) % 3:
                fail(f"{name!r}: a fault has a name of its own and (function, code, instead) once or more")
            found[name] = Fault(name, test, tuple(zip(*[iter(edits)] * 3)))
    return found


def with_fault(fault, files):
    """{file: text with the fault}"""
    places = {}
    for function, code, instead in fault.edits:
        file, start, end = scanner.find(files, function, code)
        places.setdefault(file, []).append((start, end, instead))
    texts = {}
    for file, edits in places.items():
        text = files[file][0]
        for start, end, instead in sorted(edits, reverse=True):
            text = text[:start] + instead + text[end:]
        texts[file] = text
    return texts


# ---- checking ------------------------------------------------------------------------------------------------------

def room_of(program, root):
    """The folder with the cases of a Catch2 program: its namesake, or the one that builds it."""
    namesake = root / "tests" / program.removeprefix("test_")
    builds = f"add_executable({program} "
    return namesake if namesake.is_dir() else next(
        file.parent for file in root.glob("tests/*/CMakeLists.txt") if builds in file.read_text(encoding="utf-8"))


@functools.cache
def cases_of(program, root):
    """Names of all cases of a Catch2 program."""
    names = []
    for path in sorted(room_of(program, root).glob("test_*.cpp")):
        words = [token.text for token in scanner.tokens(path.read_text(encoding="utf-8"))]
        names += [json.loads(words[i + 2]) for i in range(len(words) - 2) if words[i:i + 2] == ["TEST_CASE", "("]]
    return names


@functools.cache
def functions_of(file, root):
    path = root / "tests" / file
    return re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M) if path.exists() else []


def missing_test(test, root):
    """Why the test is not there, or nothing."""
    if test.case:
        wanted, there = test.case, cases_of(test.targets[0], root)
    else:
        file, _, function = test.pytest.partition("::")
        wanted, there = function.partition("[")[0], functions_of(file, root)
    if wanted in there:
        return ""
    alike = difflib.get_close_matches(wanted, there, n=1, cutoff=0.3)
    return f"no test {str(test)!r}" + (f"; is it now {alike[0]!r}?" if alike else "")


def problems(chosen, root):
    files = scanner.read(root)
    found = []
    for fault in chosen:
        try:
            same = all(text == files[file][0] for file, text in with_fault(fault, files).items())
            problem = "changes nothing" if same else missing_test(fault.test, root)
        except scanner.ScanError as error:
            problem = str(error)
        if problem:
            found.append(f"{fault.name!r}: {problem}")
    return found


# ---- building and running ------------------------------------------------------------------------------------------

def sources():
    """Tracked and new files, without links."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, capture_output=True).stdout.decode().split("\0")
    return sorted(name for name in listed if name and (ROOT / name).is_file() and not (ROOT / name).is_symlink())


def copy_sources(names):
    """Equal files keep their time, so that little is rebuilt; leftovers of an interrupted start are undone."""
    for name in names:
        there, content = COPY / name, (ROOT / name).read_bytes()
        if not there.exists() or there.read_bytes() != content:
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, there)
    for folder in ("include", "src", "tests", "dev", "fuzz"):  # a file that is gone must not be found by a glob
        for path in (COPY / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and str(path.relative_to(COPY)) not in names:
                path.unlink()
    if (ROOT / ".venv").exists() and not (COPY / ".venv").exists():
        (COPY / ".venv").symlink_to(ROOT / ".venv")


def code_of(names):
    """A hash of the code and the tests: results for other code are ignored."""
    code = hashlib.sha256()
    for name in names:
        if name.startswith(("include/", "src/", "tests/", "cmake/", "CMakeLists")):
            code.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return code.hexdigest()[:12]


def environment():
    tools = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": tools, "SD_BUILD_DIR": str(BUILD), "SD_SOURCE_DIR": str(COPY), "OMP_NUM_THREADS": "1",
                         "PYTHONPATH": str(COPY / "tests"), "PYTHONDONTWRITEBYTECODE": "1"}


def quiet(command, limit_s=None):
    """(exit code, the end of its output); nothing it started outlives a limit."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", env=environment(), start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit_s)
        return process.returncode, output[-3000:]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return 1, f"no end within {limit_s} s"


def configure():
    if (BUILD / "build.ninja").exists():
        return  # ninja repeats it if necessary
    python = COPY / ".venv" / "bin" / "python3"
    code, output = quiet(["cmake", "-S", COPY, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                          "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DSNAKE_DDP_MARCH=native", "-DSNAKE_DDP_CUDA=off",
                          f"-DPython3_EXECUTABLE={python if python.exists() else sys.executable}"])
    if code != 0:
        fail(f"cmake failed:\n{output}")


def build(targets, jobs):
    """What went wrong, or nothing."""
    code, output = quiet(["ninja", "-C", BUILD, "-j", str(jobs), *targets])
    return "" if code == 0 else output


def failure_of(test):
    """How the test failed, or nothing."""
    code, output = quiet(test.command(), TEST_LIMIT_S)
    return "" if code == 0 else output


def without_fault(test, jobs):
    """Whether the test passes without a fault. Returns what is wrong with it, or nothing."""
    if problem := build(test.targets, jobs):
        return f"the sources without a fault do not build:\n{problem}"
    if problem := failure_of(test):
        return f"fails without a fault:\n{problem}"
    return ""


def attempt(fault, files, jobs):
    """(noticed, not noticed or not tried; why)"""
    texts = with_fault(fault, files)
    try:
        for file, text in texts.items():
            (COPY / file).write_text(text, encoding="utf-8")
        if problem := build(fault.test.targets, jobs):
            return "not tried", f"does not build with the fault:\n{problem}"
        problem = failure_of(fault.test)
        return ("noticed" if problem else "not noticed"), problem
    finally:
        for file in texts:
            (COPY / file).write_text(files[file][0], encoding="utf-8")


class Results:
    """Lines of JSON, each written when it is known."""

    def __init__(self, path, code):
        self.path, self.code = path, code
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.known = {self._key(line): line for line in lines if line["code"] == code}

    @staticmethod
    def _key(line):
        return line.get("fault"), json.dumps(line.get("edits")), line["test"]

    def find(self, fault, test):
        return self.known.get(self._key(self._line(fault, test)))

    def _line(self, fault, test):
        edits = {"fault": fault.name, "edits": fault.edits} if fault else {}
        return json.loads(json.dumps({**edits, "test": str(test), "code": self.code}))

    def add(self, fault, test, result, seconds, output):
        line = self._line(fault, test) | {"result": result, "seconds": round(seconds, 1), "output": output}
        self.known[self._key(line)] = line
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line


@contextlib.contextmanager
def alone():
    """Two runs in one copy would see each other's faults."""
    COPY.mkdir(parents=True, exist_ok=True)
    with (COPY / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(f"another run uses {COPY}; wait for it")
        yield


def run(chosen, jobs, results_file):
    names = sources()
    copy_sources(names)
    configure()
    results = Results(results_file, code_of(names))
    files = scanner.read(ROOT)
    width = max(len(fault.name) for fault in chosen)
    print(f"{'fault':<{width}}  {'result':<11} {'s':>5}  test")
    count = dict.fromkeys(("noticed", "not noticed", "not tried"), 0)
    for fault in chosen:
        test, begin = fault.test, time.monotonic()
        line = results.find(fault, test)
        if line is None or line["result"] == "not tried":
            good = results.find(None, test)
            if good is None or good["result"] != "passes":
                problem = without_fault(test, jobs)
                good = results.add(None, test, "fails" if problem else "passes", time.monotonic() - begin, problem)
                begin = time.monotonic()
            result, why = attempt(fault, files, jobs) if good["result"] == "passes" else ("not tried", good["output"])
            line = results.add(fault, test, result, time.monotonic() - begin, why)
        count[line["result"]] += 1
        print(f"{fault.name:<{width}}  {line['result']:<11} {line['seconds']:>5.0f}  {test}", flush=True)
        if line["result"] == "not tried":
            print(line["output"], flush=True)
    print(", ".join(f"{number} {result}" for result, number in count.items()))
    return 0 if count["noticed"] == len(chosen) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--from", dest="first", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--results", type=pathlib.Path, default=COPY / "results.jsonl")
    asked = parser.parse_args()
    table = read_table(faults.TESTS)
    for name in [*(asked.only or []), *filter(None, [asked.first])]:
        if name not in table:
            alike = difflib.get_close_matches(name, table, n=1)
            fail(f"no fault {name!r}" + (f"; is it {alike[0]!r}?" if alike else "; --list shows them"))
    chosen = [table[name] for name in asked.only or table]
    if asked.first:
        chosen = chosen[chosen.index(table[asked.first]):]
    if asked.list:
        print("\n".join(fault.name for fault in chosen))
        return 0
    if found := problems(chosen, ROOT):
        fail("these do not fit the code; see dev/mutants/faults.py\n" + "\n".join(found))
    if asked.check:
        return 0
    with alone():
        return run(chosen, asked.jobs, asked.results)


if __name__ == "__main__":
    sys.exit(main())
