// device_check: does this machine's GPU compute what the host computes, bit for bit, and how fast is it relative to
// its memory? A program without LibTorch, so that a machine with only a driver has the result within seconds.
//
//   device_check [--boards 65536] [--steps 450] [--device host] [--spoil all]
//
//   --device host   for tests: the device's part is done on the host, in another order
//   --spoil all     for tests: flips a bit of each array of the device before the comparison
//
// Exit code 0: all is equal, or there is no device. 1: something differs. 2: CUDA reports an error, or a usage error.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "../host_loops.hpp"
#include "work_arrays.hpp"

namespace {

using namespace snake_ddp;

struct Options {
  std::int64_t boards = 65'536, steps = 450;
  bool on_host = false, spoil = false;
} options;
int different = 0;

void check(cudaError_t error, const std::string& what) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(error)));
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (options.on_host) {
    memcpy(to, from, bytes);
  } else {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying");
  }
}

/// Arrays in main memory, or on the device.
struct Memory {
  struct Array {
    const char* name;
    void* begin;
    std::size_t bytes;
  };

  explicit Memory(bool device) : on_device(device && !options.on_host) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    for (const Array& array : arrays)
      on_device ? static_cast<void>(cudaFree(array.begin)) : free(array.begin);
  }

  template <class T>
  T* take(const char* name, std::int64_t count) {
    Array array{name, nullptr, static_cast<std::size_t>(count) * sizeof(T)};
    if (on_device) {
      check(cudaMalloc(&array.begin, array.bytes), fmt::format("{} bytes of the device", array.bytes));
    } else {
      array.begin = std::aligned_alloc(256, (array.bytes + 255) / 256 * 256);
      memset(array.begin, 0, array.bytes);
    }
    arrays.push_back(array);
    return static_cast<T*>(array.begin);
  }

  bool on_device;
  std::vector<Array> arrays;
};

/// The same work on both sides: `lay_out` prepares each one's memory.
template <class Part>
struct Both {
  template <class LayOut>
  explicit Both(const LayOut& lay_out) : host(lay_out(here)), device(lay_out(there)) {}

  void send() const {
    for (std::size_t k = 0; k < here.arrays.size(); ++k)
      copy(there.arrays[k].begin, here.arrays[k].begin, here.arrays[k].bytes);
  }

  template <class Make>
  void run(std::int64_t count, const Make& make) const {
    run_on_device(count, make(device));
    const HostGoes goes(on_all_cores);
    core::each_on_host(count, make(host));
  }

  template <class Work>
  static void run_on_device(std::int64_t count, const Work& work) {
    if (!options.on_host) return check(static_cast<cudaError_t>(launch(work, count, nullptr)), "a kernel");
    const HostGoes goes(shuffled);
    core::each_on_host(count, work);
  }

  void compare(const std::string& what) const {
    std::vector<std::string> differ;
    std::vector<std::uint8_t> fetched;
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < here.arrays.size(); ++k) {
      const auto& array = here.arrays[k];
      fetched.resize(array.bytes);
      copy(fetched.data(), there.arrays[k].begin, array.bytes);
      if (options.spoil) fetched[array.bytes / 2] ^= 1;
      if (memcmp(fetched.data(), array.begin, array.bytes) != 0) differ.emplace_back(array.name);
      bytes += array.bytes;
    }
    different += static_cast<int>(!differ.empty());
    fmt::print("{}, {:.1f} MB in {} arrays: {}\n", what, static_cast<double>(bytes) * 1e-6,
               here.arrays.size(),
               differ.empty() ? "equal" : fmt::format("DIFFERENT: {}", fmt::join(differ, ", ")));
  }

  Memory here{false}, there{true};
  Part host, device;
};

template <class Look>
void see(const Both<Games>& both, const Look& look) {
  if (both.host.f.best) {
    both.run(options.boards, [&](const Games& g) { return rollout::SeeView{look(g)}; });
  } else {
    both.run(options.boards, [&](const Games& g) { return rollout::SeePlain{look(g)}; });
  }
}

/// What a learner gets from a complete rollout.
void learn_from_rollout(const Both<Games>& both) {
  const std::int64_t seats = both.host.f.seats.count(), rows = both.host.f.rollout.steps * seats;
  both.run(seats, [](const Games& g) { return rollout::ExpectCut{g.f.rollout, g.f.rules, g.f.values}; });
  both.run(seats, [](const Games& g) {
    return rollout::ExpectLast{g.f.rollout, g.f.rules, g.f.boards, g.f.values};
  });
  both.run(seats, [](const Games& g) { return rollout::Returns{g.f.rollout, 0.65F}; });
  both.run(1, [](const Games& g) { return rollout::Begin{g.f.rollout}; });
  for (int batch = 0; batch < 4; ++batch) {
    both.run(rows / 3, [](const Games& g) { return g.take; });
    both.run(1, [](const Games& g) { return rollout::CountBatch{g.f.rollout}; });
  }
}

/// Games as training plays them, against everybody, into replay and out of it again, or into rollouts.
void compare_games(const char* what, const play::ObsSpec& obs_spec, std::int64_t rollout_steps = 0) {
  const std::int64_t boards = options.boards, selves = boards / 3;
  const Both<Games> both(
      [&](Memory& m) { return lay_out_games(m, obs_spec, boards, 4 * boards, selves, rollout_steps); });
  const rollout::BoardArrays& f = both.host.f;
  for (std::int64_t b = 0; b < boards; ++b) {
    const std::int64_t scripts = static_cast<std::int64_t>(game::kOpponents.size()), who = b % (scripts + 1);
    f.running[b * play::kFields + play::kOpponent] = b >= f.seats.first_self ? game::kSelfCode
                                                     : who == scripts        ? game::kFirstFrozenCode
                                                                             : who;
    rollout::start_game(f, b, b + 1);
  }
  *f.started = boards;
  *f.epsilon = 1;
  std::fill_n(filled(f.place), f.seats.count() + 1, 0.99);
  for (std::int64_t k = 0; k < f.seats.count() * play::kActionFloats; ++k)
    filled(f.values)[k] = static_cast<float>(k * 2'654'435'761 % 1009) / 1009.0F;
  both.send();
  for (std::int64_t t = 0; t < options.steps; ++t) {
    both.run(boards - selves, [](const Games& g) {
      return rollout::FrozenMoves{g.f, 0, g.f.values, g.f.best};
    });
    both.run(boards, [](const Games& g) { return rollout::TerritoryMoves{g.f}; });
    both.run(boards, [](const Games& g) { return rollout::PlayBoard{g.f}; });
    // Later work writes where the counts say, so they are compared first.
    std::vector<std::int64_t> counts(static_cast<std::size_t>(boards));
    copy(counts.data(), both.device.f.counts, counts.size() * sizeof counts[0]);
    if (!std::equal(counts.begin(), counts.end(), f.counts)) {
      fmt::print("{}: stopped at step {}\n", what, t + 1);
      break;
    }
    std::partial_sum(f.counts, f.counts + boards, filled(f.sums));
    copy(filled(both.device.f.sums), f.sums, counts.size() * sizeof counts[0]);
    if (f.best) {
      both.run(boards, [](const Games& g) { return rollout::SettleBoard<true>{g.f}; });
    } else {
      both.run(boards, [](const Games& g) { return rollout::SettleBoard<false>{g.f}; });
    }
    both.run(1, [](const Games& g) { return rollout::CountStep{g.f}; });
    if (rollout_steps > 0 && t % rollout_steps == rollout_steps - 1) learn_from_rollout(both);
  }
  see(both, [](const Games& g) { return g.seen; });
  if (rollout_steps == 0) both.run(boards, [](const Games& g) { return g.draw; });
  if (rollout_steps == 0 && f.best) see(both, [](const Games& g) { return g.drawn; });
  if (obs_spec.tokens) both.run(boards * play::kTeamSize, [](const Games& g) { return g.graphs; });
  both.compare(fmt::format("{}: {} boards, {} steps", what, boards, options.steps));
}

void compare_adam() {
  constexpr std::int64_t kParameters = 100'000;
  const Both<Adam> both([](Memory& m) { return lay_out_adam(m, kParameters); });
  const Adam& host = both.host;
  *filled(host.begin.squares) = 9.0F;
  *filled(host.begin.learning_rate) = 1e-3;
  for (std::int64_t i = 0; i < kParameters; ++i) {
    filled(host.step.gradient)[i] = std::sin(static_cast<float>(i));
    host.step.parameter[i] = host.step.target[i] = std::cos(static_cast<float>(i));
  }
  both.send();
  int apart = 0;
  for (int step = 0; step < 50; ++step) {
    both.run(1, [](const Adam& a) { return a.begin; });
    // Powers may differ in the last bit. The elements then start from the same scales.
    int there[3], here[3];
    copy(there, both.device.scales, sizeof there);
    memcpy(here, host.scales, sizeof here);
    for (int k = 0; k < 3; ++k) apart = std::max(apart, std::abs(there[k] - here[k]));
    copy(both.device.scales, host.scales, sizeof here);
    both.run(kParameters, [](const Adam& a) { return a.step; });
  }
  both.compare(fmt::format("Adam: 50 steps, scales at most {} units in the last place apart", apart));
  different += apart > 1;
}

/// Seconds of one call, without the first.
template <class Call>
double seconds_of(const Call& call) {
  const auto time = [&](int times) {
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < times; ++k) call();
    if (!options.on_host) check(cudaDeviceSynchronize(), "a measurement");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
  };
  time(1);
  return time(20);
}

void measure(std::int64_t boards) {
  Memory memory(true);
  auto* const states = memory.take<game::State>("boards", boards);
  auto* const others = memory.take<game::State>("others", boards);
  auto* const games = memory.take<std::uint32_t>("games", boards);
  const play::ObsSpec plain{game::ObsKind::k30}, view{game::ObsKind::kView};
  auto* const out = memory.take<float>("seen", boards * play::kTeamSize * (view.features() + 1));
  std::vector<game::State> states_of_games(static_cast<std::size_t>(boards));
  for (std::int64_t b = 0; b < boards; ++b) {
    game::PhiloxChance chance(1, play::stream_of(b, 0));
    game::reset(states_of_games[static_cast<std::size_t>(b)], chance);
  }
  const std::size_t bytes = states_of_games.size() * sizeof(game::State);
  copy(states, states_of_games.data(), bytes);
  copy(games, std::vector<std::uint32_t>(states_of_games.size()).data(),
       states_of_games.size() * sizeof *games);
  const auto run = [&](const auto& work) { Both<Games>::run_on_device(boards, work); };
  const double all = static_cast<double>(boards), line = 2 * static_cast<double>(bytes) / all,
               moved = seconds_of([&] { copy(others, states, bytes); });
  fmt::print("{} boards: memory {:.3g} GB/s", boards, line * all / moved * 1e-9);
  const auto report = [&](const char* what, double seconds, double bytes_of_a_board) {
    fmt::print("; {} {:.3g}/s, {:.2g} of the memory's", what, all / seconds,
               bytes_of_a_board / line * moved / seconds);
  };
  const auto row = [](const play::ObsSpec& obs_spec) {
    return static_cast<double>(play::kTeamSize * (obs_spec.features() + 1)) * sizeof(float);
  };
  report("steps", seconds_of([&] { run(rollout::RandomBoard{states, games, 1}); }), line);
  report("30 features", seconds_of([&] {
           run(rollout::SeePlain{{plain, states, nullptr, out}});
         }),
         line / 2 + row(plain));
  report("views", seconds_of([&] {
           run(rollout::SeeView{{view, states, nullptr, out}});
         }),
         line / 2 + row(view));
  fmt::print("\n");
}

/// Whether there is a device to compare. Prints which, or why not.
bool find_device() {
  int driver = 0, devices = 0;
  check(cudaDriverGetVersion(&driver), "the driver's version");
  const cudaError_t found = driver == 0 ? cudaErrorNoDevice : cudaGetDeviceCount(&devices);
  if (found == cudaErrorNoDevice || (found == cudaSuccess && devices == 0)) {
    fmt::print("no device{}\n", driver == 0 ? ": no NVIDIA driver responds" : "");
    return false;
  }
  check(found, "looking for devices");
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, 0), "the device's properties");
  fmt::print("{}, compute capability {}.{}, {} MiB, driver for CUDA {}.{}\n", p.name, p.major, p.minor,
             p.totalGlobalMem >> 20, driver / 1000, driver % 1000 / 10);
  return true;
}

void read_arguments(int argc, char** argv) {
  const auto number = [](const char* text) {
    const std::int64_t value = std::atoll(text);
    if (value < 1) throw std::runtime_error(fmt::format("\"{}\" is not a number above 0", text));
    return value;
  };
  for (int k = 1; k < argc; k += 2) {
    const std::string flag = argv[k], value = k + 1 < argc ? argv[k + 1] : "";
    if (flag == "--boards") {
      options.boards = number(value.c_str());
    } else if (flag == "--steps") {
      options.steps = number(value.c_str());
    } else if (flag == "--device" && value == "host") {
      options.on_host = true;
    } else if (flag == "--spoil" && value == "all") {
      options.spoil = true;
    } else {
      throw std::runtime_error(fmt::format(
          "\"{} {}\": the flags are --boards N, --steps N, --device host, --spoil all", flag, value));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    read_arguments(argc, argv);
    if (!options.on_host && !find_device()) return 0;
    using game::ObsKind;
    compare_games("26 features", {ObsKind::k26});
    compare_games("30 features", {ObsKind::k30});
    compare_games("a window with the board", {ObsKind::kWindow, 3, true});
    compare_games("the view", {ObsKind::kView});
    compare_games("the view with the heading up", {ObsKind::kAhead});
    compare_games("rollouts", {ObsKind::kAhead}, 16);
    compare_adam();
    for (const std::int64_t times : {1, 16})
      if (different == 0) measure(times * options.boards);
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_check: {}\n", error.what());
    return 2;
  }
  fmt::print("{}\n", different == 0 ? "all equal" : fmt::format("{} of 7 parts differ", different));
  return different == 0 ? 0 : 1;
}
