"""Weights and event files between this program and Python: io_probe writes, Python reads, and the other way round."""

import collections
import json
import os
import pathlib
import subprocess
import zipfile

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

PROBE = pathlib.Path(os.environ["SD_BUILD_DIR"]) / "tests" / "io" / "files_probe"
FLAT = torch.arange(40, dtype=torch.float32) / 8
EXPECTED_STATE = {  # as io_probe writes it
    "net.0.weight": FLAT[0:12].view(3, 4),
    "net.0.bias": FLAT[12:15],
    "transposed": FLAT.view(5, 8).t(),
    "steps": torch.tensor(-7),
    "half": torch.tensor([0.5, -2.0], dtype=torch.half),
    "brain": torch.tensor([0.5, -2.0], dtype=torch.bfloat16),
    "double": torch.tensor([1 / 3], dtype=torch.double),
    "bool": torch.tensor([True, False]),
    "byte": torch.tensor([0, 255], dtype=torch.uint8),
    "empty": torch.empty(0, 3),
    "name with \u00e9": torch.ones(1, dtype=torch.int32),
}
TYPES = {
    torch.float32: "Float", torch.float64: "Double", torch.half: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool",
}


def probe(*arguments):
    return subprocess.run([PROBE, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def read_with_probe(*paths):
    """What is in each file, or its FileError; one process for all, since starting one with LibTorch takes long."""
    done = probe("read", *paths)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def contents(path):
    (answer,) = read_with_probe(path)
    return answer


def refusals(paths):
    answers = read_with_probe(*paths)
    assert len(answers) == len(paths)
    for path, answer in zip(paths, answers):
        assert "file_error" in answer, path
        assert str(path) in answer["file_error"]
    return [answer["file_error"] for answer in answers]


def save_in_all_formats(value, folder, name="x"):
    """A file for each of FORMATS."""
    paths = [folder / f"{name} {form}.pth" for form in FORMATS]
    for path, options in zip(paths, FORMATS.values()):
        torch.save(value, path, **options)
    return paths


def as_probe_says(items):
    return [
        {"name": name, "type": TYPES[value.dtype], "shape": list(value.shape),
         "values": value.detach().flatten().to(torch.double if value.is_floating_point() else torch.long).tolist()}
        for name, value in items.items()
    ]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.prev_dense = torch.nn.Sequential(torch.nn.Linear(6, 5))
        self.lstm = torch.nn.LSTM(5, 4, bidirectional=True, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(3)  # has an int64 0-dim buffer


VIEWS = {
    "transposed": FLAT.view(5, 8).t(),
    "slice": FLAT[3:30:4],
    "block": FLAT.view(5, 8)[1:4, 2:5],
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(2, 0),
    "expanded": torch.ones(1).expand(7),
    "turned": torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1),
}
ALL_TYPES = {TYPES[t]: torch.tensor([0, 1, 1, 0, 1]).to(t) for t in TYPES}
TIED = torch.nn.Linear(3, 2).weight
STATES = {
    "module": Net().state_dict(),
    "parameters": Net().state_dict(keep_vars=True),
    "plain dict": dict(Net().state_dict()),
    "no metadata": collections.OrderedDict(Net().state_dict().items()),
    "views": VIEWS,
    "types": ALL_TYPES,
    "shared": {"a": TIED, "b": TIED, "c": TIED[1]},
    "requires grad": {"w": torch.ones(2, requires_grad=True)},
    "nothing": {},
    "many": {f"layer.{i}": torch.full((2,), float(i)) for i in range(2000)},
}
FORMATS = {
    "zip": {},
    "zip 4": {"pickle_protocol": 4},
    "zip 5": {"pickle_protocol": 5},
    "legacy": {"_use_new_zipfile_serialization": False},
    "legacy 5": {"_use_new_zipfile_serialization": False, "pickle_protocol": 5},
}


def test_python_reads_the_weights_we_write(tmp_path):
    path = tmp_path / "actor_1000.pth"
    assert probe("write-state", path).returncode == 0
    for options in ({}, {"mmap": True}):
        loaded = torch.load(path, weights_only=True, **options)
        assert list(loaded) == list(EXPECTED_STATE)
        for name, value in EXPECTED_STATE.items():
            assert loaded[name].dtype == value.dtype, name
            assert loaded[name].shape == value.shape, name
            assert torch.equal(loaded[name], value), name
            assert loaded[name].is_contiguous() and not loaded[name].requires_grad, name
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert contents(path) == as_probe_says(EXPECTED_STATE)


def test_a_module_takes_the_weights_we_write(tmp_path):
    path = tmp_path / "a.pth"
    assert probe("write-state", path).returncode == 0
    loaded = torch.load(path, weights_only=True)
    layer = torch.nn.Linear(4, 3)
    layer.load_state_dict({"weight": loaded["net.0.weight"], "bias": loaded["net.0.bias"]})
    assert torch.equal(layer.weight, EXPECTED_STATE["net.0.weight"])


@pytest.mark.parametrize("state", STATES)
def test_we_read_the_weights_python_writes(tmp_path, state):
    paths = save_in_all_formats(STATES[state], tmp_path)
    for path, answer in zip(paths, read_with_probe(*paths)):
        assert answer == as_probe_says(STATES[state]), path


def test_nested_checkpoints_are_flattened(tmp_path):
    net = Net()
    checkpoint = {"model": net.state_dict(), "step": 12, "epsilon": 0.25, "done": False, "lrs": [1e-3, 2**40]}
    expected = {f"model.{name}": value for name, value in net.state_dict().items()}
    expected |= {"step": torch.tensor(12), "epsilon": torch.tensor(0.25, dtype=torch.double),
                 "done": torch.tensor(False), "lrs.0": torch.tensor(1e-3, dtype=torch.double),
                 "lrs.1": torch.tensor(2**40)}
    paths = save_in_all_formats(checkpoint, tmp_path)
    for path, answer in zip(paths, read_with_probe(*paths)):
        assert answer == as_probe_says(expected), path


def test_optimizer_states_say_what_is_no_number(tmp_path):
    layer = torch.nn.Linear(2, 2)
    adam = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    adam.step()
    torch.save(adam.state_dict()["state"], tmp_path / "state.pth")
    assert [item["name"] for item in contents(tmp_path / "state.pth")] == [
        f"{i}.{name}" for i in (0, 1) for name in ("step", "exp_avg", "exp_avg_sq")]
    torch.save(adam.state_dict(), tmp_path / "whole.pth")
    assert "is neither a tensor nor a number" in refusals([tmp_path / "whole.pth"])[0]


class Malicious:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.system, (f"touch '{self.marker}'",)


def test_a_malicious_pickle_is_rejected_by_name_and_not_executed(tmp_path):
    marker = tmp_path / "executed"
    paths = save_in_all_formats({"w": torch.ones(2), "evil": Malicious(marker)}, tmp_path)
    for message in refusals(paths):
        assert f"'{os.system.__module__}.system'" in message
    assert not marker.exists()
    for path in paths:  # these files do harm if loaded carelessly
        torch.load(path, weights_only=False)
        assert marker.exists()
        marker.unlink()


@pytest.mark.filterwarnings("ignore")
def test_whole_modules_and_foreign_objects_are_rejected_by_name(tmp_path):
    for i, (value, name) in enumerate([
        (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        ({"when": pathlib.PurePosixPath("x")}, "PurePosixPath"),
        ({"device": torch.device("cpu")}, "torch.device"),
        ({"sparse": torch.eye(2).to_sparse()}, "_rebuild_sparse_tensor"),
    ]):
        for message in refusals(save_in_all_formats(value, tmp_path, str(i))):
            assert name in message


@pytest.mark.filterwarnings("ignore")
def test_torchscript_archives_are_reported_apart(tmp_path):
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)), tmp_path / "x.pt")
    assert "TorchScript" in refusals([tmp_path / "x.pt"])[0]


def test_truncated_files_are_rejected(tmp_path):
    cut = []
    for whole in save_in_all_formats(Net().state_dict(), tmp_path):
        data = whole.read_bytes()
        for size in (0, 1, 20, len(data) // 2, len(data) - 100, len(data) - 1):
            cut.append(tmp_path / f"{whole.stem} {size}.pth")
            cut[-1].write_bytes(data[:size])
    assert len(refusals(cut)) == 6 * len(FORMATS)


def test_a_compressed_archive_is_rejected(tmp_path):
    torch.save(STATES["module"], tmp_path / "x.pth")
    with zipfile.ZipFile(tmp_path / "x.pth") as old, zipfile.ZipFile(
            tmp_path / "y.pth", "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert "is compressed or encrypted" in refusals([tmp_path / "y.pth"])[0]


def test_a_flipped_weight_is_noticed_where_pytorch_notices_nothing(tmp_path):
    path = tmp_path / "x.pth"
    weight = torch.arange(1000.0)
    torch.save({"w": weight}, path)
    data = bytearray(path.read_bytes())
    data[bytes(data).index(weight.numpy().tobytes()) + 402] ^= 0x10
    path.write_bytes(data)
    assert not torch.equal(torch.load(path, weights_only=True)["w"], weight)
    assert "checksum" in refusals([path])[0]


def test_files_without_checksums_are_read(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(STATES["module"], tmp_path / "x.pth")
    finally:
        torch.serialization.set_crc32_options(True)
    assert contents(tmp_path / "x.pth") == as_probe_says(STATES["module"])


def test_tensorboard_lists_our_tags_and_values(tmp_path):
    assert probe("write-events", tmp_path / "run").returncode == 0
    events = EventAccumulator(str(tmp_path / "run"), size_guidance={"scalars": 0})
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["eval/win_rate", "loss/actor", "reward/snake_1"]
    assert events.file_version == 2.0
    rewards = events.Scalars("reward/snake_1")
    assert [point.step for point in rewards] == list(range(100))
    assert [point.value for point in rewards] == [0.25 * i for i in range(100)]
    assert all(a.wall_time <= b.wall_time for a, b in zip(rewards, rewards[1:]))
    losses = [point.value for point in events.Scalars("loss/actor")]
    assert losses == pytest.approx([-1 / (i + 1) for i in range(100)], rel=1e-7)
    last = events.Scalars("eval/win_rate")
    assert [(point.step, point.value) for point in last] == [(10**12, 0.75)]
