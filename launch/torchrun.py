"""torchrun as ./train_ddp.sh starts it: `./snake_ddp --become python3 launch/torchrun.py [torchrun's flags] ./snake_ddp ...`.

It adds what torchrun lacks: a signal during Python's start does not kill it, a second signal does not kill ranks that are
writing their checkpoint, SIGUSR2 reaches the ranks, closing the terminal under nohup stops nothing, and after a stop the exit
code is the ranks'. The signals of a run are blocked when this starts, and ranks start with them blocked.
"""

import contextlib
import os
import pathlib
import signal
import sys
import tempfile

STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGQUIT]
if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # ignored under nohup; torchrun would override that
    STOPS.append(signal.SIGHUP)
HELD = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
ranks = []
stops = []


def say(text):
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, f"== {text}\n".encode())


def stop_early(_number, _frame):
    say("stopped by a signal before training began; nothing was started")
    os._exit(75)


def pass_on(number, _frame):
    for rank in ranks:
        rank.send_signal(number)


for number in STOPS:
    signal.signal(number, stop_early)  # until torchrun sets its own handlers, before it starts the ranks
signal.signal(signal.SIGUSR2, pass_on)
signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)

from torch.distributed import run  # noqa: E402, takes seconds
from torch.distributed.elastic.multiprocessing import api  # noqa: E402
from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler  # noqa: E402


def stop(number, _frame):
    stops.append(number)
    if len(stops) == 1:
        raise api.SignalException("", sigval=signal.Signals(number))
    if stops.count(signal.SIGINT) == 3:
        os._exit(128 + signal.SIGINT)  # the ranks end with this process


class Rank(subprocess_handler.Popen):
    def __init__(self, *arguments, **named):
        if all(rank.returncode is not None for rank in ranks):  # left from a failed start
            ranks.clear()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)  # until the rank handles them
        try:
            super().__init__(*arguments, **named)
            ranks.append(self)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


api._terminate_process_handler = stop
subprocess_handler.Popen = Rank

with tempfile.TemporaryDirectory(prefix="snake_ddp.") as folder:
    # torchrun treats any nonzero exit code of a rank as a failure, so stopped ranks write theirs here.
    code_file = pathlib.Path(folder, "code")
    os.environ["SNAKE_DDP_EXIT_CODE_FILE"] = str(code_file)
    ended_well = True
    try:
        # Without a folder of its own, torchrun leaves one behind.
        run.main([f"--signals-to-handle={','.join(number.name for number in STOPS)}", f"--log-dir={folder}", *sys.argv[1:]])
    except api.SignalException as stopped:
        ended_well = all(rank.returncode == 0 for rank in ranks)
        say(f"stopped by {stopped.sigval.name}" + ("" if ended_well else "; not all ranks ended well"))
    code = int(code_file.read_text()) if code_file.exists() else 0
sys.exit(code if ended_well else 1)
