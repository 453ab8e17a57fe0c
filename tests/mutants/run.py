"""Would we notice? Puts one fault at a time into a copy of the sources; a named test must turn red each time.

    python3 tests/mutants/run.py            all of them
    python3 tests/mutants/run.py NAME...    these
    python3 tests/mutants/run.py --check    only whether each text to be replaced is there, once

The copy is in build/mutants. Run it with an interpreter that has torch and pytest, such as .venv/bin/python3. The exit
code is 1 if a fault stays unnoticed.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "build" / "mutants" / "src"
BUILD = ROOT / "build" / "mutants" / "build"
TEST_LIMIT_S = 300


@dataclasses.dataclass(frozen=True)
class Catch:
    """A case of a Catch2 program."""
    program: str
    case: str

    def targets(self):
        return [self.program]

    def command(self):
        # Catch2 reads a comma as "or" and brackets as tags.
        name = self.case.replace(",", "\\,").replace("[", "\\[")
        return [BUILD / "tests" / self.program.removeprefix("test_") / self.program, name, "-w", "NoTests"]

    def __str__(self):
        return f"{self.program}: {self.case}"


@dataclasses.dataclass(frozen=True)
class Pytest:
    """A test that drives the built program."""
    test: str

    def targets(self):
        return ["snake_ddp", "train_probe"]

    def command(self):
        return [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", SOURCE / "tests" / self.test]

    def __str__(self):
        return self.test


TRAIN = "train/test_train.py::test_"
RANKS = Pytest(TRAIN + "ranks_under_torchrun_hold_the_same_weights_from_different_games[2]")
SEEDS = Pytest(TRAIN + "a_rank_plays_and_samples_by_the_seed_plus_its_rank")
UNION = Pytest(TRAIN + "two_ranks_learn_what_one_learns_from_both_batches[ddpg-softmax]")
GOLDEN = Catch("test_learners", "five DDPG updates with a softmax actor equal the reference's")
GOLDEN_BICNET = Catch("test_learners", "five BiCNet updates with a softmax actor equal the reference's")
BICNET_PASSES = Catch("test_nets", "BiCNet's passes equal automatic differentiation through ATen's LSTM")

DQN_GOLDEN = Catch("test_learners", "five updates of DQN, VDN and QMIX equal those of a plain implementation")

PQN_GOLDEN = Catch("test_learners", "returns and updates of PQN and PQN-VDN equal those of a plain implementation")

RQMIX_GOLDEN = Catch("test_learners", "five updates of recurrent QMIX equal those of a plain implementation")

SETTINGS = Catch("test_train", "each setting reaches its places in learner, boards and league, and no other")
SECOND_START = Catch("test_train", "a second start does what is due after the first one's intervals, not again")
OTHER_BOARDS = Catch("test_train", "with other boards a second start counts episodes and shrinks epsilon from where the first one was")
COUNTERS = Catch("test_train", "each counter comes back under its own name")
RESTORED_LEAGUE = Catch("test_train", "a league restored from its state has the same state, and judges alike")
DRAWN = Catch("test_train", "members are drawn as often as they are hard, the easiest 5 in 100 at least")
ORDER = Catch("test_train", "ratings order a weak, a middling and a strong learner among members that they follow from")
FULL_LEAGUE = Catch("test_train", "a full league gives the place of its easiest frozen team away, and games against it are forgotten")
ROLLOUT = Catch("test_train", "a rollout is learned from whole, oldest first, and shuffled anew in each epoch")
FIRST_UPDATE = Catch("test_train", "updates begin when replay holds a batch, and come as often as asked")
EVALUATION = Catch("test_train", "an evaluation is the match that anybody can play with the saved weights")
STATE_HASH = Catch("test_train", "the hash of a state feels one bit of each tensor of each learner")
LOADED = Catch("test_train", "after --load_model weights are the file's, and each target equals its network")
FROZEN = Catch("test_rollout", "a frozen team sees its own side, draws numbers of its own and keeps to the mask")
RATES = Catch("test_learners", "an update without a learning rate changes no weight, a scaled one another way than a full one")
EXPORTED = Catch("test_learners", "from exported weights each target starts as its network, and the optimizer from nothing")

LOOP = "src/train/loop.cpp"
SESSION = "src/train/session.cpp"
PERIODIC = "src/train/periodic.cpp"
HOST_ARENA = "src/train/host_arena.cpp"
RANKS_ROOM = "src/running/ranks.cpp"
SETUP = "src/train/setup.cpp"
WEIGHTS = "src/train/weights.cpp"
LEAGUE = "src/train/league.cpp"
RESUME = "src/train/resume.cpp"
DDPG = "src/learners/ddpg.cpp"
DDPG_ROWS = "src/learners/ddpg_rows.cpp"
ADAM = "src/learners/adam.cpp"
ADAM_WORK = "src/learners/adam_work.hpp"
BICNET = "src/learners/bicnet.cpp"
BICNET_NET = "src/nets/bicnet.cpp"
DQN = "src/learners/dqn.cpp"
PQN = "src/learners/pqn.cpp"
COLLECTOR = "src/rollout/collector.cpp"
TURN = "include/snake_ddp/rollout/turn.hpp"
FLEET = Catch("test_rollout", "a fleet plays the collector's games and stores the same rows")
RULES = "include/snake_ddp/game/rules.hpp"
OPPONENTS = "include/snake_ddp/agents/opponents_inline.hpp"
REACH = "include/snake_ddp/game/reach.hpp"
OBSERVATION = "include/snake_ddp/encode/observation_inline.hpp"

# name: (test, [(file, text, instead)])
MUTANTS = {
    "gradients are summed, not averaged": (UNION, [
        ("src/dist/context.cpp", "sum_in_shared_memory(tensor, size(), deadline)", "sum_in_shared_memory(tensor, 1, deadline)")]),
    "all ranks play the same games": (SEEDS, [
        (SETUP, "c.seed = static_cast<std::uint64_t>(o.seed) + static_cast<std::uint64_t>(rank);",
         "c.seed = static_cast<std::uint64_t>(o.seed) + 0 * static_cast<std::uint64_t>(rank);")]),
    "all ranks sample the same rows": (SEEDS, [
        (HOST_ARENA, "seed_(parts.collector_options.seed),", "seed_(static_cast<std::uint64_t>(o_.seed)),")]),
    "all ranks learn from rank 0's batch": (RANKS, [
        (LOOP, "    arena.learn(s.average);",
         "    for (at::Tensor column : arena.last_batch().columns) s.context.broadcast(column, 0, s.context.deadline());\n"
         "    arena.learn(s.average);")]),
    "weights start by rank and are not shared": (RANKS, [
        (SESSION, "  const learners::LearnerOptions options = learner_options(o, context.size(), context.device());",
         "  auto options = learner_options(o, context.size(), context.device());\n"
         "  options.seed += static_cast<std::uint64_t>(context.rank());"),
        (WEIGHTS, "  if (context.size() == 1) return;\n  for (auto& [name, tensor] : learner.state())",
         "  if (context.size() >= 1) return;\n  for (auto& [name, tensor] : learner.state())")]),
    "settings are not compared": (Pytest(TRAIN + "settings_that_differ_between_ranks_end_all[gamma-0.99-0.98]"), [
        (RANKS_ROOM, "if (there == main.end() || *there != value)", "if (there == main.end())")]),
    "a stop needs a signal to every rank": (Pytest(TRAIN + "a_signal_to_any_rank_stops_all_at_the_same_step[SIGTERM]"), [
        (PERIODIC, "return s.agreed.stop == 0 && !s.agreed.is_finished;",
         "return s.agreed.stop < s.context.size() && !s.agreed.is_finished;")]),
    "a rank that diverged ends alone": (
        Pytest(TRAIN + "a_loss_that_is_not_finite_on_one_rank_ends_all_with_one_message[1]"), [
            (PERIODIC, "running::check_divergence(s.agreed.diverged,", "running::check_divergence(ballot.diverged * s.context.rank(),")]),
    "playing is no progress": (Pytest("train/test_signals.py::test_playing_is_progress"), [
        (LOOP, '    s.watchdog.tick("playing");\n', "")]),
    "a request to save is forgotten while a checkpoint is written": (
        Pytest("train/test_signals.py::test_signals_while_a_slow_checkpoint_is_written_are_heeded_after_it"), [
            (PERIODIC, "s.agreed.checkpoint_asked |= s.agreed.save > 0;", "s.agreed.checkpoint_asked = s.agreed.save > 0;")]),
    "a stop does away with the games that were due": (
        Pytest("train/test_signals.py::test_what_is_due_at_the_vote_of_a_stop_is_played_by_the_next_start"), [
            ("src/train/counters.cpp", "put(name, value);", 'put(name, name == "evaluation_due" ? 0 : value);')]),
    "nohup is in vain": (Pytest("train/test_signals.py::test_under_nohup_a_hangup_stops_nothing"), [
        ("src/running/signals.cpp", "if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP", "sigaction(SIGHUP")]),
    "ranks outlive torchrun": (Pytest(TRAIN + "ranks_end_with_a_killed_torchrun"), [
        ("src/app/main.cpp", "  snake_ddp::dist::end_with_torchrun();\n", "")]),
    "of two heads on a cell the lower lives": (
        Catch("test_game", "two heads on one cell both die, and a bean there is the lower snake's"),
        [(RULES, "const int both = (1 << i) | (1 << j);", "const int both = 1 << i;")]),
    "a snake may bite itself": (Catch("test_game", "a snake may follow its own tail, not bite its body"), [
        (RULES, "static_cast<int>(s.cells[s.heads[i]] != 0) << i",
         "static_cast<int>(s.cells[s.heads[i]] != 0 && (s.cells[s.heads[i]] & 7) != i + 2) << i")]),
    "snakes of level 2 share a bean": (Catch("test_game", "level 2 gives each bean to one snake, the other levels do not"), [
        (OPPONENTS, "taken |= target < 0 ? 0 : 1 << target;", "taken |= 0;")]),
    "two features are swapped": (Catch("test_game", "730 recorded boards are seen, answered and rewarded as the reference did"), [
        (OBSERVATION, "out[0] = static_cast<float>(row[i]);\n    out[1] = static_cast<float>(column[i]);",
         "out[1] = static_cast<float>(row[i]);\n    out[0] = static_cast<float>(column[i]);")]),
    "the actor's target stays": (GOLDEN, [
        (DDPG, "step(actor_, actor_norm_, true);", "step(actor_, actor_norm_, false);")]),
    "the critic's target stays": (GOLDEN, [
        (DDPG, "step(c, critic_norm_, with_actor);", "step(c, critic_norm_, false);")]),
    "the actor descends": (Catch("test_learners", "the actor climbs what the critic says"), [
        (DDPG_ROWS, "static_cast<float>(-1.0 / static_cast<double>(total))", "static_cast<float>(1.0 / static_cast<double>(total))")]),
    "gradients are not clipped": (GOLDEN, [(ADAM_WORK, "const float clipped = gradient * s.clip;", "const float clipped = gradient;")]),
    "Adam's betas are swapped": (GOLDEN, [(ADAM_WORK, "kBeta1 = 0.9, kBeta2 = 0.999", "kBeta1 = 0.999, kBeta2 = 0.9")]),
    "Adam's moments are swapped": (Pytest(TRAIN + "moments_are_kept_under_their_names"), [
        (ADAM, "gradient.data_ptr<float>(), first, second,", "gradient.data_ptr<float>(), second, first,")]),
    "BiCNet's targets stay": (GOLDEN_BICNET, [(BICNET, "with_actor ? std::optional(options_.tau) : std::nullopt", "std::nullopt")]),
    "both directions run the same way": (BICNET_PASSES, [
        (BICNET_NET, "return direction == 0 ? step : kTeam - 1 - step;", "return direction < 2 ? step : kTeam - 1 - step;")]),
    "a cell's gradient stops at its state": (BICNET_PASSES, [
        ("src/nets/lstm_cell.cpp", "dc[j] = d * forget;", "dc[j] = 0 * d * forget;")]),
    "later rewards are all discounted once": (Catch("test_rollout", "n-step transitions equal the sums made from one-step ones"), [
        (TURN, "factor *= rules.gamma;", "factor = rules.gamma;")]),
    "the end of a game bootstraps": (
        Catch("test_rollout", "n-step transitions equal the sums made from one-step ones"),
        [(TURN, "terminated ? 0.0F :", "terminated ? static_cast<float>(factor) :")]),
    "epsilon stays": (Catch("test_rollout", "epsilon shrinks at every choice; as a ladder it stays and is spread over the boards"), [
        (COLLECTOR, "epsilon_ *= options_.epsilon_speed;", "epsilon_ *= 1.0;")]),
    "a fleet's rows are written over each other": (FLEET, [
        ("src/rollout/fleet_work.hpp", "(before & kRowsMask) + k", "k")]),
    "a fleet's games are numbered by their boards": (FLEET, [
        ("src/rollout/fleet_work.hpp", "*f.started + (before >> 32) + 1", "*f.started + b + 1")]),
    "a device draws the same rows each time": (FLEET, [
        ("src/replay/device_buffer.cpp", "counters_.select(0, kDraw).add_(1);", "counters_.select(0, kDraw).add_(0);")]),
    "VDN learns from snakes": (DQN_GOLDEN, [(DQN, 'options.algo == "vdn" ? Value::kSum', 'options.algo == "none" ? Value::kSum')]),
    "the mixing weights may fall below 0": (DQN_GOLDEN, [
        ("src/nets/mixer.cpp", "const at::Tensor weights = parts.weights.abs().view({q.size(0)", "const at::Tensor weights = parts.weights.view({q.size(0)")]),
    "who comes last owns the cell": (Catch("test_game", "reach and outlook are those of a search cell by cell"), [
        (REACH, "reach.by[first_foe][t] |", "reach.by[first_foe][t - 1] |")]),
    "a frozen team's transitions are learned from": (
        Catch("test_rollout", "frozen teams play team B each with its own answers and are not remembered"),
        [(COLLECTOR, "const int teams = running_[b].opponent.is_self() ? 2 : 1;",
          "const int teams = running_[b].opponent.scripted ? 1 : 2;")]),
    "a return goes on in another game": (Catch("test_rollout", "each transition tells where its game's previous one stands"), [
        (COLLECTOR, "sides_), sides_, kNoRow);", "sides_), 0, kNoRow);")]),
    "windows run into the game before": (Catch("test_replay", "windows are consecutive rows of one game, and tell what counts"), [
        ("src/replay/buffer.cpp", "there = there && before != row && before >= 0;", "there = there && before >= 0;")]),
    "memory outlives its game": (Catch("test_rollout", "a policy that remembers starts each game without a memory"), [
        (COLLECTOR, "static_cast<std::int64_t>(board)).zero_();", "static_cast<std::int64_t>(board));")]),
    "gradients flow into the burn-in": (RQMIX_GOLDEN, [
        ("src/learners/rqmix.cpp", "pass_, options_.burn_in, length - 1,", "pass_, 0 * options_.burn_in, length - 1,")]),
    "returns are of one step": (PQN_GOLDEN, [(PQN, "v[to] + long_part *", "v[to] + 0 * long_part *")]),
    "the bootstrap counts on masked moves": (DQN_GOLDEN, [(DQN, "moves <= 0", "moves < 0")]),
    "the target network chooses its own best": (DQN_GOLDEN, [
        (DQN, "next_pass_.output.masked_fill", "target_pass_.output.masked_fill")]),
    "team B is remembered with the sides as they are": (
        Catch("test_rollout", "in self-play both teams are remembered, team B as if it were team A"),
        [(COLLECTOR, "game::with_sides_swapped(before)", "before")]),
    "tails are taken for certain death": (
        Catch("test_game", "a tail's cell may be entered, a neck's may not, and who has no way out has all four"),
        [("include/snake_ddp/encode/moves.hpp", "state.tails[owner] != cell", "state.tails[owner] < 255")]),
    "tanh explores in 0 to 1": (SETTINGS, [
        (SETUP, 'c.random_low = o.output_activation == "tanh" ? -1.0 : 0.0;', "c.random_low = 0.0;")]),
    "the league plays without the mask": (SETTINGS, [(SETUP, "  l.mask_fatal = o.mask_fatal;\n", "")]),
    "nothing is taken off for rivals": (SETTINGS, [(SETUP, "  c.rival_reward = o.rival_reward;\n", "")]),
    "own and rival reward are swapped": (SETTINGS, [(COLLECTOR, "o.own_reward, o.rival_reward,", "o.rival_reward, o.own_reward,")]),
    "the critic learns at the actor's rate": (SETTINGS, [
        (SETUP, "l.c_lr = running::scaled_rate(o.c_lr,", "l.c_lr = running::scaled_rate(o.a_lr,")]),
    "sqrt scales linearly": (Catch("test_train", "learning rates grow with the world size as --lr_scaling says"), [
        (RANKS_ROOM, "return rate * std::sqrt(ranks);", "return rate * ranks;")]),
    "learning rates fall by one board's steps": (
        Catch("test_train", "learning rates fall to --lr_end over the episodes, however many boards play them"),
        [(SETUP, "static_cast<double>(steps * o.num_envs)", "static_cast<double>(steps)")]),
    "learning rates stay": (Catch("test_train", "a run's learning rates follow the steps that were played"), [
        (LOOP, "scale_rates(rate_factor(o, n.steps));", "scale_rates(rate_factor(o, 0));")]),
    "a league's rival is drawn by the run's seed": (
        Catch("test_train", "games of a mix meet who is drawn by the rank's seed, from the league where it says so"),
        [(SETUP, "league.drawn(seed, game)", "league.drawn(static_cast<std::uint64_t>(o.seed), game)")]),
    "a device's opponents are drawn by the run's seed": (
        Pytest("train/test_boards.py::test_two_ranks_with_boards_on_their_devices_make_the_same_run"),
        [("src/train/device_arena.cpp", "opponent_plan(parts.options, seed_), replay_",
          "opponent_plan(parts.options, static_cast<std::uint64_t>(parts.options.seed)), replay_")]),
    "a rollout has room for one team": (
        Catch("test_train", "replay of a rollout has room for both teams where the policy plays itself"),
        [(SETUP, "* (has_self_play(mix) ? 2 : 1);", "* (has_self_play(mix) ? 1 : 1);")]),
    "weights are compared at the end only": (
        Pytest(TRAIN + "weights_that_change_on_one_rank_end_all_at_the_next_comparison[2]"),
        [(PERIODIC, "  run_complete(s, When::kVote);\n", "")]),
    "moments are not compared": (STATE_HASH, [
        (WEIGHTS, "learner.state()) hash = nets::add_to_hash(hash, tensor);",
         'learner.state())\n    if (name.find("adam.second.") == std::string::npos) hash = nets::add_to_hash(hash, tensor);')]),
    "a tensor's last word is not compared": (STATE_HASH, [
        ("src/nets/flat_parameters.cpp", "for (std::int64_t i = 0; i < words; ++i)", "for (std::int64_t i = 0; i + 1 < words; ++i)")]),
    "targets are not loaded": (LOADED, [(WEIGHTS, "  learner.start_from_exported();\n", "")]),
    "QMIX's loaded target stays": (EXPORTED, [
        (DQN, "  target_.parameters().flat().copy_(net_.parameters().flat());\n  mixing_->start();", "  mixing_->start();")]),
    "the mixing target stays": (EXPORTED, [
        ("src/learners/mixing.cpp", "  target.parameters().flat().copy_(mixer.parameters().flat());\n", "")]),
    "QMIX's mixing network keeps its rate": (RATES, [(DQN, "mixing_ ? &mixing_->adam : nullptr", "mixing_ ? &adam_ : nullptr")]),
    "rqmix's mixing network keeps its rate": (RATES, [
        ("src/learners/rqmix.cpp", "adam_.learning_rate = mixing_.adam.learning_rate =", "adam_.learning_rate =")]),
    "the critic's rate becomes the actor's": (RATES, [
        (DDPG, "critic.adam.learning_rate = factor * options_.c_lr;", "critic.adam.learning_rate = factor * options_.a_lr;")]),
    "updates begin a step late": (FIRST_UPDATE, [(LOOP, "* o.num_envs >= o.batch_size;", "* o.num_envs > o.batch_size;")]),
    "each update draws the same rows": (Catch("test_train", "each update draws rows of its own, from all that replay holds"), [
        (HOST_ARENA, "const auto number = static_cast<std::uint64_t>(update);", "const std::uint64_t number = 0;")]),
    "each rollout is shuffled alike": (ROLLOUT, [
        (HOST_ARENA, "base::RandomStream random(seed_, update,", "base::RandomStream random(seed_, 0 * update,")]),
    "a rollout's links are lost": (ROLLOUT, [(HOST_ARENA, "replay.restart(0, replay.appended());", "replay.restart(0, 0);")]),
    "a ring's rows come by slot": (
        Catch("test_replay", "all rows come oldest first, before the ring is full and after it went round"),
        [("src/replay/buffer.cpp", "(slots + next_).remainder_(capacity_)", "slots")]),
    "evaluations play without the mask": (EVALUATION, [(PERIODIC, "sight_of(s.o), false, s.o.mask_fatal};", "sight_of(s.o), false, false};")]),
    "evaluations of all seeds are the same": (EVALUATION, [
        (PERIODIC, "{s.o.eval_games, static_cast<std::uint64_t>(s.o.seed), true,", "{s.o.eval_games, 1, true,")]),
    "time before a second start does not count": (Catch("test_train", "time that a run has had counts when it goes on"), [
        (SESSION, "  start = counters;\n", "  start = counters;\n  start.seconds = 0;\n")]),
    "a job's counter is not kept": (COUNTERS, [("src/train/counters.cpp", "put(name, value);", 'if (name != "checks") put(name, value);')]),
    "two counters are swapped": (COUNTERS, [
        ("src/train/counters.cpp", 'visit("updates", c.updates);', 'visit("updates", c.empty_at);'),
        ("src/train/counters.cpp", 'visit("empty_at", c.empty_at);', 'visit("empty_at", c.updates);')]),
    "a second start judges its league again": (SECOND_START, [
        (RESUME, "  const nets::NamedTensors league = under", "  state.counters.jobs[\"judgements\"] = 0;\n  const nets::NamedTensors league = under")]),
    "a second start saves weights again": (SECOND_START, [
        (RESUME, "  const nets::NamedTensors league = under", "  state.counters.jobs[\"saved\"] = 0;\n  const nets::NamedTensors league = under")]),
    "damage is what rank 0 sees of it": (Pytest(
        "train/test_resume.py::test_damage_that_only_rank_1_sees_is_passed_over_by_all[rank_1.replay]"), [
        (RESUME, "if (all[rank].empty()) continue;", "if (rank > 0 || all[rank].empty()) continue;")]),
    "what cannot be read is damaged": (Pytest(
        "train/test_resume.py::test_what_cannot_be_read_is_no_damage[open-rank_0.replay-13]"), [
        (RESUME, "failure = {false, e.what()};", "failure = {true, e.what()};")]),
    "a checkpoint's windows are taken as they are": (
        Catch("test_rollout", "what waits for its n-th reward must be boards, and only what waits"), [
        ("src/rollout/collector_state.cpp", "for (std::int64_t k = 1; k <= size; ++k)",
         "for (std::int64_t k = 1; k <= 0 * size; ++k)")]),
    "a second start records a game too many": (SECOND_START, [
        ("src/train/recorder.cpp", "written_(collector.episodes_ended() / interval_)", "written_(0 * collector.episodes_ended())")]),
    "epsilon begins anew with other boards": (OTHER_BOARDS, [("src/rollout/collector_state.cpp", "  epsilon_ = count.epsilon;\n", "")]),
    "games are numbered anew with other boards": (OTHER_BOARDS, [
        ("src/rollout/collector_state.cpp", "  started_ = count.started;\n", "")]),
    "a league forgets its judgements": (RESTORED_LEAGUE, [
        (LEAGUE, "judgements_ = judgements.item<std::int64_t>();", "judgements_ = 0 * judgements.item<std::int64_t>();")]),
    "a league forgets who is hard": (RESTORED_LEAGUE, [
        (LEAGUE, "if (known.rival == member.rival) member = known;", "if (known.rival == member.rival) member.episode = known.episode;")]),
    "members are drawn evenly": (DRAWN, [(LEAGUE, "std::max(member.hardness, kLeastHardness)", "std::max(1.0, kLeastHardness)")]),
    "a mix and its league draw by one number": (DRAWN, [(LEAGUE, "base::Purpose::kRival).word[1]", "base::Purpose::kRival).word[0]")]),
    "members' wins are losses": (ORDER, [
        (LEAGUE, "names[k].second, r.wins, r.draws, r.losses", "names[k].second, r.losses, r.draws, r.wins")]),
    "a learner's wins are losses": (ORDER, [
        (LEAGUE, "{members_.size(), k, r.wins, r.draws, r.losses}", "{members_.size(), k, r.losses, r.draws, r.wins}")]),
    "a member is as hard as it is easy": (ORDER, [(LEAGUE, "hardness = 1 - points(r);", "hardness = points(r);")]),
    "the hardest member gives its place away": (FULL_LEAGUE, [(LEAGUE, "return a.hardness < b.hardness;", "return a.hardness > b.hardness;")]),
    "a frozen team sees the other side": (FROZEN, [
        (COLLECTOR, "options_.sight.write(boards_[frozen_boards_[k]], 1,", "options_.sight.write(boards_[frozen_boards_[k]], 0,")]),
    "a frozen team draws the other one's numbers": (FROZEN, [
        (COLLECTOR, "stream(b), step | kTeamB, base::Purpose::kAct);\n      for", "stream(b), step, base::Purpose::kAct);\n      for")]),
    "boards dealt anew go on with old steps": (
        Catch("test_rollout", "boards dealt anew forget the steps that waited for later rewards"),
        [("src/rollout/collector_state.cpp", "  std::fill(window_size_.begin(), window_size_.end(), 0);\n", "")]),
    "a second start loses the links of running games": (
        Catch("test_rollout", "a collector that goes on from a state plays the same games into the same replay"),
        [("src/rollout/collector_state.cpp", "last_row_[seat] = rows == kNoRow ? kNoRow : replay_.appended() - rows;",
          "last_row_[seat] = rows == kNoRow ? kNoRow : kNoRow;")]),
    "a learner must win more than it must": (
        Catch("test_train", "a learner enters with as many wins as it must have, and not with fewer"),
        [(LEAGUE, "win_rate() >= options_.entry;", "win_rate() > options_.entry;")]),
}


def fail(message):
    sys.exit(f"mutants: {message}")


def mutated(text, file, old, new):
    if text.count(old) != 1:
        fail(f"{file} has this {text.count(old)} times, not once; has the code moved on?\n{old}")
    return text.replace(old, new)


def faulty_files(edits, root):
    """{file: text with the fault}"""
    texts = {}
    for file, old, new in edits:
        texts[file] = mutated(texts.get(file, (root / file).read_text()), file, old, new)
    return texts


def copy_sources():
    """Copies what git knows; files that are the same keep their time, so that little is built again."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, capture_output=True).stdout.decode().split("\0")
    names = {name for name in listed if name and (ROOT / name).is_file() and not (ROOT / name).is_symlink()}
    for name in names:
        there = SOURCE / name
        if not there.exists() or there.read_bytes() != (ROOT / name).read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, there)
    for path in SOURCE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and str(path.relative_to(SOURCE)) not in names:
            path.unlink()


def quiet(command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)


def environment():
    tools = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": tools, "SD_BUILD_DIR": str(BUILD), "SD_SOURCE_DIR": str(SOURCE),
                         "PYTHONPATH": str(SOURCE / "tests"), "PYTHONDONTWRITEBYTECODE": "1"}


def build(targets):
    """What went wrong, or nothing."""
    jobs = os.environ.get("SNAKE_DDP_JOBS", str(os.cpu_count()))
    done = quiet(["ninja", "-C", BUILD, "-j", jobs, *sorted(targets)], env=environment())
    return "" if done.returncode == 0 else done.stdout[-3000:]


def passes(test):
    try:
        done = quiet(test.command(), env=environment(), timeout=TEST_LIMIT_S)
    except subprocess.TimeoutExpired:
        return False, f"no end within {TEST_LIMIT_S} s"
    return done.returncode == 0, done.stdout[-3000:]


def main():
    names = [word for word in sys.argv[1:] if word != "--check"] or list(MUTANTS)
    for name in names:
        if name not in MUTANTS:
            fail(f"no mutant {name!r}; there are:\n  " + "\n  ".join(MUTANTS))
        faulty_files(MUTANTS[name][1], ROOT)
    if "--check" in sys.argv:
        return 0

    copy_sources()
    tests = {MUTANTS[name][0] for name in names}
    configured = quiet(["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DSNAKE_DDP_MARCH=native",
                        f"-DPython3_EXECUTABLE={sys.executable}"], env=environment())
    if configured.returncode != 0:
        fail(f"cmake failed:\n{configured.stdout[-3000:]}")
    if problem := build({target for test in tests for target in test.targets()}):
        fail(f"the sources without any fault do not build:\n{problem}")
    for test in sorted(tests, key=str):  # a test that is red anyhow notices nothing
        good, output = passes(test)
        if not good:
            fail(f"red without any fault: {test}\n{output}")

    unnoticed = []
    print(f"{'fault':<44} {'noticed':<8} by")
    for name in names:
        test, edits = MUTANTS[name]
        before = {file: (SOURCE / file).read_text() for file, _, _ in edits}
        try:
            for file, text in faulty_files(edits, SOURCE).items():
                (SOURCE / file).write_text(text)
            if problem := build(test.targets()):
                fail(f"{name}: does not build, so it says nothing:\n{problem}")
            good, _ = passes(test)
        finally:
            for file, text in before.items():
                (SOURCE / file).write_text(text)
        if good:
            unnoticed.append(name)
        print(f"{name:<44} {'NO' if good else 'yes':<8} {test}", flush=True)
    print(f"{len(names) - len(unnoticed)} of {len(names)} faults noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
