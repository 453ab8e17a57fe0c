"""Weights from files: the program and the package read the same, refuse the same, and say the same.

The files are written by the real torch, as trainers, wrappers and other people write them.
"""

import argparse
import io
import json
import math
import warnings
import zipfile

import numpy as np
import pytest
import torch
from conftest import DATA, ROOT
from processes import served as call

import snake_ddp
from snake_ddp import actor_record, networks

WRAPPERS = ("state_dict", "model_state_dict", "actor_state_dict", "policy_state_dict", "network_state_dict", "net_state_dict", "model",
            "actor", "policy", "network", "net", "module", "weights")  # fmt: skip


def actor(hidden=8):
    torch.manual_seed(1)
    return networks.Actor(30, hidden)


PLAIN = {name: value.detach() for name, value in actor().state_dict().items()}
FIRST = "prev_dense.0.weight"
SAVE = "torch.save(model.state_dict(), path)"
NO_NETWORK = "it is not an actor or critic of this program, with names such as prev_dense.0.weight or q_net.0.weight; its names are "


def each(change):
    return {name: change(value) for name, value in PLAIN.items()}


def one(value, name=FIRST):
    return PLAIN | {name: value}


def without(name):
    return {other: value for other, value in PLAIN.items() if other != name}


def under(prefix):
    return {prefix + name: value for name, value in PLAIN.items()}


def with_number(number, dtype=torch.float32):
    weight = PLAIN[FIRST].clone().to(dtype)
    weight[2, 3] = number
    return one(weight)


def shared():
    """All tensors are views of one storage."""
    flat = torch.cat([value.flatten() for value in PLAIN.values()])
    views, begin = {}, 0
    for name, value in PLAIN.items():
        views[name] = flat[begin : begin + value.numel()].view(value.shape)
        begin += value.numel()
    return views


def not_finite(count=1):
    return f"tensor 'prev_dense.0.weight' has {count} of 240 numbers not finite as float32"


# What torch.save gets, and why it is refused; None: it is read.
FILES = {
    "plain": (PLAIN, None),
    "ordered": (actor().state_dict(), None),
    "parameters": (dict(actor().named_parameters()), None),
    "parameters with hooks": (each(lambda v: torch.nn.Parameter(v)), None),
    **{name: ({name: PLAIN}, None) for name in WRAPPERS},
    "a training's checkpoint": ({"epoch": 3, "model": PLAIN, "note": "text", "optimizer": {"state": {}, "lr": 0.1}, "none": None}, None),
    "two wrappers deep": ({"model": {"state_dict": PLAIN}}, None),
    "actor and critic": ({"actor": PLAIN, "critic": {"post_dense.2.bias": torch.zeros(1)}}, None),
    "model and actor": ({"model": PLAIN, "actor": PLAIN}, "it has weights under 'model' and 'actor': save one of them"),
    "another name": ({"agent": PLAIN}, "'agent' is a dict: weights may be in the file's own dict, or under state_dict, model_state_dict, "),
    "nested": (PLAIN | {"more": {"a": torch.zeros(1)}}, "'more' is a dict: "),
    **{prefix: (under(prefix), None) for prefix in ("module.", "actor.", "_orig_mod.", "module._orig_mod.actor.", "policy.net.")},
    "wrapped and prefixed": ({"state_dict": under("module.")}, None),
    "two networks": (PLAIN | under("target."), "it holds more than one network, with names such as 'prev_dense.0.weight' and "
                                               "'target.prev_dense.0.weight': save one of them"),
    "one name without the prefix": (under("module.") | {"step": torch.zeros(1)}, "it holds more than one network, with names such as "
                                                                                "'module.prev_dense.0.weight' and 'step'"),
    "a prefix without a dot": (under("my"), NO_NETWORK + "'myprev_dense.0.weight', 'myprev_dense.0.bias', 'mypost_dense.0.weight', ..."),
    "float16": (each(torch.Tensor.half), None),
    "bfloat16": (each(torch.Tensor.bfloat16), None),
    "float64": (each(torch.Tensor.double), None),
    **{str(dtype): (each(lambda v: v.to(dtype)), f"tensor 'prev_dense.0.weight' has the type {str(dtype)[6:]}, not a floating-point one")
       for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)},
    "complex": (each(lambda v: v.to(torch.complex64)), "it holds 'torch.ComplexFloatStorage', which a weights file does not need"),
    "quantised": (one(torch.quantize_per_tensor(PLAIN[FIRST], 0.1, 0, torch.qint8)), "which a weights file does not need"),
    "sparse": (one(PLAIN[FIRST].to_sparse()), "'torch._utils._rebuild_sparse_tensor', which a weights file does not need"),
    "transposed": (each(lambda v: v.t().contiguous().t() if v.dim() == 2 else v), None),
    "every second": (each(lambda v: v.repeat_interleave(2, -1)[..., ::2]), None),
    "expanded": (each(lambda v: torch.zeros(1).expand(v.shape)), None),
    "expanded beyond all memory": (one(torch.zeros(1).expand(10**6, 10**6)), "it describes far more than its size can hold"),
    "one storage": (shared(), None),
    "empty": ({}, "its dict is empty: it holds no weights"),
    "an empty wrapper": ({"state_dict": {}}, "its dict is empty: it holds no weights"),
    "a number": (PLAIN | {"step": 3}, f"'step' is not a tensor: save only the weights, {SAVE}"),
    "a text": (PLAIN | {"note": "x"}, "'note' is not a tensor"),
    "nothing": (PLAIN | {"none": None}, "'none' is not a tensor"),
    "a key that is a number": ({0: PLAIN[FIRST]}, "a name in it is not text"),
    "a list": ([*PLAIN.values()], f"it contains no dict of names and tensors: {SAVE} writes one"),
    "a tensor": (PLAIN[FIRST], "it contains no dict of names and tensors"),
    "a module": (actor(), "'snake_ddp.networks.Actor', which a weights file does not need; nothing in it was executed. Save only the "
                          f"weights: {SAVE}"),
    "torch's module": (torch.nn.Linear(30, 4), "'torch.nn.modules.linear.Linear', which a weights file does not need"),
    "a module in a dict": ({"model": torch.nn.Linear(30, 4)}, "'torch.nn.modules.linear.Linear', which"),
    "arguments beside": ({"model": PLAIN, "args": argparse.Namespace(lr=1)}, "'argparse.Namespace', which a weights file does not need"),
    "numpy's number beside": ({"model": PLAIN, "best": np.float64(1)}, "scalar', which a weights file does not need"),
    "another network": ({"fc.weight": torch.zeros(3)}, NO_NETWORK + "'fc.weight'"),
    "names that are no text for a terminal": ({"\x1b]0;x\x07": torch.zeros(3)}, NO_NETWORK + "'?]0;x?'"),
    **{f"{number} {dtype}": (with_number(number, dtype), not_finite())
       for number in (math.nan, math.inf, -math.inf) for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64)},
    **{f"without {name}": (without(name), f'has no tensor "{name}": it belongs to another network or algorithm')
       for name in PLAIN if name != FIRST},
    "without the first layer": (without(FIRST), f'has no matrix "{FIRST}": it is a different kind of network'),
    "a first layer that is no matrix": (one(torch.zeros(8)), f'has no matrix "{FIRST}": it is a different kind of network'),
    "no hidden units": ({name: value[:0] for name, value in PLAIN.items()}, f'has no matrix "{FIRST}": it is a different kind of network'),
    "one more": (PLAIN | {"more.weight": torch.zeros(3)}, 'has a tensor "more.weight" that this network lacks'),
    "one more that is no text for a terminal": (PLAIN | {"\x1b]0;x": torch.zeros(3)}, r'has a tensor "\x1b]0;x" that this network lacks'),
    "another shape": (PLAIN | {"post_dense.0.weight": torch.zeros(8, 9)}, '"post_dense.0.weight" has shape [8, 9], this network needs [8, 8]'),
    "five moves": (PLAIN | {"post_dense.2.weight": torch.zeros(5, 8), "post_dense.2.bias": torch.zeros(5)},
                   '"post_dense.2.weight" has shape [5, 8], this network needs [4, 8]'),
    "scalars in place of matrices": (each(lambda v: torch.tensor(1.0)), f'has no matrix "{FIRST}": it is a different kind of network'),
    "beyond float32": (with_number(3e300, torch.float64), not_finite()),
    "the largest of float32": (with_number(3e38), None),
    "all nan": (each(lambda v: torch.full_like(v, math.nan)), not_finite(240)),
    "nan in an expanded one": (one(torch.tensor([math.nan]).expand(8, 30)), not_finite(240)),
}  # fmt: skip


def program_says(path, spec=None):
    """Empty if the program reads the file."""
    done = call("export", "--actor", spec or f"{path}:softmax", "--format", "safetensors", "--output", path.with_suffix(".safetensors"))
    assert done.returncode in (0, 4), done.stderr
    return done.stderr if done.returncode else ""


def package_says(path):
    says = []
    for read in (lambda: snake_ddp.Team(f"{path}:softmax"), lambda: networks.load(path, head="softmax")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read()
                says.append("")
            except ValueError as e:
                says.append(str(e))
    return says


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("name", FILES)
def test_both_read_the_same_files_and_refuse_for_the_same_reason(tmp_path, name, legacy):
    value, reason = FILES[name]
    path = tmp_path / "weights.pth"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(value, path, _use_new_zipfile_serialization=not legacy)
    for words in (program_says(path), *package_says(path)):
        assert (words == "") if reason is None else (reason in words), words


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float64", "transposed", "every second", "one storage", "module.", "state_dict"])
def test_both_read_the_numbers_that_torch_reads(tmp_path, name):
    path = tmp_path / "weights.pth"
    torch.save(FILES[name][0], path)
    assert program_says(path) == ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine = networks.load(path, head="softmax").state_dict()
    data = path.with_suffix(".safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    for key, value in PLAIN.items():
        begin, end = header[key]["data_offsets"]
        theirs = np.frombuffer(data[8 + size + begin : 8 + size + end], "<f4").reshape(header[key]["shape"])
        assert np.array_equal(mine[key].numpy(), theirs), key
        assert np.allclose(theirs, value.numpy(), atol=0.01), key


def test_a_prefix_is_said_in_one_line(tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(under("module."), path)
    line = f"{path}: all names begin with 'module.', which is left out"
    for command in (["eval", "--team_a", f"{path}:softmax", "--team_b", "level0", "--games", 2],
                    ["export", "--actor", f"{path}:softmax", "--format", "torchscript", "--output", tmp_path / "a.pt"]):
        done = call(*command)
        assert done.returncode == 0 and done.stderr.count(line) == 1, done.stderr
    with pytest.warns(UserWarning, match="all names begin with 'module.'"):
        snake_ddp.Team(f"{path}:softmax")


# Numbers that are not finite: every door


def nan_file(tmp_path, number=math.nan):
    path = tmp_path / "nan.pth"
    torch.save(with_number(number, torch.float64), path)
    return path


@pytest.mark.parametrize("number", [math.nan, math.inf, 3e300], ids=str)
def test_no_door_takes_numbers_that_are_not_finite(tmp_path, number):
    path = nan_file(tmp_path, number)
    models = tmp_path / "runs" / "snakes_3v3" / "run1" / "trained_model"
    models.mkdir(parents=True)
    for name in ("actor_1.pth", "critic_1.pth"):
        (models / name).write_bytes(path.read_bytes())
    train = ["--algo", "ddpg", "--obs", "30", "--hidden_size", 8, "--max_episodes", 1, "--device", "cpu", "--runs_dir", tmp_path / "runs"]
    for command in (["eval", "--team_a", f"{path}:softmax", "--team_b", "level0", "--games", 2],
                    ["eval", "--ladder", f"{path}:softmax", "level0", "--games", 2],
                    *(["export", "--actor", f"{path}:softmax", "--format", form, "--output", tmp_path / form]
                      for form in ("submission", "torchscript", "safetensors")),
                    [*train, "--opponent_mix", f"file:{path}:softmax:1"],
                    [*train, "--load_model", "--load_model_run", 1, "--load_model_run_episode", 1]):  # fmt: skip
        done = call(*command)
        assert done.returncode == 4 and not_finite() in done.stderr, (command, done.stderr)
    for read in (lambda: snake_ddp.Team(f"{path}:softmax"), lambda: networks.load(path, head="softmax"),
                 lambda: snake_ddp.read_weights(path)):  # fmt: skip
        with pytest.raises(ValueError, match="prev_dense.0.weight.*not finite"):
            read()
    about = json.loads(call("info", path, "--json").stdout)
    assert about["finite"] is False and about["tensors"][FIRST]["shape"] == [8, 30]


def test_networks_that_are_not_finite_are_not_saved(tmp_path):
    network = actor()
    with torch.no_grad():
        network.post_dense[2].bias[1] = math.inf
    with pytest.raises(ValueError, match=r"a.pth is not written: tensor 'post_dense.2.bias' has 1 of 4 numbers"):
        networks.save(network, tmp_path / "a.pth")
    assert not list(tmp_path.iterdir())


# What weights mean


def test_nothing_says_what_weights_mean_until_the_user_types_it(tmp_path):
    path = tmp_path / "actor.pth"
    torch.save(PLAIN, path)
    train = ["--algo", "ddpg", "--obs", "30", "--max_episodes", 1, "--device", "cpu", "--runs_dir", tmp_path / "runs", "--num_envs", 2]
    both = f"type {path}:softmax or {path}:tanh"
    for command, typed in ((["eval", "--team_a", path, "--team_b", "level0", "--games", 2], both),
                           (["eval", "--team_a", f"{path}:argmax", "--team_b", "level0", "--games", 2], both),
                           (["export", "--actor", path, "--format", "safetensors"], both),
                           ([*train, "--opponent_mix", f"file:{path}:1"], f"type --opponent_mix file:{path}:softmax or ")):
        done = call(*command)
        assert done.returncode == 2 and "nothing says what this actor's last layer is" in done.stderr and typed in done.stderr, done.stderr
    for command in (["eval", "--team_a", f"{path}:softmax:argmax", "--team_b", f"{path}:tanh", "--games", 2],
                    ["export", "--actor", path, "--output_activation", "tanh", "--format", "safetensors", "--output", tmp_path / "a"],
                    [*train, "--opponent_mix", f"file:{path}:softmax:0.5,level0:1"]):  # fmt: skip
        done = call(*command)
        assert done.returncode == 0, done.stderr
    with pytest.raises(ValueError, match=f"type {path}:softmax or {path}:tanh"):
        snake_ddp.Team(path)
    with pytest.raises(ValueError, match='networks.load\\(".*actor.pth", head="softmax"\\) or networks.load'):
        networks.load(path)
    assert networks.load(path, head="tanh").head == "tanh"
    snake_ddp.Team(f"{path}:softmax:argmax")


def test_a_network_whose_observation_has_the_size_of_another(tmp_path):
    path = tmp_path / "q.pth"
    torch.save(networks.QNetwork(309, 8).state_dict(), path)
    done = call("eval", "--team_a", path, "--team_b", "level0", "--games", 2)
    assert done.returncode == 2 and f"type {path}:view or {path}:ahead" in done.stderr
    with pytest.raises(ValueError, match=f"type {path}:view or {path}:ahead"):
        snake_ddp.Team(path)
    with pytest.raises(ValueError, match='obs="view"'):
        networks.load(path)
    for obs in ("view", "ahead"):
        assert call("eval", "--team_a", f"{path}:{obs}:look1", "--team_b", "level0", "--games", 2).returncode == 0
        assert snake_ddp.Team(f"{path}:{obs}:look1").obs == obs == networks.load(path, obs=obs).obs
    done = call("eval", "--team_a", f"{path}:softmax", "--team_b", "level0", "--games", 2)
    assert done.returncode == 2 and "this file holds a Q-network" in done.stderr


# As yaml.dump(vars(args)) writes it, in lines since PyYAML 5.1 and in braces before.
YAML = "a_lr: 0.0003\nalgo: ddpg\nepsilon_speed: 0.9995\ngamma: 0.99\noutput_activation: {}\nload_model: false\n"
BRACES = "{{a_lr: 0.0003, algo: ddpg, gamma: 0.99,\n  output_activation: {}, load_model: false}}\n"


@pytest.mark.parametrize("place", ["run", "file"])
@pytest.mark.parametrize("name, text", [("config.yaml", YAML), ("config.yaml", BRACES), ("config.yml", YAML.replace("{}", "'{}'  # last")),
                                        ("config.json", '{{"output_activation": "{}", "obs": 30}}')], ids=["lines", "braces", "yml", "json"])
def test_the_settings_beside_a_file_say_what_it_means(tmp_path, name, text, place):
    models = tmp_path / "run1" / "trained_model"
    models.mkdir(parents=True)
    path = models / "actor_1.pth"
    torch.save(PLAIN, path)
    folder = models if place == "file" else models.parent
    for head in ("softmax", "tanh"):
        (folder / name).write_text(text.format(head))
        assert networks.load(path).head == head
        assert program_says(path, path) == ""
        assert f'"output_activation":"{head}"' in path.with_suffix(".safetensors").read_text(errors="replace")
    (folder / name).write_text(text.format("relu"))
    words = "output_activation relu: not a known value; allowed: softmax, tanh"
    assert words in program_says(path, path)
    with pytest.raises(ValueError, match=words):
        networks.load(path)
    (folder / name).write_text("{}" if name.endswith("json") else "model: resnet\n")  # of another program
    with pytest.raises(ValueError, match="nothing says"):
        networks.load(path)
    assert call("eval", "--team_a", path, "--team_b", "level0", "--games", 2).returncode == 2


# Records

RECORD = {"format": 1, "version": "1", "learner": "ddpg", "obs": "30", "view_radius": 0, "tokens": "", "head": "softmax", "hidden_size": 8,
          "mask_fatal": False, "reward": "v1_2", "rival_reward": 0.0, "reward_scale": 1.0, "gamma": 0.99}  # fmt: skip


def out_of_range(name, value, low, high):
    return f"{name} {value}: out of range; allowed: from {low} to {high}"


def with_text(tmp_path, text):
    file = io.BytesIO()
    torch.save(PLAIN, file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(archive.namelist()[0].split("/")[0] + "/snake_ddp.json", text)
    (tmp_path / "actor.pth").write_bytes(file.getvalue())
    return tmp_path / "actor.pth"


@pytest.mark.parametrize("change, words", [
    ({"gamma": 5}, out_of_range("gamma", 5, 0, 1)), ({"gamma": -1e300}, "gamma -1e+300: out of range"),
    ({"gamma": "0.99"}, '"gamma": "0.99" is not a number'), ({"gamma": True}, '"gamma": true is not a number'),
    ({"gamma": None}, '"gamma" is null'), ({"gamma": [1]}, '"gamma": [1] is not a number'),
    ({"reward_scale": 0}, out_of_range("reward_scale", 0, "1e-06", "1,000,000")), ({"reward_scale": 1e308}, "out of range"),
    ({"rival_reward": -1}, out_of_range("rival_reward", -1, 0, 10)), ({"rival_reward": 10.5}, "out of range"),
    ({"view_radius": 4294967296}, "view_radius 4294967296: out of range; allowed: from 0 to 10"),
    ({"view_radius": 3.5}, '"view_radius": 3.5 is not a whole number'), ({"view_radius": 3}, 'view_radius 3 with observation "30"'),
    ({"hidden_size": 0}, "hidden_size 0: out of range"), ({"hidden_size": 9}, "it says hidden_size 9, but the weights are 8 wide"),
    ({"hidden_size": 2**70}, "hidden_size"), ({"mask_fatal": 1}, '"mask_fatal": 1 is not true or false'),
    ({"reward": "most"}, "reward most: not a known value; allowed: 2021, v1_1, v1_2, score"),
    ({"obs": "26"}, 'it says observation "26", but the weights are for 30 features'), ({"obs": []}, '"obs": [] is not a string'),
    ({"obs": "\x1b]0;x\x07"}, "not a known value"), ({"learner": "\x1b[31mred"}, "learner \\"),
    ({"head": "relu"}, "head relu: not a known value"), ({"head": "values"}, "but the weights are an actor's"),
    ({"tokens": "there"}, "with tokens"), ({"tokens": {}}, '"tokens": {} is not a string'),
    ({"format": 2}, "format 2 is of a later version; this one reads 1"), ({"format": 4294967297}, "is of a later version"),
    ({"format": 0}, '"format": 0 is not a whole number above 0'), ({"format": "1"}, '"format": "1" is not a whole number above 0'),
    *(({name: ...}, f'"{name}" is missing') for name in RECORD if name != "version"),
], ids=str)  # fmt: skip
def test_a_record_is_checked_as_flags_are(tmp_path, change, words):
    values = {name: value for name, value in (RECORD | change).items() if value is not ...}
    path = with_text(tmp_path, json.dumps(values))
    for command in (["eval", "--team_a", path, "--team_b", "level0", "--games", 2],
                    ["export", "--actor", path, "--format", "submission", "--output", tmp_path / "out"]):  # fmt: skip
        done = call(*command)
        assert done.returncode == 4 and f"{path}: its record snake_ddp.json: " in done.stderr and words in done.stderr, done.stderr
        assert not any(c < " " and c != "\n" for c in done.stderr)
    for read in (snake_ddp.Team, networks.load):
        with pytest.raises(ValueError) as refused:
            read(str(path))
        assert words in str(refused.value) and "its record snake_ddp.json: " in str(refused.value)
        assert not any(c < " " for c in str(refused.value))
    network = actor()
    network.record = {name: value for name, value in values.items() if name not in ("obs", "head", "hidden_size")}
    if change.keys() <= {"gamma", "reward_scale", "rival_reward", "mask_fatal", "reward"} and ... not in change.values():
        with pytest.raises(ValueError) as refused:
            networks.save(network, tmp_path / "saved.pth")
        assert words in str(refused.value)


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, '{"format": NaN}', '{"gamma": 1e999}', "\x1b[31m", "7"], ids=lambda t: t[:9])
def test_a_record_that_is_no_object(tmp_path, text):
    path = with_text(tmp_path, text)
    done = call("eval", "--team_a", path, "--team_b", "level0", "--games", 2)
    assert done.returncode == 4 and "its record snake_ddp.json: not " in done.stderr and "\x1b" not in done.stderr, done.stderr
    for read in (snake_ddp.Team, networks.load):
        with pytest.raises(ValueError, match="its record snake_ddp.json: not ") as refused:
            read(str(path))
        assert "\x1b" not in str(refused.value)


def test_the_fields_of_a_record_have_the_ranges_of_the_flags():
    learners = json.loads(call("info", "--json").stdout)["learners"]
    assert sorted(actor_record.FIELDS["algo"].choices) == sorted(learners)
    for name, field in actor_record.FIELDS.items():
        for value in (field.least - 1, field.most + 1) if field.most else ("xyz",) if field.choices else ():
            done = call("--algo", "ddpg", "--check_settings", f"--{name}={value}") if name != "algo" else call(f"--algo={value}")
            with pytest.raises(ValueError) as refused:
                actor_record.check({name: value}, "here")
            assert done.returncode == 2 and "--" + str(refused.value).removeprefix("here: ") in done.stderr, done.stderr
        for value in (field.least, field.most) if field.most else field.choices:
            actor_record.check({name: value}, "here")
