"""Writes the seeds in fuzz/corpus again, from tests/data and from files of the program and of PyTorch.

    .venv/bin/python3 fuzz/make_corpus.py BINARY

Inputs that a fuzzer found stay: only files named here are written.
"""

import collections
import gzip
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import zlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
DATA = ROOT / "tests" / "data"


def seed(target, name, data):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def saved(value, **how):
    with tempfile.NamedTemporaryFile() as file:
        torch.save(value, file.name, **how)
        return pathlib.Path(file.name).read_bytes()


class Foreign:
    """Unpickling this would run a command."""
    def __reduce__(self):
        return os.system, ("true",)


def weights():
    flat = torch.arange(24.0) / 7
    state = collections.OrderedDict({
        "net.0.weight": torch.nn.Parameter(flat[:12].view(3, 4)), "net.0.bias": flat[12:15], "turned": flat[15:21].view(2, 3).t(),
        "half": flat[:2].half(), "done": torch.tensor([True, False]), "empty": torch.empty(0, 3)})
    seed("weights", "state.pth", saved(state))
    seed("weights", "legacy.pth", saved(state, _use_new_zipfile_serialization=False))
    seed("weights", "nested.pth", saved({"model": {"a": [torch.ones(2), 3, 0.5, True]}, 7: torch.zeros(1, dtype=torch.int64)},
                                        _use_new_zipfile_serialization=False))
    seed("weights", "foreign.pth", saved({"a": Foreign()}, _use_new_zipfile_serialization=False))
    seed("weights", "plain_pickle.pth", pickle.dumps({"a": 1}, protocol=4))
    # Without checksums, for the fuzzer to reach the code behind them.
    torch.serialization.set_crc32_options(False)
    for protocol in range(2, 6):
        seed("weights", f"unchecked_{protocol}.pth", saved(state, pickle_protocol=protocol))


def run_of(binary, folder):
    subprocess.run([os.path.abspath(binary), "train", "--runs_dir", "runs", "--max_episodes", "2", "--episode_length", "60", "--hidden_size", "4",
                    "--batch_size", "4", "--num_envs", "2", "--buffer_size", "20", "--checkpoint_interval", "1", "--threads", "1"],
                   check=True, stdout=subprocess.DEVNULL, cwd=folder)
    return next(pathlib.Path(folder).glob("runs/*/run1_*"))


def checkpoint_and_boards(run):
    step = max(path for path in (run / "checkpoints").iterdir() if path.name.startswith("step_"))
    manifest = json.loads((step / "manifest.json").read_text())
    part = saved({"a": torch.ones(3)})
    manifest["files"] = [{"name": "part", "bytes": len(part), "crc32": zlib.crc32(part)}]
    seed("checkpoint", "whole", json.dumps(manifest).encode() + b"\0" + part)
    manifest["settings"] = {}
    seed("checkpoint", "torn", json.dumps(manifest).encode() + b"\0" + part[:-1])
    manifest["files"][0]["name"] = "../part"
    seed("checkpoint", "elsewhere", json.dumps(manifest))
    part = torch.load(step / "rank_0.pth", weights_only=True)
    for number, image in enumerate(part["collector.boards"]):
        seed("boards", f"board_{number}", image.numpy().tobytes() + bytes(range(40)))
    settings = json.loads((run / "config.json").read_text())
    seed("config", "run.json", json.dumps(settings | {"run": {"hosts": ["host"], "world_size": 1}}, indent=2))


def board_sets(binary, folder):
    path = pathlib.Path(folder) / "set.boards"
    subprocess.run([binary, "eval", "--team_a", "level1", "--team_b", "level2", "--games", "2", "--board_interval", "60", "--record_boards", path],
                   check=True, stdout=subprocess.DEVNULL)
    whole = path.read_bytes()
    seed("boards", "set", whole)
    ends = len(whole) - 24 - 2 * 8
    seed("boards", "set_with_an_end_beyond", whole[:ends] + (1 << 40).to_bytes(8, "little") + whole[ends + 8:])
    for name, place, value in (("head", 200, 250), ("length", 212, 255), ("direction", 218, 4), ("done", 240, 2)):
        at = 64 + 256 + place
        seed("boards", f"set_with_a_wrong_{name}", whole[:at] + bytes([value]) + whole[at + 1:])


def config():
    for path in (ROOT / "configs").glob("*.json"):
        seed("config", path.name, path.read_bytes())
    values = {"layer-norm": True, "batch_size": 7, "seed": -3, "gamma": 0.9, "reward_scale": 1e-3, "runs_dir": "runs",
              "output_activation": "tanh", "run": {"hosts": ["a"]}}
    seed("config", "each_kind.json", "// settings\n" + json.dumps(values))


def games():
    trace = gzip.decompress((DATA / "games.jsonl.gz").read_bytes()).split(b"\n")
    seed("games", "trace.jsonl", b"\n".join(trace[:13]) + b"\n")
    seed("games", "two_traces.jsonl.gz", gzip.compress(b"\n".join(trace[:3] + trace[:2]), mtime=0))
    log = json.loads(gzip.decompress((DATA / "reference_log.json.gz").read_bytes()))
    log["steps"] = log["steps"][:3]
    seed("games", "log.json", json.dumps(log))
    log["steps"] = log["steps"][:1]
    log |= {"n_return": json.dumps(log["n_return"]), "names": ["<a>", "b"], "truncated": True}
    log["steps"][0]["joint_action"] = json.dumps([[[1, 0, 0, 0]]] * 6)
    seed("games", "old_log.json", json.dumps(log, indent=1))
    answer = (DATA / "platform_response_3_steps.json").read_bytes()
    seed("games", "answer.json", answer)
    answer = json.loads(answer)
    seed("games", "answers.json", json.dumps([answer, {"data": json.dumps(answer)}, {"data": [answer["data"]]}]))
    lines = gzip.decompress((DATA / "encodings.jsonl.gz").read_bytes()).split(b"\n")
    seed("encodings", "two.jsonl", b"\n".join(lines[:2]))


def main():
    weights()
    config()
    games()
    seed("greeting", "hello", "token\n1\n3\nhost\n77\nbuild")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint_and_boards(run_of(sys.argv[1], folder))
        board_sets(os.path.abspath(sys.argv[1]), folder)


main()
