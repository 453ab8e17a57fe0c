"""make_flags.py > python/snake_ddp/flags.py: the types of the arguments of snake_ddp.train, from the table of the program that is built."""

import json
import pathlib
import re
import tempfile

from processes import TINY, call, flags, help_groups, run_folder

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
    described = {name: said for group in help_groups(call("train", "--help").stdout).values() for name, said in group.items()}
    lines = []
    for name, value in settings.items():
        if name == "run":
            continue
        choices = re.search(r" \(([\w|]+\|[\w|]+|snakes_3v3)\) [\[{]", described[name])
        kind = "Text" if isinstance(value, str) else type(value).__name__
        if name == "load_model":
            kind = "bool | Text"  # a path is load_model_path
        if choices:
            kind = f"Literal[{', '.join(json.dumps(word) for word in choices[1].split('|'))}]"
        lines.append(f"    {name}: {kind}\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    print(text(), end="")
