"""make_flags.py > python/snake_ddp/flags.py: the types of the arguments of snake_ddp.train, from the table of the program that is built."""

import json
import pathlib
import re
import tempfile

from processes import TINY, call, flags, run_folder

HEAD = '''"""The flags of `snake_ddp train`, for checkers of types. tests/python/make_flags.py writes this file."""

import os
from typing import Literal, TypedDict

Text = str | os.PathLike[str]


class Flags(TypedDict, total=False):
'''


def text():
    with tempfile.TemporaryDirectory() as folder:
        done = call(*flags(TINY | {"max_episodes": 1, "runs_dir": folder}))
        settings = json.loads((run_folder(done.stdout) / "config.json").read_text())
    described = call("train", "--help").stdout
    lines = []
    for name, value in settings.items():
        if name == "run":
            continue
        (said,) = re.findall(rf"^  --{name}(?:,--[\w-]+)?\s+(.*)$", described, re.MULTILINE)
        choices = re.search(r" \(([\w|]+\|[\w|]+|snakes_3v3)\) \[", said)
        kind = "Text" if isinstance(value, str) else type(value).__name__
        if name == "load_model":
            kind = "bool | Text"  # a path is load_model_path
        if choices:
            kind = f"Literal[{', '.join(json.dumps(word) for word in choices[1].split('|'))}]"
        lines.append(f"    {name}: {kind}\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    print(text(), end="")
