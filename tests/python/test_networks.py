"""snake_ddp.networks: recorded outputs of the reference and of plain torch.nn, and the program's own exports and moves."""

import copy
import json
import zipfile

import numpy as np
import pytest
import torch

import snake_ddp
from processes import DATA, SOURCE, call, only_json
from snake_ddp import _core, networks

torch.set_num_threads(1)
CHAMPION = SOURCE / "models" / "champion.pth"


def part(recorded, prefix):
    return {name.removeprefix(prefix): value for name, value in recorded.items() if name.startswith(prefix)}


def loaded(tmp_path, weights, **more):
    torch.save(weights, tmp_path / "weights.pth")
    return networks.load(tmp_path / "weights.pth", **more)


def distance(one, other):
    """The largest difference, relative above 1."""
    return float(((one - other).abs() / other.abs().clamp_min(1)).max().detach())


def randomised(network, seed=1):
    torch.manual_seed(seed)
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.2 * torch.randn_like(value))
    return network


# Recorded outputs


def test_the_reference_s_actor_gives_the_recorded_outputs():
    recorded = torch.load(DATA / "upstream_actor_2000_io.pth", weights_only=True)
    actor = networks.load(DATA / "upstream_actor_2000.pth", head="softmax")
    assert actor.obs == "26" and actor.record == {}
    assert distance(actor(recorded["obs"]), recorded["probs"]) < 1e-4  # logits reach 84


@pytest.mark.parametrize("head", ["softmax", "tanh"])
@pytest.mark.parametrize("kind", ["ddpg", "bicnet"])
def test_actors_and_critics_give_the_recorded_outputs(kind, head, tmp_path):
    recorded = torch.load(DATA / f"{kind}_{head}_updates.pth", weights_only=True)
    actor = loaded(tmp_path, part(recorded, "actor0."), head=head)
    critic = loaded(tmp_path, part(recorded, "critic0."))
    out = recorded["actor_out"]
    if head == "softmax":
        assert distance(actor(recorded["obs"]), out) < 1e-5
    else:
        assert distance(torch.tanh(actor.logits(recorded["obs"])), out) < 1e-5 and float(out.min()) < 0
        assert distance(actor(recorded["obs"]).sum(-1), torch.ones(64, 3)) < 1e-5
    assert actor.obs == critic.obs == "30" and distance(critic(recorded["obs"], out), recorded["q_out"]) < 1e-5


def huber_loss_of_recorded_update(recorded, value_of, next_value_of):
    """The first update's loss, by the equations of docs/learners/dqn.md."""
    update = part(recorded, "update0.")
    chosen = (value_of(update["state"]) * update["action"]).sum(-1)
    best = value_of(update["next_state"]).masked_fill(update["next_moves"] == 0, -torch.inf).argmax(-1, keepdim=True)
    later = next_value_of(update["next_state"]).gather(-1, best).squeeze(-1)
    return update, chosen, later


@pytest.mark.parametrize("learner", ["dqn", "vdn", "qmix"])
def test_q_networks_and_mixers_give_the_recorded_loss(learner, tmp_path):
    recorded = torch.load(DATA / f"{learner}_updates.pth", weights_only=True)
    net, target = (loaded(tmp_path, part(recorded, f"{kind}0.")) for kind in ("net", "target"))
    update, chosen, later = huber_loss_of_recorded_update(recorded, net, target)
    if learner == "qmix":
        mixer, mixer_target = (loaded(tmp_path, part(recorded, f"{kind}0.")) for kind in ("mixer", "mixer_target"))
        ours = mixer(chosen, update["state"])
        wanted = update["reward"].sum(1) + update["discount"][:, 0] * mixer_target(later, update["next_state"])
    else:
        ours, wanted = chosen, update["reward"] + update["discount"] * later
        if learner == "vdn":
            ours, wanted = ours.sum(1), wanted.sum(1)
    assert distance(torch.nn.functional.smooth_l1_loss(ours, wanted), update["loss"]) < 1e-5


def test_the_recurrent_network_gives_the_recorded_loss(tmp_path):
    recorded = torch.load(DATA / "rqmix_updates.pth", weights_only=True)
    net, target = (loaded(tmp_path, part(recorded, f"{kind}0.")) for kind in ("net", "target"))
    mixer, mixer_target = (loaded(tmp_path, part(recorded, f"{kind}0.")) for kind in ("mixer", "mixer_target"))
    update = {name: value.unflatten(0, (6, 5)) for name, value in part(recorded, "update0.").items() if value.dim() > 0}
    total, burn_in = torch.zeros(()), 2
    for window in range(6):
        w = {name: value[window] for name, value in update.items()}
        seen = torch.cat([w["state"], w["next_state"][-1:]])
        first = 5 - int(w["there"].sum())
        values, later, memory, memory_of_target = {}, {}, None, None
        for place in range(first, 6):
            values[place], memory = net(seen[place], memory)
            later[place], memory_of_target = target(seen[place], memory_of_target)
        for place in range(max(burn_in, first), 5):
            best = values[place + 1].masked_fill(w["next_moves"][place] == 0, -torch.inf).argmax(1, keepdim=True)
            after = mixer_target(later[place + 1].gather(1, best).squeeze(1), seen[place + 1])
            wanted = w["reward"][place].sum() + w["discount"][place, 0] * after
            ours = mixer((values[place] * w["action"][place]).sum(1), seen[place])
            total = total + torch.nn.functional.smooth_l1_loss(ours, wanted.reshape(ours.shape), reduction="sum")
    assert distance(total / (6 * (5 - burn_in)), recorded["update0.loss"]) < 1e-5


# The program's answers

KINDS = {
    "softmax": lambda: networks.Actor(30, 32),
    "tanh": lambda: networks.Actor(26, 32, head="tanh"),
    "bicnet": lambda: networks.BiCNetActor(30, 16),
    "q": lambda: networks.QNetwork(277, 32),
    "q without norms": lambda: networks.QNetwork(309, 32, layer_norm=False),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.load:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_networks_give_the_outputs_of_the_program_s_exports(kind, tmp_path):
    ours = randomised(KINDS[kind]())
    torch.save(ours.state_dict(), tmp_path / "actor_1.pth")
    head = getattr(ours, "head", None)
    more = ["--output_activation", head] if head else []
    spec = f"{tmp_path}/actor_1.pth{':view' if ours.obs == 'view' else ''}"
    done = call("export", "--actor", spec, "--format", "torchscript", "--output", tmp_path / "a.pt", *more)
    assert done.returncode == 0, done.stderr
    rows = torch.rand(17, 3, ours.features)
    theirs = torch.jit.load(tmp_path / "a.pt")(rows)
    again = networks.load(tmp_path / "actor_1.pth", head=head, obs=ours.obs)
    assert type(again) is type(ours) and again.obs == ours.obs != ""
    assert float(theirs.std(0).max()) > 1e-3, "answers differ from row to row"
    assert distance(ours(rows), theirs) < 1e-5 and torch.equal(again(rows), ours(rows))


@pytest.fixture(scope="module")
def short_runs(tmp_path_factory):
    """The weights' folder of a run of a second, by learner."""
    folders = {}

    def folder_of(learner, *more):
        key = (learner, *more)
        if key not in folders:
            runs = tmp_path_factory.mktemp(learner)
            done = call("train", "--algo", learner, "--runs_dir", runs, "--hidden_size", 16, "--batch_size", 16, "--num_envs", 4,
                        "--max_episodes", 4, "--episode_length", 40, "--threads", 1, *more)
            assert done.returncode == 0, done.stderr
            (folders[key],) = {path.parent for path in runs.rglob("actor_*.pth")}
        return folders[key]

    return folder_of


@pytest.mark.parametrize("learner, actor, critic", [
    ("ddpg", "Actor", "Critic"),
    ("bicnet", "BiCNetActor", "BiCNetCritic"),
    ("dqn", "QNetwork", "QNetwork"),
    ("rqmix", "RecurrentQNetwork", "Mixer"),
])
def test_every_file_that_a_run_saves_is_read(learner, actor, critic, short_runs):
    more = ["--output_activation", "tanh"] if learner == "ddpg" else []
    if learner in ("ddpg", "dqn"):
        more.append("--layer_norm")
    folder = short_runs(learner, *more)  # qmix has these networks, too, and pqn the Q-network
    for kind, expected in (("actor", actor), ("critic", critic)):
        path = max(folder.glob(f"{kind}_*.pth"))
        network = networks.load(path)
        assert type(network).__name__ == expected
        weights = torch.load(path, weights_only=True)
        assert network.state_dict().keys() == weights.keys()
        if kind == "actor":
            assert network.record["learner"] == learner and network.record["obs"] == network.obs
            assert snake_ddp.obs_size(network.obs) == network.features
            assert getattr(network, "head", "values") == network.record["head"] == ("tanh" if learner == "ddpg" else
                                                                                    "softmax" if learner == "bicnet" else "values")


def test_without_a_record_the_run_names_the_last_layer(tmp_path, monkeypatch):
    models = tmp_path / "trained_model"
    models.mkdir()
    torch.save(networks.Actor(30, 8).state_dict(), models / "actor_1.pth")
    with pytest.raises(ValueError, match="nothing says what this actor's last layer is"):
        networks.load(models / "actor_1.pth")
    (tmp_path / "config.json").write_text(json.dumps({"output_activation": "tanh"}))
    assert networks.load(models / "actor_1.pth").head == "tanh"
    assert networks.load(models / "actor_1.pth", head="softmax").head == "softmax"
    monkeypatch.chdir(models)
    for path in ("actor_1.pth", "./actor_1.pth", "../trained_model/actor_1.pth"):
        assert networks.load(path).head == "tanh", path
        assert snake_ddp.Team(path).obs == "30", path


def test_wrong_files_are_rejected_with_the_reason(tmp_path, short_runs):
    torch.save({"layer.weight": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(ValueError, match="other.pth: it is not an actor or critic of this program.*'layer.weight'"):
        networks.load(tmp_path / "other.pth")
    torch.save(networks.QNetwork(30, 8).state_dict(), tmp_path / "q.pth")
    with pytest.raises(ValueError, match="QNetwork"):
        networks.load(tmp_path / "q.pth", head="tanh")
    with pytest.raises(ValueError, match="softmax or tanh"):
        networks.Actor(30, head="relu")
    weights = networks.QNetwork(30, 8).state_dict()
    del weights["norm_1.bias"]
    with pytest.raises(ValueError, match=r"weights.pth.*(\n.*)*norm_1.bias"):
        loaded(tmp_path, weights)
    with pytest.raises(ValueError, match="weights.pth"):
        loaded(tmp_path, {"mixer.hyper.weight": torch.tensor(1.0)})
    honest = max(short_runs("dqn", "--layer_norm").glob("actor_*.pth"))
    changed = tmp_path / "changed.pth"

    def with_record(change):
        with zipfile.ZipFile(honest) as source, zipfile.ZipFile(changed, "w") as to:
            for name in source.namelist():
                content = source.read(name)
                to.writestr(name, change(content) if name.endswith("snake_ddp.json") else content)
        return changed

    with pytest.raises(ValueError, match='it says head "tanh", but the weights are a Q-network' ):
        networks.load(with_record(lambda content: content.replace(b'"head":"values"', b'"head":"tanh"')))
    for record in (b"[]", b"3", b"null", b"{", b'{"obs": "view"}', b'{"obs": null, "head": "values", "tokens": ""}',
                   b'{"obs": "35", "head": "values", "tokens": ""}', b'{"obs": "view", "head": ["values"], "tokens": ""}',
                   b"[" * 100_000):  # fmt: skip
        with pytest.raises(ValueError, match="its record snake_ddp.json"):
            networks.load(with_record(lambda _, record=record: record))


def test_the_champion_plays_in_torch_as_the_program_plays_it():
    """200 whole games against level 2: nearly all are won, and each move is the best open one."""
    from snake_ddp.envs import SnakeVectorEnv

    champion = networks.load(CHAMPION)
    assert champion.obs == "ahead" and isinstance(champion, networks.QNetwork)
    envs = SnakeVectorEnv(600, obs="ahead", autoreset_mode="Disabled")
    seen, _ = envs.reset(seed=1)
    for _ in range(200):
        turned = snake_ddp.turned_moves(seen, "ahead")
        is_open = torch.from_numpy(np.take_along_axis(envs.open_moves(), turned, 1))
        with torch.no_grad():
            best = champion(torch.from_numpy(seen)).masked_fill(~is_open, -torch.inf).argmax(1).numpy()
        seen, _, _, _, info = envs.step(np.take_along_axis(turned, best[:, None], 1)[:, 0])
    scores = info["scores"][::3]
    theirs = only_json(call("eval", "--team_a", CHAMPION, "--team_b", "level2", "--games", 200, "--no_swap_sides", "--json").stdout)
    won = float((scores[:, 0] > scores[:, 1]).mean())
    assert won > 0.94 and abs(won - theirs["win_rate"]) < 0.06
    assert abs(scores[:, 0].mean() - theirs["score_a"]) < 3


def test_a_saved_network_keeps_what_it_observes_and_its_last_layer(tmp_path):
    made = networks.QNetwork(309, 16)
    made.obs, made.record = "ahead", {"gamma": 0.9, "rival_reward": 0.25}
    for network, head in ((made, "values"), (networks.Actor(30, 16, head="tanh"), "tanh")):
        networks.save(network, tmp_path / "saved.pth")
        record = only_json(call("info", tmp_path / "saved.pth", "--json").stdout)["record"]
        assert (record["obs"], record["head"], record["hidden_size"]) == (network.obs, head, 16)
        loaded = networks.load(tmp_path / "saved.pth")
        assert loaded.obs == network.obs and loaded.record == record and snake_ddp.Team(tmp_path / "saved.pth").obs == network.obs
        assert all(torch.equal(value, network.state_dict()[name]) for name, value in loaded.state_dict().items())
        assert list(torch.load(tmp_path / "saved.pth", weights_only=True)) == list(network.state_dict())
        played = call("eval", "--team_a", tmp_path / "saved.pth", "--team_b", "level0", "--games", 4, "--json")
        assert played.returncode == 0, played.stderr
    networks.save(loaded, tmp_path / "again.pth")
    assert networks.load(tmp_path / "again.pth").record == record
    made.obs = "30"
    with pytest.raises(ValueError, match='it says observation "30", but the weights are for 309 features' ):
        networks.save(made, tmp_path / "never.pth")
    assert not (tmp_path / "never.pth").exists()


def test_what_is_saved_is_what_the_program_plays(tmp_path):
    path = tmp_path / "saved.pth"
    q, recurrent = randomised(networks.QNetwork(309, 16)), randomised(networks.RecurrentQNetwork(30, 16))
    for network in (q, recurrent, torch.compile(q), copy.deepcopy(q).bfloat16(), copy.deepcopy(q).double()):
        networks.save(network, path)
        again, original = networks.load(path), getattr(network, "_orig_mod", network)
        assert type(again) is type(original)
        assert all(value.dtype == torch.float32 and torch.equal(value, original.state_dict()[name].float())
                   for name, value in again.state_dict().items())  # fmt: skip
        played = call("eval", "--team_a", path, "--team_b", "level0", "--games", 4, "--json")
        assert played.returncode == 0, played.stderr
    for network in (networks.Critic(30), networks.BiCNetCritic(30), networks.Mixer(30), torch.nn.Linear(30, 4)):
        with pytest.raises(TypeError, match=rf"a {type(network).__name__}, not one of Actor, BiCNetActor, QNetwork, RecurrentQNetwork"):
            networks.save(network, tmp_path / "never.pth")
    for folder in (tmp_path / "none" / "q.pth", tmp_path):
        with pytest.raises(OSError, match=str(folder)):
            networks.save(q, folder)
    assert [file.name for file in tmp_path.iterdir()] == ["saved.pth"]
    # mypy --strict with torch's types takes half a minute.
    assert networks.save.__annotations__["network"] == networks.load.__annotations__["return"]


def test_moves_of_a_turned_view_are_known_from_it():
    batch = snake_ddp.Boards(50, obs="ahead", opponent="none")
    batch.reset(seed=1)
    for _ in range(30):
        turned, headings = snake_ddp.turned_moves(batch.observations, "ahead"), batch.states["directions"]
        assert turned.shape == (50, 6, 4)
        assert np.array_equal(turned[..., 0], headings) and np.array_equal(turned[..., 1], headings ^ 1)
        left = np.array([2, 3, 1, 0])[headings]
        assert np.array_equal(turned[..., 2], left) and np.array_equal(turned[..., 3], left ^ 1)
        batch.step(np.where(batch.open_moves()[..., 1], 1, turned[..., 3]).astype(np.uint8))
    assert np.array_equal(snake_ddp.turned_moves(np.zeros((2, 3, 309), np.float32), "view"), np.tile(np.arange(4), (2, 3, 1)))


def test_a_mirror_image_makes_the_mirrored_moves():
    network = randomised(networks.QNetwork(309, 32))
    network.obs = "view"
    assert not networks.is_symmetric(network)
    image = copy.deepcopy(network)
    image.load_state_dict(networks.mirror_image(network.state_dict(), "view"))
    of, signs, moves = _core.mirror("view")
    rows = torch.rand(50, 309)
    assert distance(image(rows[:, of] * torch.from_numpy(signs)), network(rows)[:, moves]) < 1e-5
    assert distance(image(rows), network(rows)) > 0.1
    networks.symmetrize(dict(network.named_parameters()), "view")
    assert networks.is_symmetric(network)
    for other, obs in ((networks.QNetwork(309, 31), "view"), (networks.QNetwork(30, 32), "30")):
        other.obs = obs
        assert not networks.is_symmetric(other)
        with pytest.raises(ValueError, match="have a mirror image"):
            networks.mirror_image(other.state_dict(), obs)


def test_what_training_made_symmetric_is_symmetric_here():
    assert networks.is_symmetric(networks.load(CHAMPION))


def test_a_copy_learns_and_its_file_is_played_by_the_program(tmp_path):
    actor = networks.Actor(30, 16)
    before = copy.deepcopy(actor.state_dict())
    loss = actor(torch.rand(5, 3, 30))[..., 0].mean()
    loss.backward()
    torch.optim.Adam(actor.parameters(), lr=0.1).step()
    assert all(not torch.equal(value, before[name]) for name, value in actor.state_dict().items())
    torch.save(actor.state_dict(), tmp_path / "actor.pth")
    played = call("eval", "--team_a", f"{tmp_path}/actor.pth:softmax", "--team_b", "level0", "--games", 4, "--json")
    assert played.returncode == 0 and only_json(played.stdout)["games"] == 4, played.stderr
    assert snake_ddp.Team(f"{tmp_path}/actor.pth:softmax").obs == "30"
