"""Reads presets: JSON with lines of comments."""

import json
import pathlib
import re


def read(path):
    return json.loads(re.sub(r"^\s*//.*$", "", pathlib.Path(path).read_text(encoding="utf-8"), flags=re.M))
