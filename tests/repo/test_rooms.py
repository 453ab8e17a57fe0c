"""The rooms of src/CMakeLists.txt: each includes what stands above it and what it names, and no library that is not its own."""

import os
import re
from pathlib import Path

SOURCE = Path(os.environ["SD_SOURCE_DIR"])
PUBLIC = {"core", "game", "kernels", "play"}  # what other programs may include: no LibTorch, nothing to install
TORCH = {"io", "nets", "learners", "rollout", "dist", "train", "pretrain", "app"}
SYSTEM = {"core", "io", "nets", "dist", "train", "pretrain", "app"}
LIBRARIES = {  # who may include what; a header belongs to the first pattern that it matches
    r"[a-z_0-9]+$|fmt/": None,  # everybody
    r"Random123/": {"core"},
    r"immintrin\.h$": {"core", "game", "kernels"},
    r"torch/csrc/distributed/": {"nets", "dist"},
    r"c10/cuda/|ATen/cuda/": {"nets", "dist", "train", "app"},
    r"(ATen|c10|torch|caffe2)/": TORCH,
    r"(cuda|cooperative_groups|cub/|thrust/|nccl)": {"nets", "dist", "train", "app"},
    r"nlohmann/": {"io", "learners", "dist", "train", "pretrain", "app"},
    r"zlib\.h$": {"io", "pretrain"},
    r"protozero/": {"io"},
    r"CLI/": {"app"},
    r"nanobind/": {"python"},
    r"[a-z_0-9]+\.h$|(sys|net|netinet|arpa|linux)/": SYSTEM,
}


def rooms_of(root):
    """The rooms in the order of the file, and what each one needs."""
    text = (root / "src/CMakeLists.txt").read_text() + (root / "src/app/CMakeLists.txt").read_text()
    rooms = {}
    for name, words in re.findall(r"^sd_room\((\w+)(.*)\)$", text, re.M):
        needs = re.search(r"NEEDS ([a-z ]+)", words)
        rooms[name] = set(needs[1].split()) if needs else set()
    return rooms


def faults(root, rooms):
    found, order = [], list(rooms)
    for name, needs in rooms.items():
        found += [f"{name} needs {other}, which is not above it" for other in needs if other not in order[:order.index(name)]]
    for path in sorted(path for folder in ("src", "include", "python/src") for path in (root / folder).rglob("*.[chi]*")):
        if path.suffix not in (".cpp", ".hpp", ".cu", ".in"):
            continue
        at = path.relative_to(root).as_posix()
        room = "python" if at.startswith("python/") else re.sub(r"^(src|include/snake_ddp)/", "", at).split("/")[0]
        may = {*rooms.get(room, set()), room} if room != "python" else PUBLIC | {"nets"}
        if room not in rooms and room != "python":
            found.append(f"{at}: is in no room")
        if at.startswith("include/") and room not in PUBLIC:
            found.append(f"{at}: is for other programs, which may not have the libraries of {room}")
        for header in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.M):
            other = re.match(r"(snake_ddp/)?([a-z]+)/", header)
            if other and other[2] in rooms and other[2] not in may:
                found.append(f"{at} includes {header}: {room} does not name {other[2]}")
            if other and other[2] in rooms and not ((root / "src" / header).exists() or (root / "include" / header).exists()):
                found.append(f"{at} includes {header}: there is no such file")
            if (other and other[2] in rooms) or ("/" not in header and (path.parent / header).exists()):
                continue
            may_have = next((who for pattern, who in LIBRARIES.items() if re.match(pattern, header)), set())
            if may_have is not None and room not in may_have:
                found.append(f"{at} includes {header}: neither a file of the room nor a library that it may have")
    return found


def test_each_room_includes_what_it_names_and_what_it_names_stands_above_it():
    rooms = rooms_of(SOURCE)
    assert len(rooms) <= 12 and {path.name for path in (SOURCE / "src").iterdir() if path.is_dir()} == set(rooms)
    assert not faults(SOURCE, rooms)


def test_the_check_sees_planted_faults(tmp_path):
    rooms = {"core": set(), "game": {"core"}, "nets": {"core"}, "dist": {"core", "train"}, "train": {"core", "nets"}}
    planted = {
        "src/game/a.cpp": "#include <ATen/ATen.h>", "include/snake_ddp/game/b.hpp": '#  include "nets/c.hpp"',
        "include/snake_ddp/nets/c.hpp": "#include <vector>", "src/utils/d.cpp": "#include <map>",
        "src/nets/c.hpp": '#include "snake_ddp/core/e.hpp"', "src/train/f.cpp": '#include "nets/c.hpp"\n#include <CLI/CLI.hpp>',
        "python/src/g.cpp": '#include "train/loop.hpp"', "src/nets/h.cpp": "#include <ATen/ATen.h>",
        "src/game/i.cpp": "#include <fcntl.h>", "src/nets/j.cpp": '#include "../dist/k.hpp"', "src/train/l.cpp": '#include "l.hpp"\n#include <vector>',
        "src/train/l.hpp": "#include <unistd.h>"}
    for name, text in planted.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert sorted(re.split(r"[: ]", fault)[0] for fault in faults(tmp_path, rooms)) == sorted([
        "dist", "include/snake_ddp/game/b.hpp", "include/snake_ddp/nets/c.hpp", "python/src/g.cpp", "python/src/g.cpp",
        "src/game/a.cpp", "src/game/i.cpp", "src/nets/c.hpp", "src/nets/j.cpp", "src/train/f.cpp", "src/utils/d.cpp"])


def test_the_architecture_has_the_same_rooms_in_the_same_order():
    page = (SOURCE / "docs/architecture.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == [*rooms_of(SOURCE), "python"]


def test_the_table_of_questions_names_files_and_functions_that_are_there():
    page = (SOURCE / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| .*\? \|.*$", page, re.M)
    assert len(rows) >= 8
    files = {name: next(path for folder in ("src", "include/snake_ddp") if (path := SOURCE / folder / name).exists())
             for name in re.findall(r"`(\w+/\w+\.\w+)`", "\n".join(rows))}
    for names, file in re.findall(r"((?:`[\w:]+`(?:, | and )?)+) in `(\w+/\w+\.\w+)`", "\n".join(rows)):
        for name in re.findall(r"`([\w:]+)`", names):
            assert name in files[file].read_text() or f"class {name.split('::')[-1]}" in files[file].read_text(), (name, file)
