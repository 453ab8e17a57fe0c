// A small worker that drives the dist room for test_dist.py: `dist_probe SCENARIO [options]`. It handles errors as
// main does: message on stderr, error file, exit code.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "dist/context.hpp"
#include "dist/error_file.hpp"
#include "dist/self_launch.hpp"
#include "dist/watchdog.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/run_signals.hpp"

namespace {

using namespace snake_ddp;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

std::atomic<int> stop_signals{0};  // set by a handler, read by the watchdog's thread

struct Arguments {
  std::string scenario = "world";
  dist::Options options;
  int victim = -1;     // the rank that something happens to
  std::string folder;  // where each rank writes its process number
  long values = 1000;  // in each all-reduce of for-ever
  int launch = 0;      // > 0: start that many ranks first
  dist::LaunchLimits limits{.kill_after = 2s};
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  a.options.fingerprint = "probe";
  const std::map<std::string, std::function<void(const std::string&)>> flags = {
      {"--timeout_ms", [&](const std::string& v) { a.options.timeout = milliseconds(std::stol(v)); }},
      {"--join_timeout_ms",
       [&](const std::string& v) { a.options.join_timeout = milliseconds(std::stol(v)); }},
      {"--backend", [&](const std::string& v) { a.options.backend = v; }},
      {"--device", [&](const std::string& v) { a.options.device = v; }},
      {"--fingerprint", [&](const std::string& v) { a.options.fingerprint = v; }},
      {"--shared_memory", [&](const std::string& v) { a.options.shared_memory = v == "on"; }},
      {"--victim", [&](const std::string& v) { a.victim = std::stoi(v); }},
      {"--folder", [&](const std::string& v) { a.folder = v; }},
      {"--values", [&](const std::string& v) { a.values = std::stol(v); }},
      {"--launch", [&](const std::string& v) { a.launch = std::stoi(v); }},
      {"--kill_after_ms", [&](const std::string& v) { a.limits.kill_after = milliseconds(std::stol(v)); }},
      {"--suspended_after_ms",
       [&](const std::string& v) { a.limits.suspended_after = milliseconds(std::stol(v)); }},
      {"--finish_within_ms",
       [&](const std::string& v) { a.limits.finish_within = milliseconds(std::stol(v)); }},
  };
  for (int i = 1; i < argc; ++i) {
    const auto flag = flags.find(argv[i]);
    if (flag == flags.end())
      a.scenario = argv[i];
    else if (++i < argc)
      flag->second(argv[i]);
  }
  return a;
}

void write_pid(const Arguments& a, int rank, const std::string& kind = "pid") {
  if (a.folder.empty()) return;
  const std::string path = fmt::format("{}/{}.{}", a.folder, kind, rank);
  std::ofstream(path + ".part") << ::getpid() << "\n";
  std::rename((path + ".part").c_str(), path.c_str());
}

// Every collective once, checked against values worked out by hand.
void run_collectives(dist::DistContext& group) {
  const int n = group.size();
  at::Tensor sum = at::arange(1000, at::kFloat) + static_cast<double>(group.rank());
  group.all_reduce_sum(sum, group.deadline());
  SD_CHECK(at::equal(sum, at::arange(1000, at::kFloat) * n + n * (n - 1) / 2.0), "sum");
  at::Tensor whole = at::full({3}, group.rank() + 1, at::kLong);
  group.all_reduce_sum(whole, group.deadline());
  SD_CHECK(at::equal(whole, at::full({3}, n * (n + 1) / 2, at::kLong)), "sum of whole numbers");
  at::Tensor mean = at::full({7}, static_cast<double>(group.rank()), at::kDouble);
  group.all_reduce_mean(mean, group.deadline());
  SD_CHECK(at::equal(mean, at::full({7}, (n - 1) / 2.0, at::kDouble)), "mean");
  for (int root = 0; root < n; ++root) {
    at::Tensor t = at::full({2, 2}, static_cast<double>(group.rank()), at::kFloat);
    group.broadcast(t, root, group.deadline());
    SD_CHECK(at::equal(t, at::full({2, 2}, static_cast<double>(root), at::kFloat)), "broadcast");
  }
  // Awkward values: does their mean have the same bits on every rank?
  at::Tensor noise = at::sin(at::arange(100'003, at::kFloat) * (group.rank() + 1.7)) * 1e3;
  group.all_reduce_mean(noise, group.deadline());
  group.check_same("the noise", std::string(static_cast<const char*>(noise.const_data_ptr()), noise.nbytes()),
                   group.deadline());
  group.barrier("middle", group.deadline());
  // Records of different lengths, one empty, with bytes that are no text.
  const std::string record(static_cast<std::size_t>(group.rank()) * 3, static_cast<char>(group.rank()));
  const std::vector<std::string> records = group.gather(record, group.deadline());
  SD_CHECK(records.size() == (group.is_main() ? static_cast<std::size_t>(n) : 0U), "gather");
  for (std::size_t r = 0; r < records.size(); ++r)
    SD_CHECK(records[r] == std::string(r * 3, static_cast<char>(r)), "gathered record");
  SD_CHECK(group.broadcast_text(group.is_main() ? "from\nmain" : "ignored", group.deadline()) == "from\nmain",
           "text");
  SD_CHECK(group.broadcast_text("", group.deadline()).empty(), "empty text");
  group.check_same("the configuration", "equal", group.deadline());
  SD_CHECK(group.hosts().size() == static_cast<std::size_t>(n), "hosts");
  group.barrier("end", group.deadline());
  std::printf("rank %d of %d backend %s local %d/%d fine\n", group.rank(), n, group.backend().c_str(),
              group.local_rank(), group.local_size());
}

// All-reduces until something happens to a rank.
void run_for_ever(dist::DistContext& group, const Arguments& a) {
  at::Tensor t = at::ones({a.values}, at::kFloat);
  for (long step = 0;; ++step) {
    group.all_reduce_mean(t, group.deadline());
    if (step == 20) write_pid(a, group.rank(), "busy");
    std::this_thread::sleep_for(2ms);
  }
}

int stopped_early(dist::DistContext& group, const Arguments& a) {
  write_pid(a, group.rank(), "busy");
  at::Tensor stop = at::zeros({1}, at::kFloat);
  while (stop.item<float>() == 0) {
    stop.fill_(stop_signals != 0 ? 1.0 : 0.0);
    group.all_reduce_sum(stop, group.deadline());
    std::this_thread::sleep_for(2ms);
  }
  return core::kExitResumable;
}

int run(const Arguments& a, int argc, char** argv) {
  if (a.launch > 0 && std::getenv("RANK") == nullptr)
    return dist::launch_local_ranks(a.launch, {argv, argv + argc}, a.limits);
  const dist::World world = dist::this_world();
  const bool here = world.rank == a.victim;
  write_pid(a, world.rank);
  if (a.scenario == "world") {
    std::printf("rank %d/%d local %d/%d restart %d agent %d master %s:%d\n", world.rank, world.size,
                world.local_rank, world.local_size, world.restart_count, world.agent_store,
                world.master_addr.c_str(), world.master_port);
    return 0;
  }
  if (a.scenario == "deaf" || a.scenario == "deaf-stop") {  // ranks that no SIGTERM ends
    if (here && a.scenario == "deaf-stop") return core::kExitResumable;
    if (here) throw core::FileError("the victim cannot read");
    std::this_thread::sleep_for(60s);
  }
  if (a.scenario == "late") {  // the victim is done; rank 0 prints slowly, the others never end
    if (here) return core::kExitDone;
    std::this_thread::sleep_for(world.rank == 0 ? 2s : 60s);
    std::printf("rank %d has printed\n", world.rank);
    return core::kExitDone;
  }
  dist::DistContext group(world, a.options);
  if (a.scenario == "collectives") run_collectives(group);
  if (a.scenario == "for-ever") run_for_ever(group, a);
  if (a.scenario == "stop") return stopped_early(group, a);
  if (a.scenario == "throws") {
    if (here) throw core::FileError("the disk is full, says the victim");
    run_for_ever(group, a);
  }
  if (a.scenario == "fails-once") {
    run_collectives(group);
    if (world.restart_count == 0 && here) throw core::DistError("failing once");
    if (world.restart_count == 0) run_for_ever(group, a);
  }
  if (a.scenario == "differs") group.check_same("the seed", here ? "8" : "7", group.deadline());
  if (a.scenario == "other-size") {
    at::Tensor t = at::ones({here ? 10 : 1000}, at::kFloat);
    group.all_reduce_sum(t, group.deadline());
    group.barrier("after the sum", group.deadline());
  }
  if (a.scenario == "other-call") {
    if (here) group.barrier("of the victim", group.deadline());
    at::Tensor t = at::ones({10}, at::kFloat);
    group.all_reduce_sum(t, group.deadline());
  }
  if (a.scenario ==
      "stop-watch") {  // the victim waits for the others, which work until a rank gets a stop request
    const dist::StopWatch watch = group.watch_for_stop([] { return stop_signals != 0; });
    write_pid(a, group.rank(), "busy");
    while (!here && !watch.stops()) std::this_thread::sleep_for(2ms);
    group.barrier("after the work", group.deadline());
    return core::kExitResumable;
  }
  if (a.scenario == "stuck") {
    const dist::Watchdog watchdog(group.rank(), {.step = a.options.timeout, .stop = 1s},
                                  [] { return stop_signals != 0; });
    write_pid(a, group.rank(), "busy");
    std::this_thread::sleep_for(60s);
  }
  if (a.scenario == "waits-longer") {
    dist::Watchdog watchdog(group.rank(), {.step = a.options.timeout, .stop = 1s});
    watchdog.tick("a long wait", 600s);
    std::this_thread::sleep_for(3 * a.options.timeout);
  }
  return core::kExitDone;
}

}  // namespace

int main(int argc, char** argv) {
  dist::install_failure_handlers();
  dist::end_with_torchrun();
  // As in training: a stop signal sets a flag that is checked between steps.
  for (const int s : {SIGTERM, SIGINT, SIGUSR1}) std::signal(s, [](int) { ++stop_signals; });
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has ended is an error of the call
  core::release_run_signals();
  const Arguments a = parse(argc, argv);
  if (a.scenario == "segfault") std::raise(SIGSEGV);
  if (a.scenario == "thread-throws")
    std::thread([] { throw core::DistError("thrown in a thread: ä\n\"quoted\""); }).join();
  try {
    return run(a, argc, argv);
  } catch (const core::Error& error) {
    const auto* lost = dynamic_cast<const core::DistError*>(&error);
    std::fprintf(stderr, "%s\n", error.what());
    dist::write_error_file(error.what(), error.exit_code(), lost != nullptr && lost->peer_only);
    return error.exit_code();
  }
}
