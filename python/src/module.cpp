// The Python module: converts arguments and errors, releases the GIL, and calls boards.hpp and team.hpp. The package
// extends these classes in Python: see snake_ddp/boards.py and teams.py.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "boards.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/bounds.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "snake_ddp/game/mix.hpp"
#include "snake_ddp/game/position.hpp"
#include "team.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace snake_ddp::python {
namespace {

template <class... Properties>
using Given = nb::ndarray<nb::c_contig, nb::device::cpu, Properties...>;
template <class T>
using Made = nb::ndarray<nb::numpy, T, nb::c_contig, nb::device::cpu>;
using Floats = Given<const float>;

// ---- arguments -----------------------------------------------------------------------------------------------------

constexpr const char* kNothing = "none";

std::optional<game::ObsKind> obs_of(const std::string& name, bool or_nothing) {
  const auto kind = game::try_obs_kind(name);
  if (!kind && !(or_nothing && name == kNothing)) {
    throw core::UsageError(fmt::format("obs is \"{}\", not one of: {}{}", name,
                                       fmt::join(game::kObsKindNames, ", "), or_nothing ? ", none" : ""));
  }
  return kind;
}

game::RewardRule reward_of(const std::string& name) {
  if (const auto rule = game::try_reward_rule(name)) return *rule;
  throw core::UsageError(fmt::format("reward is \"{}\", not one of: 2021, v1_1, v1_2, score", name));
}

game::Mix mix_of(const std::string& text) {
  const auto refuse = [&] {
    return core::UsageError(
        fmt::format("opponent is \"{}\"; it can be one of {}; several of them by weight, such as "
                    "\"level2:0.7,territory:0.3\"; "
                    "\"none\"; or a Team",
                    text, fmt::join(game::opponent_names(), ", ")));
  };
  try {
    game::Mix mix = game::parse_mix(text);
    const bool scripted = std::all_of(mix.begin(), mix.end(), [](const game::Share& share) {
      return !share.league && share.rival.scripted;
    });
    if (mix.empty() || !scripted) throw refuse();
    return mix;
  } catch (const core::UsageError&) {  // its message is about a flag
    throw refuse();
  }
}

std::string shape_text(const nb::ndarray<>& array) {
  std::string text;
  for (std::size_t k = 0; k < array.ndim(); ++k)
    text += fmt::format("{}{}", k > 0 ? ", " : "", array.shape(k));
  return fmt::format("({}{})", text, array.ndim() == 1 ? "," : "");
}

std::string dtype_text(const nb::ndarray<>& array) {
  const nb::dlpack::dtype type = array.dtype();
  constexpr std::array<const char*, 7> kNames = {"int",    "uint",    "float", "object",
                                                 "bfloat", "complex", "bool"};
  const std::string name = type.code < kNames.size() ? kNames[type.code] : "unknown";
  return name == "bool" ? name : fmt::format("{}{}", name, type.bits);
}

bool is_c_contiguous(const nb::ndarray<>& array) {
  if (array.size() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t k = array.ndim(); k-- > 0;) {
    if (array.shape(k) > 1 && array.stride(k) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(k));
  }
  return true;
}

// Throws TypeError for another dtype, ValueError for another shape or order.
void check_array(const nb::ndarray<>& array, const char* what, std::initializer_list<nb::dlpack::dtype> types,
                 const char* types_text, std::initializer_list<std::size_t> shape) {
  if (array.device_type() != nb::device::cpu::value)
    throw nb::type_error(fmt::format("{}: not in main memory", what).c_str());
  if (std::find(types.begin(), types.end(), array.dtype()) == types.end()) {
    throw nb::type_error(fmt::format("{}: dtype is {}, not {}", what, dtype_text(array), types_text).c_str());
  }
  if (array.ndim() != shape.size() ||
      !std::equal(shape.begin(), shape.end(), array.shape_ptr(), [](auto a, auto b) {
        return static_cast<std::int64_t>(a) == static_cast<std::int64_t>(b);
      })) {
    std::string wanted;
    for (const std::size_t n : shape) wanted += fmt::format("{}{}", wanted.empty() ? "" : ", ", n);
    throw nb::value_error(fmt::format("{}: shape is {}, not ({}{})", what, shape_text(array), wanted,
                                      shape.size() == 1 ? "," : "")
                              .c_str());
  }
  if (!is_c_contiguous(array))
    throw nb::value_error(fmt::format("{}: not C-contiguous; use numpy.ascontiguousarray", what).c_str());
}

// ---- arrays for Python ---------------------------------------------------------------------------------------------

// A view of a batch's array, which owns the arrays but not the batch: otherwise the batch, which holds the view,
// would leak.
template <class T>
nb::object view(const std::shared_ptr<Arrays>& arrays, T* data, std::initializer_list<std::size_t> shape) {
  nb::capsule owner(new std::shared_ptr<Arrays>(arrays),
                    [](void* p) noexcept { delete static_cast<std::shared_ptr<Arrays>*>(p); });
  return nb::cast(Made<T>(data, shape.size(), shape.begin(), owner));
}

// An array with its own memory.
template <class T>
std::pair<T*, nb::object> fresh(std::initializer_list<std::size_t> shape) {
  std::size_t count = 1;
  for (const std::size_t n : shape) count *= n;
  T* const data = new T[std::max<std::size_t>(count, 1)]();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return {data, nb::cast(Made<T>(data, shape.size(), shape.begin(), owner))};
}

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

// ---- teams ---------------------------------------------------------------------------------------------------------

core::AlignedFloats copied(const Floats& from, std::int64_t wanted, const char* what) {
  SD_CHECK(static_cast<std::int64_t>(from.size()) == wanted, fmt::format("{}: {} floats", what, from.size()));
  return {from.data(), from.data() + from.size()};
}

play::ObsSpec sight_of(const std::string& obs, int view_radius) {
  return {*obs_of(obs, false), view_radius, false};
}

play::SearchSpec spec_of(const std::string& text) {
  const auto spec = play::try_spec(text);
  if (!spec)
    throw core::UsageError(fmt::format("\"{}\" is not a search; there are {}", text, play::kSpecForms));
  return *spec;
}

std::shared_ptr<Team> q_team(const std::string& obs, int view_radius, const std::vector<Floats>& weights,
                             const std::vector<Floats>& biases, const std::vector<Floats>& gains,
                             const std::vector<Floats>& shifts, std::int64_t hidden,
                             const std::optional<std::string>& search, double rival_reward,
                             double reward_scale, double gamma) {
  auto team = std::make_shared<Team>();
  team->obs_spec = sight_of(obs, view_radius);
  auto net = std::make_shared<play::QWeights>();
  net->features = team->obs_spec.features();
  net->hidden = hidden;
  SD_CHECK(weights.size() == 3 && biases.size() == 3 && gains.size() == shifts.size() &&
               (gains.empty() || gains.size() == 2),
           "three layers");
  for (std::size_t k = 0; k < 3; ++k) {
    const std::int64_t in = k == 0 ? net->features : hidden, out = k == 2 ? game::kMoves : hidden;
    net->layer[k].weight = copied(weights[k], in * out, "a weight");
    net->layer[k].bias = copied(biases[k], out, "a bias");
    if (k == 2 || gains.empty()) continue;
    net->layer[k].gain = copied(gains[k], out, "a norm's weight");
    net->layer[k].shift = copied(shifts[k], out, "a norm's bias");
  }
  play::fold_if_symmetric(*net, game::mirror_of(team->obs_spec.kind));
  if (search)
    team->search = std::make_shared<const play::Searcher>(
        play::Searcher{*net, {rival_reward, reward_scale, gamma}, spec_of(*search)});
  team->q_net = std::move(net);
  return team;
}

// Boards whose values are asked for at once: each call costs as much as the game of some boards.
constexpr std::size_t kBoardsPerCall = 1024;

// `function(observations [n, 6, features], states [n, bytes])` returns float32 [n, 6, 4].
play::Values called(const nb::callable& function, std::size_t features) {
  // Evaluators are copied and destroyed without the GIL.
  const std::shared_ptr<const nb::callable> kept(new nb::callable(function), [](const nb::callable* p) {
    const nb::gil_scoped_acquire acquire;
    delete p;
  });
  return [=](std::span<const game::State> boards, std::span<const std::size_t> places, const float* rows,
             float* q) {
    const nb::gil_scoped_acquire acquire;
    auto [seen, observations] = fresh<float>({places.size(), game::kSnakes, features});
    auto [bytes, states] = fresh<std::uint8_t>({places.size(), sizeof(game::State)});
    for (const std::size_t k : places) {
      for (int snake = 0; snake < game::kSnakes; ++snake, rows += features + 1)
        seen = std::copy_n(rows, features, seen);
      std::memcpy(bytes, &boards[k], sizeof(game::State));
      bytes += sizeof(game::State);
    }
    const auto values = nb::cast<Floats>((*kept)(observations, states));
    SD_CHECK(values.size() == places.size() * game::kSnakes * game::kMoves, "values of all moves");
    std::copy_n(values.data(), values.size(), q);
  };
}

std::shared_ptr<Team> team_of_values(const nb::callable& values, const std::optional<std::string>& search,
                                     const std::string& obs, double rival_reward, double reward_scale,
                                     double gamma) {
  auto team = std::make_shared<Team>();
  team->obs_spec = sight_of(obs, 0);
  play::SearchSpec spec;
  spec.kind = play::SearchSpec::Kind::kNone;
  if (search) spec = spec_of(*search);
  team->search =
      std::make_shared<const play::Searcher>(play::Searcher{{}, {rival_reward, reward_scale, gamma}, spec});
  team->values.emplace(called(values, count(team->obs_spec.features())), team->obs_spec,
                       team->search->training, kBoardsPerCall);
  return team;
}

std::shared_ptr<Team> actor_team(const std::string& obs, int view_radius, const std::string& head,
                                 const Floats& prev, const Floats& post0_weight, const Floats& post0_bias,
                                 const Floats& post2_weight, const Floats& post2_bias, bool argmax,
                                 bool mask_fatal) {
  auto team = std::make_shared<Team>();
  team->obs_spec = sight_of(obs, view_radius);
  team->argmax = argmax;
  team->mask_fatal = mask_fatal;
  if (head != "softmax" && head != "tanh")
    throw core::UsageError(fmt::format("head is \"{}\", not softmax or tanh", head));
  const std::int64_t features = team->obs_spec.features(),
                     hidden = static_cast<std::int64_t>(post0_bias.size());
  const core::AlignedFloats first = copied(prev, (features + 1) * hidden, "prev"),
                            second = copied(post0_weight, hidden * hidden, "post0_weight"),
                            bias = copied(post0_bias, hidden, "post0_bias");
  team->actor = std::make_shared<const Actor>(
      Actor{features, hidden, head == "tanh" ? nets::Head::kTanh : nets::Head::kSoftmax,
            folded(first, second, bias), copied(post2_weight, game::kMoves * hidden, "post2_weight"),
            copied(post2_bias, game::kMoves, "post2_bias")});
  return team;
}

// The moves of a network for these `observations`.
nb::object moves(const Team& team, const nb::ndarray<nb::ro>& observations_, const nb::ndarray<nb::ro>& open_,
                 std::uint64_t seed) {
  const nb::ndarray<> observations(observations_), open(open_);
  if (team.script)
    throw core::UsageError("a script sees boards, not observations: use moves_on with a batch's states");
  if (team.search)
    throw core::UsageError(
        fmt::format("a {} sees boards, not observations: use moves_on with a batch's states",
                    team.values ? "team of values" : "search"));
  const std::size_t n = observations.ndim() > 0 ? observations.shape(0) : 0,
                    features = count(team.obs_spec.features());
  check_array(observations, "observations", {nb::dtype<float>()}, "float32", {n, game::kTeamSize, features});
  check_array(open, "open_moves", {nb::dtype<bool>()}, "bool", {n, game::kTeamSize, game::kMoves});
  auto [out, array] = fresh<std::uint8_t>({n, game::kTeamSize});
  const auto* from = static_cast<const float*>(observations.data());
  const auto* may = static_cast<const std::uint8_t*>(open.data());
  const nb::gil_scoped_release release;
  Passes passes(team);
  for (std::size_t first = 0; first < n; first += Passes::kBoards) {
    const std::size_t boards = std::min<std::size_t>(Passes::kBoards, n - first);
    float* row = passes.rows();
    const float* seen = from;
    for (std::size_t k = 0; k < boards * game::kTeamSize; ++k, from += features) {
      std::copy_n(from, features, row);
      if (team.obs_spec.view_radius > 0) game::hide_far(team.obs_spec.view_radius, row);
      row += features;
      *row++ = 1.0F;
    }
    const float* values = passes.run(static_cast<std::int64_t>(boards));
    for (std::size_t k = first; k < first + boards; ++k) {
      const core::RandomBlock draw = core::random_block(seed, k, 0, core::Purpose::kAct);
      for (int snake = 0; snake < game::kTeamSize;
           ++snake, values += game::kMoves, may += game::kMoves, seen += features) {
        unsigned bits = 0;
        for (unsigned d = 0; d < game::kMoves; ++d) bits |= (may[d] != 0 ? 1U : 0U) << d;
        if (!team.avoids_fatal() || bits == 0) bits = play::kAllMoves;
        *out++ = move_of(team, game::up_in(team.obs_spec.kind, seen), values, bits, draw.word[snake]);
      }
    }
  }
  return array;
}

// Boards from untrusted bytes.
std::vector<game::State> checked_states(const void* bytes, std::size_t boards) {
  std::vector<game::State> states(boards);
  const auto* from = static_cast<const std::uint8_t*>(bytes);
  for (std::size_t b = 0; b < boards; ++b, from += sizeof(game::State)) {
    if (const std::string fault = game::fault_of_image(from); !fault.empty())
      throw core::UsageError(fmt::format("board {}: not a board of the game: {}", b, fault));
    std::memcpy(&states[b], from, sizeof(game::State));
  }
  return states;
}

nb::object moves_on(const std::shared_ptr<Team>& team, const nb::ndarray<nb::ro>& states_, int side,
                    std::uint64_t seed, std::int64_t first_game) {
  const nb::ndarray<> states(states_);
  const std::size_t n = states.ndim() > 0 ? states.shape(0) : 0;
  check_array(states, "states", {nb::dtype<std::uint8_t>()}, "uint8", {n, sizeof(game::State)});
  if (side != 0 && side != 1) throw core::UsageError(fmt::format("side is {}, not 0 or 1", side));
  if (first_game < 0) throw core::UsageError(fmt::format("first_game is {}, not 0 or more", first_game));
  auto [out, array] = fresh<std::uint8_t>({n, game::kTeamSize});
  const nb::gil_scoped_release release;
  const std::vector<game::State> boards = checked_states(states.data(), n);
  const std::vector<std::uint8_t> sides(n, static_cast<std::uint8_t>(side));
  std::vector<game::Actions> actions(n);
  act_in_blocks(*mover_of(team)(seed), boards, sides, first_game, actions);
  for (const game::Actions& a : actions)
    out = std::copy_n(a.of + side * game::kTeamSize, game::kTeamSize, out);
  return array;
}

nb::dict evaluate(const std::shared_ptr<Team>& a, const std::shared_ptr<Team>& b, std::int64_t games,
                  std::uint64_t seed, bool swap_sides) {
  if (games < 1) throw core::UsageError(fmt::format("games is {}, not 1 or more", games));
  play::MatchOptions options;
  options.games = games;
  options.seed = seed;
  options.swap_sides = swap_sides;
  bool interrupted = false;
  options.stop = [&] {
    const nb::gil_scoped_acquire acquire;
    interrupted = interrupted || PyErr_CheckSignals() != 0;
    return interrupted;
  };
  play::MatchResult r;
  double passed = 0.0;
  {
    const nb::gil_scoped_release release;
    const auto begin = std::chrono::steady_clock::now();
    r = play::play_match(mover_of(a), mover_of(b), options);
    passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  if (interrupted) throw nb::python_error();
  const play::Interval ci = play::wilson_interval(r.wins, r.games);
  nb::dict out;
  out["games"] = r.games;
  out["wins"] = r.wins;
  out["draws"] = r.draws;
  out["losses"] = r.losses;
  out["win_rate"] = r.win_rate();
  out["win_rate_ci95"] = nb::make_tuple(ci.low, ci.high);
  out["score_a"] = static_cast<double>(r.score_a) / static_cast<double>(r.games);
  out["score_b"] = static_cast<double>(r.score_b) / static_cast<double>(r.games);
  out["steps_per_second"] = static_cast<double>(r.steps) / passed;
  return out;
}

// ---- batches -------------------------------------------------------------------------------------------------------

void make_boards(Boards* place, std::int64_t num_boards, const std::string& obs, const std::string& reward,
                 const std::optional<std::string>& mix, const std::shared_ptr<Team>& team, int episode_length,
                 const std::string& autoreset, bool swap_sides, bool observe_both) {
  Options options;
  options.num_boards = num_boards;
  options.obs = obs_of(obs, true);
  options.reward = reward_of(reward);
  if (mix) options.mix = mix_of(*mix);
  options.team = team;
  options.episode_length = episode_length;
  options.autoreset = autoreset_of(autoreset);
  options.swap_sides = swap_sides;
  options.observe_both = observe_both;
  new (place) Boards(options);
}

void step(Boards& boards, const nb::ndarray<nb::ro>& actions_) {
  const nb::ndarray<> actions(actions_);
  check_array(actions, "actions",
              {nb::dtype<std::uint8_t>(), nb::dtype<std::int32_t>(), nb::dtype<std::int64_t>()},
              "uint8, int32 or int64", {count(boards.size()), count(boards.acting())});
  const nb::gil_scoped_release release;
  switch (actions.itemsize()) {
    case 1:
      return boards.step(static_cast<const std::uint8_t*>(actions.data()));
    case 4:
      return boards.step(static_cast<const std::int32_t*>(actions.data()));
    default:
      return boards.step(static_cast<const std::int64_t*>(actions.data()));
  }
}

void deal(Boards& boards, std::optional<std::uint64_t> seed, const std::optional<nb::ndarray<nb::ro>>& mask) {
  if (seed && mask)
    throw core::UsageError("a seed starts all boards over: reset with a seed or with a mask, not both");
  const bool* where = nullptr;
  if (mask) {
    const nb::ndarray<> array(*mask);
    check_array(array, "mask", {nb::dtype<bool>()}, "bool", {count(boards.size())});
    where = static_cast<const bool*>(array.data());
  }
  const nb::gil_scoped_release release;
  seed ? boards.start(*seed) : boards.start_new_games(where);
}

nb::object open_moves(const Boards& boards) {
  auto [out, array] = fresh<bool>({count(boards.size()), count(boards.acting()), game::kMoves});
  const nb::gil_scoped_release release;
  boards.open_moves(out);
  return array;
}

void write_to(Boards& boards, const nb::ndarray<>& observations, const nb::ndarray<>& rewards,
              const nb::ndarray<>& terminated, const nb::ndarray<>& truncated) {
  const std::size_t n = count(boards.size());
  check_array(observations, "observations", {nb::dtype<float>()}, "float32",
              {n, count(boards.seen()), count(boards.features())});
  check_array(rewards, "rewards", {nb::dtype<float>()}, "float32", {n, count(boards.acting())});
  check_array(terminated, "terminated", {nb::dtype<bool>()}, "bool", {n});
  check_array(truncated, "truncated", {nb::dtype<bool>()}, "bool", {n});
  boards.write_to({static_cast<float*>(observations.data()), static_cast<float*>(rewards.data()),
                   static_cast<bool*>(terminated.data()), static_cast<bool*>(truncated.data())});
}

template <class T>
nb::bytes bytes_of(const std::vector<T>& values) {
  return nb::bytes(values.data(), values.size() * sizeof(T));
}

nb::dict progress(const Boards& boards) {
  const Boards::Progress p = boards.progress();
  nb::dict out;
  out["dealt"] = p.dealt;
  out["seed"] = p.seed;
  out["started"] = p.started;
  out["finished"] = p.finished;
  out["games"] = bytes_of(p.games);
  out["numbers"] = bytes_of(p.numbers);
  out["states"] = bytes_of(p.states);
  out["scores"] = bytes_of(p.scores);
  out["rewards"] = bytes_of(p.rewards);
  out["terminated"] = bytes_of(p.terminated);
  out["truncated"] = bytes_of(p.truncated);
  return out;
}

template <class T>
T item(const nb::dict& from, const char* key) {
  T value{};
  if (!from.contains(key) || !nb::try_cast<T>(from[key], value))
    throw core::UsageError(
        fmt::format("not the state of a batch: \"{}\" is missing or of another type", key));
  return value;
}

template <class T>
std::vector<T> items(const nb::dict& from, const char* key) {
  const auto bytes = item<nb::bytes>(from, key);
  if (bytes.size() % sizeof(T) != 0)
    throw core::UsageError(
        fmt::format("not the state of a batch: \"{}\" has {}", key, core::counted(bytes.size(), "byte")));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy_n(bytes.c_str(), bytes.size(), reinterpret_cast<char*>(values.data()));
  return values;
}

void go_on(Boards& boards, const nb::dict& from) {
  Boards::Progress p;
  p.dealt = item<bool>(from, "dealt");
  p.seed = item<std::uint64_t>(from, "seed");
  p.started = item<std::int64_t>(from, "started");
  p.finished = item<std::int64_t>(from, "finished");
  p.games = items<std::uint32_t>(from, "games");
  p.numbers = items<std::int64_t>(from, "numbers");
  const auto states = items<std::uint8_t>(from, "states");
  if (p.dealt) p.states = checked_states(states.data(), states.size() / sizeof(game::State));
  p.states.resize(states.size() / sizeof(game::State));
  p.scores = items<std::int32_t>(from, "scores");
  p.rewards = items<float>(from, "rewards");
  p.terminated = items<std::uint8_t>(from, "terminated");
  p.truncated = items<std::uint8_t>(from, "truncated");
  boards.go_on(p);
}

// ---- the machine ---------------------------------------------------------------------------------------------------

std::string best_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? "v4" : v3 ? "v3" : "v2";
#else
  return SD_LEVEL;
#endif
}

}  // namespace

NB_MODULE(SD_MODULE, m) {
  m.doc() = "The compiled part of snake_ddp.";
  // A user's other libraries may keep a batch or a team until the process ends.
  nb::set_leak_warnings(std::getenv("SNAKE_DDP_LEAKS") != nullptr);
  m.def(
      "level", [] { return std::string(SD_LEVEL); },
      "The level of the instruction set that this module is compiled for.");
  m.def("best_level", &best_level, "The highest level of the instruction set that this machine has.");

  nb::object error = nb::exception<core::Error>(m, "Error");
  error.attr("__doc__") = "A bug in snake_ddp: please report it.";
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const core::UsageError& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    } catch (const core::FileError& e) {
      PyErr_SetString(PyExc_OSError, e.what());
    }
  });

  m.def("opponents", &game::opponent_names, "The names of the scripted opponents.");
  m.def(
      "obs_size", [](const std::string& obs) { return game::obs_size(*obs_of(obs, false)); }, "obs"_a,
      "How many features a snake sees: \"26\", \"30\", \"window\", \"view\", \"ahead\".\n\nThrows  "
      "ValueError for "
      "another name.");
  m.def(
      "bounds",
      [](const std::string& obs) {
        const game::Bounds b = game::feature_bounds(*obs_of(obs, false));
        auto [low, lows] = fresh<float>({b.low.size()});
        auto [high, highs] = fresh<float>({b.high.size()});
        std::copy(b.low.begin(), b.low.end(), low);
        std::copy(b.high.begin(), b.high.end(), high);
        return nb::make_tuple(lows, highs);
      },
      "obs"_a,
      nb::sig("def bounds(obs: str) -> tuple[numpy.typing.NDArray[numpy.float32], "
              "numpy.typing.NDArray[numpy.float32]]"),
      "The least and the greatest value of each feature.\n\nThrows  ValueError for an unknown name.");
  m.def(
      "mirror",
      [](const std::string& obs) {
        const auto [inputs, outputs] = game::mirror_of(*obs_of(obs, false));
        auto [of, ofs] = fresh<std::int64_t>({inputs.size()});
        auto [sign, signs] = fresh<float>({inputs.size()});
        auto [move, moves] = fresh<std::int64_t>({outputs.size()});
        for (const core::MirrorImage& image : inputs) *of++ = image.of, *sign++ = image.sign;
        for (const core::MirrorImage& image : outputs) *move++ = image.of;
        return nb::make_tuple(ofs, signs, moves);
      },
      "obs"_a,
      nb::sig("def mirror(obs: str) -> tuple[numpy.typing.NDArray[numpy.int64], "
              "numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.int64]]"),
      "Features and moves on a mirrored board, (of, signs, moves): signs[k] times feature of[k], and move "
      "moves[k].\n"
      "Empty if features name cells of the board.\n\nThrows  ValueError for another name.");

  nb::class_<Team>(m, "Team", "A team: snake_ddp.Team makes these.")
      .def_static(
          "scripted", [](const std::string& name) { return std::make_shared<Team>(scripted_team(name)); },
          "name"_a)
      .def_static("q_network", &q_team, "obs"_a, "view_radius"_a, "weights"_a, "biases"_a, "gains"_a,
                  "shifts"_a, "hidden"_a, "search"_a.none(), "rival_reward"_a, "reward_scale"_a, "gamma"_a)
      .def_static("actor", &actor_team, "obs"_a, "view_radius"_a, "head"_a, "prev"_a, "post0_weight"_a,
                  "post0_bias"_a, "post2_weight"_a, "post2_bias"_a, "argmax"_a, "mask_fatal"_a)
      .def_static("of_values", &team_of_values, "values"_a, "search"_a.none(), "obs"_a, "rival_reward"_a,
                  "reward_scale"_a, "gamma"_a)
      .def("moves", &moves, "observations"_a, "open_moves"_a, "seed"_a,
           nb::sig("def moves(self, observations: numpy.typing.NDArray[numpy.float32], "
                   "open_moves: numpy.typing.NDArray[numpy.bool_], seed: int) -> "
                   "numpy.typing.NDArray[numpy.uint8]"))
      .def_static(
          "moves_on", &moves_on, "team"_a, "states"_a, "side"_a, "seed"_a, "first_game"_a,
          nb::sig("def moves_on(team: Team, states: numpy.typing.NDArray[numpy.uint8], side: int, seed: int, "
                  "first_game: int) -> numpy.typing.NDArray[numpy.uint8]"));
  m.def("evaluate", &evaluate, "team_a"_a, "team_b"_a, "games"_a, "seed"_a, "swap_sides"_a,
        nb::sig("def evaluate(team_a: Team, team_b: Team, games: int, seed: int, swap_sides: bool) -> "
                "dict[str, typing.Any]"),
        "Plays a match: snake_ddp.evaluate wraps it.");

  nb::class_<Boards>(m, "Boards", "The base of snake_ddp.Boards.")
      .def("__init__", &make_boards, "num_boards"_a, "obs"_a, "reward"_a, "mix"_a.none(), "team"_a.none(),
           "episode_length"_a, "autoreset"_a, "swap_sides"_a, "observe_both"_a)
      .def_prop_ro("num_boards", &Boards::size, "Number of boards.")
      .def_prop_ro("acting", &Boards::acting, "Snakes that the caller moves: 3, or 6 without an opponent.")
      .def_prop_ro("seen", &Boards::seen, "Snakes whose observations are written: 3 or 6.")
      .def_prop_ro("features", &Boards::features, "Features of an observation.")
      .def_prop_ro("finished", &Boards::finished, "How many games ended in the latest step.")
      .def("step", &step, "actions"_a,
           nb::sig("def step(self, actions: numpy.typing.NDArray[numpy.uint8] | "
                   "numpy.typing.NDArray[numpy.int32] | "
                   "numpy.typing.NDArray[numpy.int64]) -> None"),
           "Moves on every board.\n\n"
           "Shapes   actions [num_boards, acting], C-contiguous, each 0 up, 1 down, 2 left, 3 right.\n"
           "Threads  the calling one, without the GIL.\n"
           "Throws   TypeError for another dtype; ValueError for another shape or order, for an action "
           "outside 0..3, and\n"
           "         with autoreset \"disabled\" for a board whose game has ended: then no board has moved. "
           "RuntimeError\n"
           "         before the first reset and while another thread is using the batch.")
      .def("open_moves", &open_moves, nb::sig("def open_moves(self) -> numpy.typing.NDArray[numpy.bool_]"),
           "The moves that are not certain death; all four if each one is.\n\n"
           "Shapes   returns [num_boards, acting, 4], a new array.")
      .def("picture", &Boards::picture, "board"_a,
           "A board as text: `o` beans, `A` to `F` heads, arrows towards the head.\n\n"
           "Throws   IndexError if there is no such board.")
      .def("hash", &Boards::hash, nb::call_guard<nb::gil_scoped_release>(),
           "A fingerprint of all boards: equal for equal boards, on every machine.")
      .def("_deal", &deal, "seed"_a.none(), "mask"_a.none(),
           nb::sig(
               "def _deal(self, seed: int | None, mask: numpy.typing.NDArray[numpy.bool_] | None) -> None"))
      .def("_write_to", &write_to, "observations"_a, "rewards"_a, "terminated"_a, "truncated"_a,
           nb::sig(
               "def _write_to(self, observations: numpy.typing.NDArray[numpy.float32], "
               "rewards: numpy.typing.NDArray[numpy.float32], terminated: numpy.typing.NDArray[numpy.bool_], "
               "truncated: numpy.typing.NDArray[numpy.bool_]) -> None"))
      .def("_progress", &progress, nb::sig("def _progress(self) -> dict[str, typing.Any]"))
      .def("_go_on", &go_on, "progress"_a,
           nb::sig("def _go_on(self, progress: dict[str, typing.Any]) -> None"))
      .def(
          "_arrays",
          [](const Boards& boards) {
            const std::shared_ptr<Arrays>& a = boards.arrays();
            const std::size_t n = count(boards.size()), seen = count(boards.seen()),
                              features = count(boards.features()), acting = count(boards.acting());
            nb::dict out;
            out["observations"] = view(a, a->observations.data(), {n, seen, features});
            out["final_observations"] = a->final_observations.empty()
                                            ? nb::none()
                                            : view(a, a->final_observations.data(), {n, seen, features});
            out["rewards"] = view(a, a->rewards.data(), {n, acting});
            out["terminated"] = view(a, a->terminated.get(), {n});
            out["truncated"] = view(a, a->truncated.get(), {n});
            out["states"] =
                view(a, reinterpret_cast<const std::uint8_t*>(a->states.data()), {n, sizeof(game::State)});
            out["scores"] = view(a, static_cast<const std::int32_t*>(a->scores.data()), {n, 2});
            out["sides"] = view(a, static_cast<const std::uint8_t*>(a->sides.data()), {n});
            return out;
          },
          nb::sig("def _arrays(self) -> dict[str, typing.Any]"));
}

}  // namespace snake_ddp::python
