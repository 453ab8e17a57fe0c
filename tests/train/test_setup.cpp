// Each setting changes what it is about in the rooms below, and nothing else there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dist/context.hpp"
#include "dist/ranks.hpp"
#include "learners/registry.hpp"
#include "other_value.hpp"
#include "periodic.hpp"
#include "pipeline.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/play/board_step.hpp"
#include "train/file_teams.hpp"
#include "train/plan.hpp"

namespace {

using namespace snake_ddp;
using train::TrainOptions;

// Place -> value as text.
using Places = std::map<std::string, std::string>;

constexpr int kRank = 5, kWorldSize = 9;
constexpr std::int64_t kMemory = 7;
constexpr std::int64_t kGames[] = {1, 20000, 40000, 49999, 60000};

// Structured bindings name every member: a new one does not compile here until it has a line. A learner's flags are listed.

void put_sight(Places& out, const std::string& where, const play::ObsSpec& s) {
  const auto& [kind, view_radius, tokens] = s;
  out[where + "kind"] = std::to_string(static_cast<int>(kind));
  out[where + "view_radius"] = fmt::format("{}", view_radius);
  out[where + "tokens"] = fmt::format("{}", tokens);
}

void put_learner(Places& out, learners::LearnerOptions options) {
  const auto put = [&](const std::string& name, const auto& value) {
    out["learner." + name] = fmt::format("{}", value);
  };
  for (const io::Field& field : options.all_fields()) put(field.name, io::value_text(field));
  put("algo", options.algo);
  put("features", options.features);
  put("backend", options.backend != nullptr);
  put("seed", options.seed);
  put("device", options.device.str());
}

void put_turn(Places& out, const play::StepRules& rules) {
  const auto& [obs_spec, reward, reward_scale, own_reward, rival_reward, random_low, gamma, mask_fatal,
               store_played, n_step, episode_length, seed] = rules;
  const auto put = [&](const char* name, const auto& value) {
    out[std::string("turn.") + name] = fmt::format("{}", value);
  };
  put_sight(out, "turn.sight.", obs_spec);
  put("reward", static_cast<int>(reward));
  put("reward_scale", reward_scale);
  put("own_reward", own_reward);
  put("rival_reward", rival_reward);
  put("random_low", random_low);
  put("gamma", gamma);
  put("mask_fatal", mask_fatal);
  put("store_played", store_played);
  put("n_step", n_step);
  put("episode_length", episode_length);
  put("seed", seed);
}

std::string text_of(const game::Rival& rival) {
  return rival.is_frozen() ? fmt::format("frozen{}", rival.frozen) : std::string(game::name(rival));
}

void put_collector(Places& out, const rollout::CollectorOptions& o) {
  const auto put = [&](const char* name, const auto& value) {
    out[std::string("collector.") + name] = fmt::format("{}", value);
  };
  put("num_envs", o.num_envs);
  put("epsilon", o.epsilon);
  put("epsilon_speed", o.epsilon_speed);
  put("epsilon_min", o.epsilon_min);
  put("memory", o.memory);
  put("watch", o.watch != nullptr);
  put("frozen", o.frozen != nullptr);
  std::string met;
  for (const std::int64_t game : kGames)
    met += text_of(o.rivals.empty() ? game::Rival{o.schedule.of(game)}
                                    : o.rivals[static_cast<std::size_t>(game) % o.rivals.size()]) +
           " ";
  put("opponents", met);
}

void put_league(Places& out, const train::LeagueOptions& options) {
  const auto& [scripted, files, places, games, entry, seed, obs_spec, head, mask_fatal, search, training,
               device] = options;
  const auto put = [&](const char* name, const auto& value) {
    out[std::string("league.") + name] = fmt::format("{}", value);
  };
  std::string who;
  for (const game::Opponent one : scripted) who += std::string(game::name(one)) + " ";
  put("scripted", who);
  put("files", files != nullptr);
  put("places", places);
  put("games", games);
  put("entry", entry);
  put("seed", seed);
  put_sight(out, "league.sight.", obs_spec);
  put("head", static_cast<int>(head));
  put("mask_fatal", mask_fatal);
  const auto& [rival_reward, reward_scale, gamma] = training;
  put("device", device.str());
  put("search",
      search ? fmt::format("{} {} {} {}", search->count, rival_reward, reward_scale, gamma) : "none");
}

Places everything_from(const TrainOptions& options) {
  static const dist::DistContext alone(dist::World{}, dist::Options{});
  const train::Plan o(options);
  Places out;
  put_learner(out, train::learner_options(o, at::Device(at::kCUDA, 3)));
  // A mix with a league but where the row is about the mix.
  TrainOptions mixed = options;
  if (o.opponent_mix.empty()) mixed.opponent_mix = "level4,league";
  const train::LeagueOptions league_options = train::league_options(train::Plan(mixed));
  put_league(out, league_options);
  const train::League league(league_options);
  const train::FileTeams files(o);
  const rollout::CollectorOptions collector = train::collector_options(o, kRank, league, files, kMemory);
  put_collector(out, collector);
  put_turn(out, collector);
  put_sight(out, "sight.", o.obs_spec);
  out["boards"] = train::boards_text(o);
  out["vote_interval"] = std::to_string(train::vote_interval(o));
  out["replay_capacity"] = std::to_string(train::replay_capacity(o));
  out["batches_per_epoch"] = std::to_string(train::batches_per_epoch(o));
  out["feed"] = fmt::format("rollouts {} windows {}", train::learns_from_rollouts(o),
                            o.learner.feed == learners::Feed::kWindows);
  out["threads"] = o.threads == 0 ? "a share" : std::to_string(dist::threads(o.threads, alone));
  return out;
}

// "seen.x" is all three sights, "turn.x" the rules of a turn.
Places spelled_out(const Places& expected) {
  Places out;
  for (const auto& [place, value] : expected) {
    const std::size_t dot = place.find('.');
    const std::string first = place.substr(0, dot), rest = dot == std::string::npos ? "" : place.substr(dot);
    if (first == "seen") {
      for (const char* where : {"sight", "turn.sight", "league.sight"}) out[where + rest] = value;
    } else {
      out[place] = value;
    }
  }
  return out;
}

struct Row {
  std::string name;
  void (*set)(TrainOptions&);  // this one to a value that is not its default
  Places changes;
  void (*given)(TrainOptions&) = [](TrainOptions&) {};
};

#define SD_SET(member, value) #member, [](TrainOptions & o) { o.member = value; }

const std::vector<Row>& rows() {
  const auto rollouts = [](TrainOptions& o) {
    o.algo = "pqn";
    o.batch_size = 16;
    o.num_envs = 4;
  };
  static const std::vector<Row> all = {
      // The learner.
      {SD_SET(algo, "pqn"),
       {{"learner.algo", "pqn"}, {"feed", "rollouts true windows false"}, {"replay_capacity", "1"}}},
      {SD_SET(output_activation, "tanh"),
       {{"learner.output_activation", "tanh"},
        {"turn.random_low", "-1"},
        {"league.head", std::to_string(static_cast<int>(nets::Head::kTanh))}}},
      // The boards.
      {SD_SET(episode_length, 60), {{"turn.episode_length", "60"}}},
      {SD_SET(gamma, 0.875), {{"turn.gamma", "0.875"}}},
      {SD_SET(n_step, 4), {{"turn.n_step", "4"}}},
      {SD_SET(reward, "2021"), {{"turn.reward", "0"}}},
      {SD_SET(reward_scale, 0.5), {{"turn.reward_scale", "0.5"}}},
      {SD_SET(own_reward, 0.625), {{"turn.own_reward", "0.625"}}},
      {SD_SET(rival_reward, 0.375), {{"turn.rival_reward", "0.375"}}},
      {SD_SET(epsilon, 0.125), {{"collector.epsilon", "0.125"}}},
      {SD_SET(epsilon_speed, 0.75), {{"collector.epsilon_speed", "0.75"}}},
      {SD_SET(epsilon_min, 0.0625), {{"collector.epsilon_min", "0.0625"}}},
      {SD_SET(expected_value, true), {{"turn.store_played", "true"}, {"learner.expected_value", "on"}}},
      {SD_SET(mask_fatal, true), {{"turn.mask_fatal", "true"}, {"league.mask_fatal", "true"}}},
      {SD_SET(num_envs, 8),
       {{"collector.num_envs", "8"}, {"vote_interval", "2"}, {"batches_per_epoch", "2"}}},
      {SD_SET(seed, 41), {{"learner.seed", "41"}, {"turn.seed", "46"}, {"league.seed", "41"}}},
      // What is seen.
      {SD_SET(obs, "26"), {{"seen.kind", "0"}, {"learner.features", "26"}}},
      {SD_SET(view_radius, 4), {{"seen.view_radius", "4"}}, [](TrainOptions& o) { o.obs = "window"; }},
      {SD_SET(tokens, "a folder"),
       {{"seen.tokens", "true"}},
       [](TrainOptions& o) { o.algo = "dqn", o.obs = "window"; }},
      // Opponents. By default level 0 below a tenth of 50,000 episodes, then 1, 2 below 0.6, 3 below 0.85, and 4.
      {SD_SET(max_episodes, 25000), {{"collector.opponents", "level0 level3 level4 level4 level4 "}}},
      {SD_SET(opponent_difficulty_strategy, "fixed:3"),
       {{"collector.opponents", "level3 level3 level3 level3 level3 "}}},
      {SD_SET(enable_opponent_evasion, true),
       {{"collector.opponents", "level0 level2 evasion evasion evasion "}}},
      {SD_SET(opponent_evasion_start_episode, 20000),
       {{"collector.opponents", "level0 evasion evasion evasion evasion "}},
       [](TrainOptions& o) { o.enable_opponent_evasion = true; }},
      {SD_SET(opponent_mix, "self"),
       {{"collector.opponents", "self self self self self "}, {"boards", "self 1"}, {"league.scripted", ""}}},
      {SD_SET(league_games, 333), {{"league.games", "333"}}},
      {SD_SET(league_win_rate, 0.25), {{"league.entry", "0.25"}}},
      // Batches and votes.
      {SD_SET(buffer_size, 777), {{"replay_capacity", "777"}}},
      {SD_SET(batch_size, 16), {{"batches_per_epoch", "2"}}},
      {SD_SET(updates_per_step, 4), {{"vote_interval", "5"}}},
      {SD_SET(rollout_steps, 64), {{"batches_per_epoch", "16"}}, rollouts},
      {SD_SET(rollout_epochs, 8), {{"vote_interval", "10"}}, rollouts},
      {SD_SET(threads, 61), {{"threads", "61"}}},
      // The run's own.
      {SD_SET(game_name, "other"), {}},
      {SD_SET(save_interval, 9), {}},
      {SD_SET(model_episode, 9), {}},
      {SD_SET(log_dir, "a note"), {}},
      {SD_SET(load_model, true), {}},
      {SD_SET(load_model_path, "elsewhere"), {}},
      {SD_SET(run_name, "a"), {}},
      {SD_SET(tags, "a,b"), {}},
      {SD_SET(step_axis, "env"), {}},
      {SD_SET(load_model_run, 9), {}},
      {SD_SET(load_model_run_episode, 9), {}},
      {SD_SET(local_rank, 9), {}},
      {SD_SET(runs_dir, "elsewhere"), {}},
      {SD_SET(device, "cuda"), {}},
      {SD_SET(boards, "device"), {}},
      {SD_SET(cuda_graph, "on"), {}},
      {SD_SET(products, "bf16"), {}},
      {SD_SET(dist_backend, "nccl"), {}},
      {SD_SET(dist_timeout, 9), {}},
      {SD_SET(join_timeout, 9), {}},
      {SD_SET(eval_interval, 9), {}},
      {SD_SET(eval_games, 9), {}},
      {SD_SET(eval_opponent, "evasion"), {}},
      {SD_SET(eval_search, "look3"),
       {{"league.search", "3 0.375 2 0.875"}},
       [](TrainOptions& o) { o.algo = "dqn", o.rival_reward = 0.375, o.reward_scale = 2, o.gamma = 0.875; }},
      {SD_SET(target_win_rate, 0.9), {}},
      {SD_SET(record_interval, 9), {}},
      {SD_SET(check_consistency, 9), {}},
      {SD_SET(log_every_episode, true), {}},
      {SD_SET(checkpoint_interval, 9), {}},
      {SD_SET(keep_checkpoints, 9), {}},
      {SD_SET(checkpoint_replay, "off"), {}},
      {SD_SET(resume, "never"), {}},
      {SD_SET(max_minutes, 9), {}},
      {SD_SET(total_steps, 9), {}},
      {SD_SET(lr_end, 0.25), {}},
      {SD_SET(local_updates, 50), {{"vote_interval", "50"}}},
      {SD_SET(local_updates, 50),  // a stop does not wait for rare updates
       {{"vote_interval", "200"}},
       [](TrainOptions& o) { o.updates_per_step = 0.01; }},
      {SD_SET(outer_momentum, 0.9), {}},
  };
  return all;
}

bool is_row(const std::string& name) {
  return std::any_of(rows().begin(), rows().end(), [&](const Row& row) { return row.name == name; });
}

nlohmann::ordered_json json_of(TrainOptions o) { return io::to_json(train::fields(o)); }

}  // namespace

TEST_CASE("each setting reaches its places in learner, boards and league, and no other", "[unit]") {
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    TrainOptions before;
    row.given(before);
    TrainOptions after = before;
    row.set(after);

    std::vector<std::string> set;
    const auto old_settings = json_of(before), new_settings = json_of(after);
    for (const auto& [name, value] : new_settings.items())
      if (value != old_settings.at(name)) set.push_back(name);
    CHECK(set == std::vector<std::string>{row.name});

    const Places old_places = everything_from(before), new_places = everything_from(after),
                 expected = spelled_out(row.changes);
    Places changed;
    for (const auto& [place, value] : new_places) {
      if (value != old_places.at(place)) changed[place] = value;
    }
    CHECK(changed == expected);
  }
}

TEST_CASE("a learner's flag reaches the learners that have it, and nothing else", "[unit]") {
  for (const learners::LearnerEntry& entry : learners::registry()) {
    for (const io::Field& flag : entry.flags()) {
      if (is_row(flag.name)) continue;
      CAPTURE(entry.name, flag.name);
      TrainOptions before, after;
      before.algo = after.algo = entry.name;
      for (const io::Field& field : train::fields(after))
        if (field.name == flag.name) io::set(field, other_value(field));
      const Places old_places = everything_from(before), new_places = everything_from(after);
      std::vector<std::string> changed;
      for (const auto& [place, value] : new_places)
        if (old_places.count(place) == 0 || value != old_places.at(place)) changed.push_back(place);
      CHECK(changed == std::vector<std::string>{"learner." + flag.name});
    }
  }
}

TEST_CASE("a flag that the learner does not use is at its default in what is made of it", "[unit]") {
  for (const learners::LearnerEntry& entry : learners::registry()) {
    CAPTURE(entry.name);
    TrainOptions before, after;
    before.algo = after.algo = entry.name;
    std::vector<std::string> unused;
    for (const io::Field& field : train::fields(after)) {
      if (io::is_used(field, entry.name)) continue;
      const std::map<std::string, std::string> words = {{"tokens", "a folder"}, {"eval_search", "look3"}};
      const auto word = words.find(field.name);
      io::set(field, word != words.end() ? io::Value(word->second) : other_value(field));
      unused.push_back(field.name);
    }
    CHECK(unused.size() > 5);
    // Of a team's sum of rewards it changes no more than the last bits, which earlier runs keep.
    TrainOptions same = before;
    same.own_reward = after.own_reward;
    CHECK(everything_from(same) == everything_from(after));
    CHECK(train::check_given(after, {"seed"}).empty());
    const std::vector<std::string> of_python = {"output_activation", "buffer_size", "tau", "a_lr"};
    for (const std::string& name : unused) {
      CAPTURE(name);
      if (std::count(of_python.begin(), of_python.end(), name) > 0)
        CHECK(train::check_given(after, {name}).size() == 1);
      else
        CHECK_THROWS_WITH(
            train::check_given(after, {name}),
            Catch::Contains("--" + name) && Catch::Contains("not apply to --algo " + entry.name));
      CHECK(train::check_given(before, {name}).empty());
    }
  }
}

TEST_CASE("a job's own interval reaches the job, and nothing else", "[unit]") {
  io::Values values;
  const io::Fields flags = train::job_flags(values);
  REQUIRE_FALSE(flags.empty());
  for (const io::Field& flag : flags) {
    CAPTURE(flag.name);
    const auto jobs = train::jobs();
    CHECK(std::count_if(jobs.begin(), jobs.end(),
                        [&](const train::Job& job) { return job.interval == flag.name; }) == 1);
    TrainOptions before, after;
    const io::Value changed = other_value(flag);
    for (const io::Field& field : train::fields(after))
      if (field.name == flag.name) io::set(field, changed);
    CHECK(json_of(after).at(flag.name) == std::get<std::int64_t>(changed));
    CHECK(json_of(before).at(flag.name) == std::get<std::int64_t>(io::value_of(flag)));
    CHECK(everything_from(before) == everything_from(after));
  }
}

TEST_CASE("every setting but a learner's or a job's own has a row in the test of where it goes", "[unit]") {
  std::set<std::string> known, of_others;
  for (const learners::LearnerEntry& entry : learners::registry())
    for (const io::Field& flag : entry.flags()) of_others.insert(flag.name);
  io::Values values;
  for (const io::Field& flag : train::job_flags(values)) of_others.insert(flag.name);
  TrainOptions options;
  for (const io::Field& field : train::fields(options)) {
    CAPTURE(field.name);
    known.insert(field.name);
    CHECK(is_row(field.name) + of_others.count(field.name) >= 1);
  }
  for (const Row& row : rows()) CHECK(known.count(row.name) == 1);
}

TEST_CASE("rank, world size, device and memory reach their places", "[unit]") {
  const Places p = everything_from(TrainOptions());
  CHECK(p.at("turn.seed") == "6");
  CHECK(p.at("turn.seed") == "6");
  CHECK(p.at("learner.seed") == "1");
  CHECK(p.at("league.seed") == "1");
  CHECK(p.at("learner.device") == "cuda:3");
  CHECK(p.at("collector.memory") == "7");
  CHECK(p.at("collector.watch") == "false");
  CHECK(p.at("collector.opponents") == "level0 level2 level3 level4 level4 ");
  CHECK(p.at("vote_interval") == "20");
  CHECK(p.at("feed") == "rollouts false windows false");
}

TEST_CASE("auto is what a machine does best: boards, recordings and products", "[unit]") {
  const at::Device gpu(at::kCUDA, 0);
  const train::Machine plain{at::kCPU, "gloo", false}, with_bf16{at::kCPU, "gloo", true},
      nccl{gpu, "nccl", false}, over_gloo{gpu, "gloo", true};
  const auto text = [](
                        const std::string& algo, const train::Machine& machine,
                        void (*change)(TrainOptions&) = [](TrainOptions&) {}) {
    TrainOptions o = train::usual_options(algo);
    o.algo = algo;
    o.num_envs = 128;
    change(o);
    return train::choices_text(o, train::chosen(o, machine));
  };
  CHECK(text("pqn_vdn", plain) == "--boards host --cuda_graph off --products float32");
  CHECK(text("pqn_vdn", with_bf16) == "--boards host --cuda_graph off --products bf16");
  CHECK(text("pqn_vdn", nccl) == "--boards device --cuda_graph on --products tf32");
  CHECK(text("pqn_vdn", over_gloo) == "--boards device --cuda_graph off --products tf32");
  CHECK(text("ddpg", with_bf16) == "--boards host --cuda_graph off --products float32");
  CHECK(text("bicnet", nccl) == "--boards device");
  CHECK(text("rqmix", nccl).empty());
  CHECK(text("dqn", nccl, [](TrainOptions& o) { o.num_envs = 1; }) ==
        "--boards host --cuda_graph on --products tf32");
  CHECK(text("dqn", nccl, [](TrainOptions& o) { o.record_interval = 10; }) ==
        "--boards host --cuda_graph on --products tf32");
  CHECK(text("dqn", nccl, [](TrainOptions& o) { o.local_updates = 8; }) ==
        "--boards device --cuda_graph off --products tf32");
  CHECK(text("dqn", nccl, [](TrainOptions& o) { o.boards = "host", o.products = "float32"; }) ==
        "--cuda_graph on");
}

TEST_CASE("learning rates fall to --lr_end over the episodes, however many boards play them", "[unit]") {
  TrainOptions o;
  o.lr_end = 0.25;
  o.max_episodes = 60;
  o.episode_length = 40;
  for (const std::int64_t boards : {1, 8}) {
    CAPTURE(boards);
    o.num_envs = boards;
    const std::int64_t all = o.max_episodes * o.episode_length / boards;  // steps of each board
    CHECK(train::rate_factor(train::Plan(o), 0, 0) == 1.0);
    CHECK(train::rate_factor(train::Plan(o), all / 4, 0) == Approx(0.8125));
    CHECK(train::rate_factor(train::Plan(o), all / 2, 0) == Approx(0.625));
    CHECK(train::rate_factor(train::Plan(o), all - 1, 0) > 0.25);
    CHECK(train::rate_factor(train::Plan(o), all, 0) == Approx(0.25));
    CHECK(train::rate_factor(train::Plan(o), 3 * all, 0) == Approx(0.25));
    TrainOptions by_steps = o;
    by_steps.total_steps = 4000;
    CHECK(train::rate_factor(train::Plan(by_steps), all, 2000) == Approx(0.625));
    CHECK(train::rate_factor(train::Plan(by_steps), 0, 5000) == Approx(0.25));
  }
}

TEST_CASE("a league has the mix's scripted opponents, or a default one, and exists only if the mix names it",
          "[unit]") {
  const auto scripted = [](const std::string& mix) {
    TrainOptions o;
    o.opponent_mix = mix;
    Places out;
    put_league(out, train::league_options(train::Plan(o)));
    return out.at("league.scripted");
  };
  CHECK(scripted("league:0.5,territory:0.2,self:0.2,level1:0.1") == "territory level1 ");
  CHECK(scripted("self,league") == "level2 ");
  CHECK(scripted("level1,self").empty());
  CHECK(scripted("").empty());
}

TEST_CASE(
    "boards have the mix's opponents; those of the league are drawn anew every 200 steps, and on each rank",
    "[unit]") {
  TrainOptions o;
  o.opponent_mix = "level1:0.3,self:0.2,league:0.5";
  o.seed = 17;
  o.num_envs = 40;
  train::LeagueOptions members = train::league_options(train::Plan(o));
  members.scripted = {game::Opponent::kLevel3, game::Opponent::kEvasion, game::Opponent::kLevel4};
  const train::League league(members);
  const train::Plan plan(o);
  CHECK(train::boards_text(plan) == "level1 12, self 8, league 20");
  std::set<std::string> league_met;
  int differ = 0;
  for (std::int64_t steps = 0; steps < 4000; steps += 20) {
    const std::vector<game::Rival> rivals = train::rivals_of(plan, 0, league, steps);
    REQUIRE(rivals.size() == 40);
    for (std::size_t b = 0; b < 20; ++b)
      REQUIRE(rivals[b] == (b < 12 ? game::Rival{game::Opponent::kLevel1} : game::Rival{}));
    // One that was drawn several times has its boards side by side.
    REQUIRE(std::is_sorted(rivals.begin() + 20, rivals.end(),
                           [](const auto& a, const auto& b) { return game::code_of(a) < game::code_of(b); }));
    for (std::size_t b = 20; b < 40; ++b) league_met.insert(text_of(rivals[b]));
    REQUIRE((rivals == train::rivals_of(plan, 0, league, steps / 200 * 200)));
    differ += rivals != train::rivals_of(plan, 1, league, steps);
  }
  CHECK(league_met == std::set<std::string>{"level3", "evasion", "level4"});
  CHECK(differ > 100);  // of 200
  o.opponent_mix = "";
  CHECK(train::rivals_of(train::Plan(o), 0, league, 0).empty());
  CHECK(train::boards_text(train::Plan(o)).empty());
}

TEST_CASE("settings that just fit together are accepted, the next ones refused", "[unit]") {
  struct Edge {
    std::string what;
    void (*fits)(TrainOptions&);
    void (*past)(TrainOptions&);
  };
  const Edge edges[] = {
      {"a batch of all that replay holds", [](TrainOptions& o) { o.buffer_size = o.batch_size = 50; },
       [](TrainOptions& o) { o.batch_size = 51, o.buffer_size = 50; }},
      {"a batch of a whole rollout",
       [](TrainOptions& o) { o.algo = "pqn", o.rollout_steps = 10, o.num_envs = 5, o.batch_size = 50; },
       [](TrainOptions& o) { o.algo = "pqn", o.rollout_steps = 10, o.num_envs = 5, o.batch_size = 51; }},
      {"a batch of one window",
       [](TrainOptions& o) { o.algo = "rqmix", o.sequence_length = o.batch_size = 20; },
       [](TrainOptions& o) { o.algo = "rqmix", o.sequence_length = 21, o.batch_size = 20; }},
      {"a window with one transition to learn from",
       [](TrainOptions& o) { o.algo = "rqmix", o.sequence_length = 8, o.burn_in = 7; },
       [](TrainOptions& o) { o.algo = "rqmix", o.sequence_length = 8, o.burn_in = 8; }},
      {"a ladder of one epsilon", [](TrainOptions& o) { o.epsilon_min = o.epsilon = 0.25; },
       [](TrainOptions& o) { o.epsilon_min = 0.26, o.epsilon = 0.25; }},
      {"the least radius", [](TrainOptions& o) { o.obs = "window", o.view_radius = 3; },
       [](TrainOptions& o) { o.obs = "window", o.view_radius = 2; }},
      {"a device's replay for one step",
       [](TrainOptions& o) { o.boards = "device", o.num_envs = 40, o.n_step = 5, o.buffer_size = 200; },
       [](TrainOptions& o) { o.boards = "device", o.num_envs = 40, o.n_step = 5, o.buffer_size = 199; }},
      {"a replay for one step of both teams in self-play, and of one against others",
       [](TrainOptions& o) {
         o.batch_size = 8, o.num_envs = 8, o.opponent_mix = "level2,self,league,file:a.pth",
         o.buffer_size = 10;
       },
       [](TrainOptions& o) {
         o.batch_size = 8, o.num_envs = 8, o.opponent_mix = "level2,self,league,file:a.pth",
         o.buffer_size = 9;
       }},
      {"a search for a league",
       [](TrainOptions& o) {
         o.algo = "dqn", o.reward = "score", o.eval_search = "look1", o.opponent_mix = "league";
       },
       [](TrainOptions& o) {
         o.algo = "dqn", o.reward = "score", o.eval_search = "look1", o.opponent_mix = "self";
       }},
      {"a search without a clock",
       [](TrainOptions& o) {
         o.algo = "vdn", o.reward = "score", o.eval_search = "puct9", o.eval_interval = 1;
       },
       [](TrainOptions& o) {
         o.algo = "vdn", o.reward = "score", o.eval_search = "puct@9ms", o.eval_interval = 1;
       }},
      {"a search over rewards that are points",
       [](TrainOptions& o) {
         o.algo = "dqn", o.reward = "score", o.eval_search = "look1", o.eval_interval = 1;
       },
       [](TrainOptions& o) { o.algo = "dqn", o.eval_search = "look1", o.eval_interval = 1; }},
      {"a target with evaluations", [](TrainOptions& o) { o.target_win_rate = 0.5, o.eval_interval = 1; },
       [](TrainOptions& o) { o.target_win_rate = 0.5; }},
  };
  for (const Edge& edge : edges) {
    CAPTURE(edge.what);
    TrainOptions fits, past;
    edge.fits(fits);
    edge.past(past);
    CHECK_NOTHROW(train::check_together(fits));
    CHECK_THROWS_AS(train::check_together(past), core::UsageError);
  }
}

TEST_CASE("seconds become milliseconds", "[unit]") {
  CHECK(dist::seconds_to_ms(0.1).count() == 100);
  CHECK(dist::seconds_to_ms(2.5).count() == 2500);
}
