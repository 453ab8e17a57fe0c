"""Training from Python: starts the program and follows its run."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy
from numpy.typing import NDArray

from . import program
from .notebook import Page
from .teams import Match

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]
    from typing_extensions import Unpack

    from .flags import Flags
    from .networks import Network

Report = dict[str, Any]
_USAGE, _RESUMABLE = 2, 75  # of the program's exit codes
_LOOK_S = 0.05  # between looks at a run
_STOP_S = 90  # in which a run has stopped: it gives up a checkpoint after 25 s, and its launcher a suspended rank after 30
_going_on: set[Run] = set()


class RunError(RuntimeError):
    """A command of the program failed: its message, and in `code` its exit code, negative for the signal that killed it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class SettingsError(RunError, ValueError):
    """The program does not know a flag, or refuses a value. Nothing was started."""


class Run:
    """A training run: the one that `train` started, or any in a folder, `Run(folder)`.

    Iterating over one that goes on gives its reports as they come, and ends with it.
    Threads  one at a time.
    """

    folder: pathlib.Path
    _process: subprocess.Popen[bytes] | None
    _errors: BinaryIO
    _begun: float

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder).resolve()
        self._process = None
        self._begun = 0.0
        if not (self.folder / "config.json").is_file():
            raise FileNotFoundError(f"{self.folder}: not the folder of a run; it has no config.json")

    @property
    def code(self) -> int | None:
        """The program's exit code: 0 done, 75 stopped and resumable; None while it goes on. Of a run in a folder 0."""
        return 0 if self._process is None else self._process.poll()

    def __iter__(self) -> Iterator[Report]:
        offset, has_ended = 0, False
        while not has_ended:
            has_ended = self.code is not None  # and then there are no further reports
            reports, offset = _reports_after(self.folder / "metrics.jsonl", offset)
            yield from (report for report in reports if report["time"] >= self._begun)
            if not has_ended and not reports:
                time.sleep(_LOOK_S)
        self._check_end()

    def wait(self, on_metrics: Callable[[Report], object] | None = None, progress: bool = True) -> Run:
        """Until the run ends. Each report is given to `on_metrics`; what that throws, or Ctrl-C, stops the run with a checkpoint, and
        is thrown on. With `progress` a bar shows how far the run is, if tqdm is installed.

        Throws  RunError if the run died.
        """
        if self._process is None:
            return self
        try:
            with _bar(self.settings() if progress else None) as show:
                for report in self:
                    show(report)
                    if on_metrics is not None:
                        on_metrics(report)
                if self.code == 0:
                    show({"minutes": numpy.inf})
        except RunError:
            raise
        except BaseException as error:
            self._stop(signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
            raise
        return self

    def stop(self) -> Run:
        """Stops the run with a checkpoint, as a signal does; `train(resume=run.folder)` continues it. Nothing for one that has ended, or
        that was not started from here.

        Throws  RunError if it died before or meanwhile.
        """
        self._stop(signal.SIGTERM)
        self._check_end()
        return self

    def settings(self) -> dict[str, Any]:
        """All of its settings, as in its config.json."""
        settings: dict[str, Any] = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        return settings

    def metrics(self) -> dict[str, NDArray[Any]]:
        """Its reports so far (docs/reference/tags.md#metricsjsonl): an array for each key, NaN (for texts "") where a report has none."""
        reports, _ = _reports_after(self.folder / "metrics.jsonl", 0)
        keys = dict.fromkeys(itertools.chain.from_iterable(reports))
        texts = {key for report in reports for key, value in report.items() if isinstance(value, str)}
        nothing = {key: "" if key in texts else numpy.nan for key in keys}
        return {key: numpy.array([nothing[key] if (value := report.get(key)) is None else value for report in reports]) for key in keys}

    def frame(self) -> pandas.DataFrame:
        """`metrics` as a table, a row for each report, by its step.

        Throws  ImportError without pandas.
        """
        import pandas

        return pandas.DataFrame(self.metrics()).set_index("step")

    def weights(self, *, best: bool = False) -> pathlib.Path:
        """The file of its last actor or Q-network, or with `best` of that with the best evaluation.

        Throws  FileNotFoundError if the run has saved none yet.
        """
        files = {path.stem.partition("_")[2]: path for path in (self.folder / "trained_model").glob("actor_*.pth")}
        numbered = [int(name) for name in files if name.isdecimal()]
        name = "best" if best else str(max(numbered, default="none"))
        if name not in files:
            raise FileNotFoundError(f"{self.folder}/trained_model: the run has saved no weights{' of an evaluation' * best} yet")
        return files[name]

    def actor(self, *, best: bool = False) -> Network:
        """The network in `weights`."""
        from . import networks

        return networks.load(self.weights(best=best))

    def evaluate(self, opponent: str, games: int = 200, seed: int = 1, *, best: bool = False) -> Match:
        """Games of `weights` against a team, as `snake_ddp eval` names it: a script, or a file. Networks of all learners play, by the run's
        own `mask_fatal`."""
        words = ["--team_a", str(self.weights(best=best)), "--team_b", opponent, "--games", str(games), "--seed", str(seed)]
        if self.settings()["mask_fatal"]:
            words.append("--mask_fatal")  # as the run's own evaluations
        result: dict[str, Any] = json.loads(_call("eval", *words, "--json"))
        result["win_rate_ci95"] = tuple(result["win_rate_ci95"])
        return Match(**{name: result[name] for name in Match.__dataclass_fields__})

    def report(self) -> Page:
        """The page of `snake_ddp report`, which a notebook shows."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "report.html"
            _call("report", str(self.folder), "--html", str(page))
            return Page(page.read_text(encoding="utf-8"))

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @classmethod
    def _of(cls, process: subprocess.Popen[bytes], output: BinaryIO, errors: BinaryIO, begun: float, resumed: object) -> Run:
        """When the program has made the run's folder.

        Throws  RunError if it ended without one.
        """
        run = cls.__new__(cls)
        run._process, run._errors, run._begun = process, errors, begun
        _going_on.add(run)
        try:
            while True:
                code = process.poll()  # before the look at what it printed
                if named := re.search(r"^Run folder: (.+)$", _text(output), re.MULTILINE):
                    run.folder = pathlib.Path(named[1]).resolve()
                    break
                if code is not None:
                    run._check_end()
                    if not isinstance(resumed, (str, os.PathLike)) or not os.path.isdir(resumed):  # a run that is finished
                        raise RunError(f"no run began; the program printed: {_text(output)[:200]}", code)
                    run.folder = pathlib.Path(resumed).resolve()
                    break
                time.sleep(_LOOK_S)
        except BaseException:
            run._stop(signal.SIGTERM)
            raise
        for warning in re.findall(r"^Warning: (.*)$", _text(errors), re.MULTILINE):
            warnings.warn(warning, stacklevel=3)
        return run

    def _stop(self, number: signal.Signals) -> None:
        """A further Ctrl-C goes to the run, too: the third ends it at once."""
        if self._process is None:
            return
        until = time.monotonic() + _STOP_S
        while self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(max(0, until - time.monotonic()))
            except KeyboardInterrupt:
                number = signal.SIGINT
            except subprocess.TimeoutExpired:
                self._process.kill()
        _going_on.discard(self)

    def _check_end(self) -> None:
        _going_on.discard(self)
        if self.code not in (None, 0, _RESUMABLE):
            raise _error(_text(self._errors), self._process.returncode if self._process else 0)


def train(
    *,
    config: str | os.PathLike[str] | None = None,
    world_size: int = 1,
    wait: bool = True,
    on_metrics: Callable[[Report], object] | None = None,
    progress: bool = True,
    **flags: Unpack[Flags],
) -> Run:
    """Trains a team with the program: `flags` are those of `snake_ddp train`, and `config` is a preset's file, or the name of one in the
    package, such as "champion". With a `world_size` above 1 it starts so many ranks on this machine.

    Waits for the run's end as `Run.wait` does; with wait=False it returns when the run has begun. A run that still goes on when Python
    ends is stopped, with a checkpoint.
    Throws  SettingsError for what the program refuses, RunError if the run dies, and where the program cannot start.
    """
    settings: dict[str, Any] = {"config": config} | dict(flags)
    if world_size != 1:
        settings |= {"ddp": True, "world_size": world_size}
    line = [f"--{name}={_word(value)}" for name, value in settings.items() if value is not None]
    output, errors, begun = _memory(), _memory(), time.time()
    run = Run._of(_start(["train", *line], output, errors), output, errors, begun, settings.get("resume"))
    return run.wait(on_metrics, progress) if wait else run


def _memory() -> BinaryIO:
    """A file for what a program prints. Not a pipe: a run goes on if nobody reads."""
    return open(os.memfd_create("snake_ddp"), "r+b")


def _word(value: object) -> str:
    if isinstance(value, (bool, numpy.bool_)):
        return "on" if value else "off"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _start(line: list[str], output: BinaryIO, errors: BinaryIO) -> subprocess.Popen[bytes]:
    try:
        path, environment = program.found()
        # In a session of its own, so that a terminal's Ctrl-C reaches it once, from here.
        return subprocess.Popen(
            [path, *program.resolved(line)], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
        )
    except program.UnfitError as error:
        raise RunError(str(error), _USAGE) from None
    except OSError as error:
        raise RunError(f"cannot start the program: {error}", 4) from None


def _call(*line: str) -> str:
    with _memory() as output, _memory() as errors:
        code = _start(list(line), output, errors).wait()
        if code != 0:
            raise _error(_text(errors), code)
        return _text(output)


def _text(file: BinaryIO) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode("utf-8", "replace")


def _error(text: str, code: int) -> RunError:
    said = "\n".join(line.removeprefix("snake_ddp: ") for line in text.splitlines() if not line.startswith("Warning: "))
    killed = f"the program was killed by {signal.Signals(-code).name}" if code < 0 else f"the program ended with code {code}"
    return (SettingsError if code == _USAGE else RunError)(said or killed, code)


def _reports_after(path: pathlib.Path, offset: int) -> tuple[list[Report], int]:
    """The whole lines of metrics.jsonl from `offset` on, and where they end."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(offset if offset <= os.fstat(file.fileno()).st_size else 0)  # a start that resumes the run cuts it
        begin = file.tell()
        whole, newline, _ = file.read().rpartition(b"\n")
        return [json.loads(line) for line in whole.splitlines()], begin + len(whole + newline)
    return [], 0


@contextlib.contextmanager
def _bar(settings: dict[str, Any] | None) -> Iterator[Callable[[Report], object]]:
    """A function that shows a report's progress in a bar; nothing without settings, or without tqdm."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets gets a bar of text
            from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        settings = None
    if settings is None:
        yield lambda report: None
        return
    with tqdm(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}{postfix}") as bar:
        shown: dict[str, str] = {}

        def show(report: Report) -> None:
            shown.update({name: form.format(report[key]) for key, (name, form) in _SHOWN.items() if report.get(key) is not None})
            bar.set_postfix(shown, refresh=False)
            bar.update(_share_done(settings, report) - bar.n)

        yield show


_SHOWN = {
    "eval/win_rate": ("evaluation", "{:.1%}"),
    "collect/win_rate": ("won", "{:.1%}"),
    "perf/env_steps_per_second": ("steps/s", "{:,.0f}"),
}


def _share_done(settings: dict[str, Any], report: Report) -> float:
    """By whichever ends the run first."""
    limits = [("minutes", settings["max_minutes"] or 1e9)]
    limits.append(("step", settings["total_steps"]) if settings["total_steps"] > 0 else ("episode", settings["max_episodes"]))
    return min(1.0, max(float(report.get(key, 0)) / limit for key, limit in limits))


@atexit.register
def _stop_all() -> None:
    for run in list(_going_on):
        run._stop(signal.SIGTERM)
