"""docs/reference/formats.md beside the files that the program writes: its tables have the names and sizes that are in them."""

import gzip
import json
import re
import struct
import zipfile
import zlib

import pytest
import torch

from processes import SOURCE, TINY, call, flags, run_folder

PAGE = (SOURCE / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")


def rows(heading, first):
    """Rows of cells of the table under the heading whose first title is `first`."""
    section = PAGE[PAGE.index(f"\n{heading}\n"):].partition("\n\n")[2]
    table = section[section.index(f"| {first} |"):].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def names(heading, first):
    """Those in the table's first column."""
    return {name for row in rows(heading, first) for name in re.findall(r"`([^`]+)`", row[0])}


def read(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        return file.read()


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    folder = tmp_path_factory.mktemp("games")
    done = call("eval", "--team_a", SOURCE / "models" / "champion.pth:puct4", "--team_b", "level2", "--games", 1, "--record", folder, "--explain")
    assert done.returncode == 0, done.stderr
    written, = folder.glob("*.json*")
    return json.loads(read(written))


def test_the_trace_on_the_page_is_one(tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text(re.search(r"```json\n(\{\"game\".*?)```", PAGE, re.S)[1])
    done = call("verify-trace", trace)
    assert "1 game, 1 step, 1 mismatch" in done.stdout and "expected the end of the record, got a game that continues" in done.stdout, done.stdout + done.stderr


def test_a_set_of_boards_has_the_bytes_of_the_table(tmp_path):
    done = call("eval", "--team_a", "level1", "--team_b", "level2", "--games", 4, "--record_boards", tmp_path / "all.boards")
    assert done.returncode == 0, done.stderr
    data = (tmp_path / "all.boards").read_bytes()
    sizes = [[int(size) for size in row[0].split(", ")] for row in rows("## Sets of boards", "bytes") if "each" not in row[0]]
    header, end = sum(map(sum, sizes[:-1])), sum(sizes[-1])
    assert data[:8] == b"SDBOARDS" and struct.unpack_from("<II", data, 8) == (1, 256)
    games, boards, crc, last = struct.unpack("<QQI4s", data[-end:])
    assert (games, last) == (4, b"WHOL") and crc == zlib.crc32(data[:-end])
    assert len(data) == header + 256 * boards + 8 * games + end
    assert struct.unpack_from("<Q", data, len(data) - end - 8)[0] == boards


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    done = call(*flags(TINY | {"runs_dir": tmp_path_factory.mktemp("runs"), "obs": "view", "save_interval": 2, "record_interval": 1,
                               "opponent_mix": "level1:0.5,league:0.5", "league_interval": 2}))
    assert done.returncode == 0, done.stderr
    return run_folder(done.stdout)


def test_game_logs_have_the_fields_of_the_table(game, run):
    listed = names("## Game logs", "field")
    inside = {"explanation", "info_before", "joint_action", "reward", "info_after"}
    assert set(game["steps"][0]) == inside
    assert set(game) | inside == listed - {"truncated"}
    cut_off, = {frozenset(json.loads(read(path))) for path in (run / "games").glob("*.json")}
    assert cut_off | inside == listed - {"recording"}
    said = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in rows("## Game logs", "field")}
    for part, of in (("init_info", game), ("info_before", game["steps"][0]), ("info_after", game["steps"][0])):
        assert set(of[part]) <= said[part]
    assert set(game["steps"][0]["explanation"][0]) == names("## Game logs", "key of a team's `explanation`")


def test_a_checkpoint_has_the_files_and_names_of_the_table(run):
    checkpoint = max((run / "checkpoints").glob("step_*"))
    of = {file: set(re.findall(r"`(\w+)\.", said)) | set(re.findall(r"`(\w+)`", said)) for file, said in rows("## Checkpoints", "file")}
    of = {file.strip("`").replace("{R}", "0"): said for file, said in of.items()}
    assert {path.name for path in checkpoint.iterdir()} == set(of)
    for file in ("shared.pth", "rank_0.pth"):
        assert {name.partition(".")[0] for name in torch.load(checkpoint / file, weights_only=True)} <= of[file], file
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    assert set(manifest) == of["manifest.json"]
    crc = manifest.pop("checksum")
    assert crc == zlib.crc32(json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode())
    state = torch.load(checkpoint / "rank_0.pth", weights_only=True)
    wide = {"observation": 256, "next_observation": 256}
    bytes_of = {name.rpartition(".")[2]: wide.get(name.rpartition(".")[2], 4 * int(torch.prod(shape)))
                for name, shape in state.items() if name.startswith("replay.columns.")}
    assert (checkpoint / "rank_0.replay").stat().st_size == int(state["replay.rows"]) * sum(bytes_of.values()), bytes_of


def test_the_record_of_an_actor_has_the_keys_of_the_table(run):
    with zipfile.ZipFile(next((run / "trained_model").glob("actor_*.pth"))) as archive:
        record, = (json.loads(archive.read(name)) for name in archive.namelist() if name.endswith("snake_ddp.json"))
    assert set(record) == names("## Weights (`actor_*.pth`, `critic_*.pth`)", "key")


def numbers_in(cells):
    return [number for cell in cells for first, last in re.findall(r"(\d+)(?:–(\d+))?", cell) for number in range(int(first), int(last or first) + 1)]


def test_the_features_tables_count_to_their_sizes():
    for column, size in enumerate((26, 30)):
        assert numbers_in(row[column] for row in rows("## Features", "26")) == list(range(size))
    assert numbers_in(row[0] for row in rows("### The view", "index") if "+" not in row[0]) == list(range(277))
    assert [int(number) for row in rows("### The view", "index") for number in re.findall(r"\+ (\d)\b", row[0].replace("277 + 8 m", "+ 0"))] == list(range(8))
