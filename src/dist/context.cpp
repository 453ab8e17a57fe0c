#include "dist/context.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

#include "connect.hpp"
#include "dist/watchdog.hpp"
#include "rendezvous.hpp"
#include "shared_sum.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/deadline.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/core/wait.hpp"

namespace snake_ddp::dist {
namespace {

// Runs `work` on a thread of its own and waits for it.
// Owner    `work` must own all it touches: after a false return its thread is still inside the call.
// Returns  false if `deadline` passed first, or `give_up`, called ten times a second, returned true.
// Throws   what `work` throws.
template <typename Work, typename GiveUp>
bool finishes_by(core::Deadline deadline, Work work, GiveUp give_up) {
  constexpr std::chrono::milliseconds kLook{100};
  auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
  std::future<void> result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  while (result.wait_for(std::min(kLook, deadline.left())) != std::future_status::ready) {
    if (deadline.passed() || give_up()) return false;
  }
  result.get();
  return true;
}

template <typename Work>
bool finishes_by(core::Deadline deadline, Work work) {
  return finishes_by(deadline, std::move(work), [] { return false; });
}

using core::Deadline;
using core::DistError;
using core::UsageError;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kNap{10};
constexpr milliseconds kMoment{1'500};      // a guard's extra time, so that the guarded wait reports first
constexpr milliseconds kFarewell{10'000};   // for the others to leave after this rank has
constexpr milliseconds kStopsAfter{5'000};  // ranks that meet in this time can still stop together
constexpr milliseconds kStopLook{250};      // between two checks whether another rank stops
constexpr milliseconds kLongest{24 * 3'600'000};  // the libraries count nanoseconds in places

// Keys in the group's own corner of the store.
const std::string kLost = "lost/";      // + rank: the call that failed
const std::string kLeft = "left/";      // + rank: "in order" or "after an error"
const std::string kGone = "gone/";      // + rank: it needs the store no more
const std::string kStop = "stop";       // a rank was asked to stop
const std::string kMemory = "memory/";  // + the first rank of a machine: its segment's address, or nothing

double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

milliseconds usable(milliseconds span) { return std::clamp(span, milliseconds(1), kLongest); }

// A library's text on one line, without its stack trace.
std::string brief(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr std::size_t kEnough = 300;
  return text.size() > kEnough ? text.substr(0, kEnough) + " ..." : text;
}

std::string describe(const Hello& member) {
  if (member.host != core::host_name()) return member.describe();
  return fmt::format("{}, which {}", member.describe(), process_state(member.pid));
}

std::string describe(const at::Tensor& t) {
  return core::counted(t.numel(), fmt::format("{} value", c10::toString(t.scalar_type())));
}

#ifdef SD_HAVE_CUDA
const char* nccl_failure(c10d::ErrorType error) {
  switch (error) {
    case c10d::ErrorType::TIMEOUT:
      return "took longer than --dist_timeout";
    case c10d::ErrorType::REMOTE_ERROR:
      return "failed on another rank";
    default:
      return "failed";
  }
}
#endif

// What the survivors of a failed call learn from each other.
struct Findings {
  std::vector<int> lost;
  std::string text;
};

// Reports to the others that this rank's call failed, and learns which of them are still there.
Findings hear_survivors(c10d::Store& store, const std::vector<Hello>& members, int rank,
                        const std::string& call, milliseconds patience) {
  store.set(kLost + std::to_string(rank), call);
  const Deadline deadline = Deadline::in(patience);
  std::map<int, std::string> reports{{rank, call}};
  std::map<int, std::string> leavers;
  const int size = static_cast<int>(members.size());
  while (static_cast<int>(reports.size() + leavers.size()) < size && !deadline.passed()) {
    std::this_thread::sleep_for(kNap);
    for (int r = 0; r < size; ++r) {
      if (reports.contains(r) || leavers.contains(r)) continue;
      const std::string number = std::to_string(r);
      if (store.check({kLost + number}))
        reports[r] = store.get_to_str(kLost + number);
      else if (store.check({kLeft + number}))
        leavers[r] = store.get_to_str(kLeft + number);
    }
  }
  Findings f;
  std::vector<std::string> parts;
  for (const Hello& m : members) {
    if (leavers.contains(m.rank))
      parts.push_back(fmt::format("{} had already left {}", m.describe(), leavers[m.rank]));
    else if (!reports.contains(m.rank))
      parts.push_back(fmt::format("no word from {}", describe(m)));
    else if (reports[m.rank] != call)
      parts.push_back(fmt::format("{} was in {}", m.describe(), reports[m.rank]));
    if (!reports.contains(m.rank)) f.lost.push_back(m.rank);
  }
  f.text = parts.empty() ? "every rank is alive and in the same call: check the network between the hosts"
                         : fmt::format("{}", fmt::join(parts, "; "));
  return f;
}

c10d::AllreduceOptions all_reduce_options(milliseconds limit) {
  c10d::AllreduceOptions options;
  options.timeout = limit;
  options.asyncOp = false;
  return options;
}

void await_keys(c10d::Store& store, const std::string& prefix, const std::vector<int>& ranks,
                Deadline deadline) {
  for (const int r : ranks)
    while (!store.check({prefix + std::to_string(r)}) && !deadline.passed())
      std::this_thread::sleep_for(kNap);
}

}  // namespace

// The connections for sums of tensors in main memory.
struct Connections {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo{};    // all ranks
  std::unique_ptr<SharedSum> shared{};                  // the ranks of this machine
  std::vector<Peer> peers{};                            // the same ranks
  c10::intrusive_ptr<c10d::ProcessGroupGloo> across{};  // the first rank of each machine; null on the others
  std::vector<c10::intrusive_ptr<c10d::Work>> sent{};  // last, between two machines; keeps `across` connected
  bool many_machines = false;

  [[nodiscard]] bool takes(const at::Tensor& tensor) const {
    return shared && tensor.is_cpu() && tensor.is_contiguous() &&
           (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kLong);
  }
  template <class Number>
  void add_machines(Number* values, at::Tensor& tensor, milliseconds limit);
  void sum_in_shared_memory(at::Tensor& tensor, int divisor, milliseconds limit);
};

struct DistContext::Group {
  World world;
  Options options;
  Placement placement;
  int exceptions_at_start = std::uncaught_exceptions();
  Meeting meeting{};
  std::vector<std::string> hosts{core::host_name()};
  Connections lines{};
#ifdef SD_HAVE_CUDA
  c10::intrusive_ptr<c10d::Backend> nccl{};
#endif
  long calls = 0;
  std::string failure{};    // why the group is unusable
  std::vector<int> lost{};  // the ranks that were missing then
  bool store_lost = false;  // it did not answer then
  bool shares_gpus = false;

  [[nodiscard]] bool alone() const { return placement.backend == "none"; }
  [[nodiscard]] std::string self() const {
    return fmt::format("rank {} on {}", world.rank, core::host_name());
  }

  void join();
  template <typename Work>
  bool joins_by(Deadline deadline, Work work);
  c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_members(const Meeting& of, const std::string& name,
                                                             int place, Deadline deadline);
  void connect(Deadline deadline);
  void share_memory(Deadline deadline);
  void leave() noexcept;
  void close_connections();

  template <typename Body>
  void guarded(const std::string& what, Deadline deadline, Body body);
  void sum_in_shared_memory(at::Tensor& tensor, int divisor, Deadline deadline);
  template <typename Start>
  void run(const std::string& what, Deadline deadline, Start start);
  template <typename Start>
  void run_on(at::Tensor& tensor, const std::string& what, Deadline deadline, Start start);
  [[noreturn]] void fail(const std::string& what, Clock::time_point begun, milliseconds limit,
                         const std::string& library_text);

  std::vector<std::string> gather(const std::string& record, Deadline deadline);
  std::string broadcast_text(const std::string& text, Deadline deadline);
};

// Like finishes_by, but a rank that got a stop request soon stops waiting for ranks that may never come.
template <typename Work>
bool DistContext::Group::joins_by(Deadline deadline, Work work) {
  std::optional<Deadline> stops_at;
  const auto give_up = [&] {
    if (!stops_at && options.stopping && options.stopping()) stops_at = Deadline::in(kStopsAfter);
    return stops_at && stops_at->passed();
  };
  if (finishes_by(deadline, std::move(work), give_up)) return true;
  if (stops_at && stops_at->passed())
    throw core::Stopped(self() + ": stopped by a signal before all ranks had joined; nothing was started");
  return false;
}

void DistContext::Group::join() {
  set_library_defaults(world.rank);
  prepare_stacks();
  const Deadline deadline = Deadline::in(options.join_timeout);
  const std::string prefix = fmt::format("{}: cannot join the group of {} at {}:{}: ", self(), world.size,
                                         world.master_addr, world.master_port);
  try {
    const auto met = std::make_shared<Meeting>();
    const auto stage = std::make_shared<std::atomic<const char*>>("starting");
    const auto work = [met, stage, w = world, o = options, deadline] {
      *met = meet(w, o.fingerprint, o.join_timeout, deadline, *stage);
    };
    if (!joins_by(Deadline::in(options.join_timeout + kMoment), work))
      throw DistError(fmt::format("after {:.0f} s still {}", seconds(options.join_timeout), stage->load()));
    meeting = *met;
    hosts.clear();
    for (const Hello& m : meeting.members) hosts.push_back(m.host);
    connect(deadline);
    calls = 0;  // from here on they are the user's
  } catch (const DistError& error) {
    throw DistError(prefix + error.what(), error.peer_only);
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {  // c10d and Gloo throw kinds of their own
    if (core::is_lack_of_threads(error)) throw;
    throw DistError(prefix + "the store or another rank was lost: " + brief(error), true);
  }
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> DistContext::Group::connect_members(const Meeting& of,
                                                                               const std::string& name,
                                                                               int place, Deadline deadline) {
  const auto made = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroupGloo>>();
  const auto work = [made, of, name, place, deadline, timeout = usable(options.timeout)] {
    *made = connect_gloo(of, name, place, deadline, timeout);
  };
  if (!joins_by(Deadline::in(deadline.left() + kMoment), work))
    throw DistError(
        "all ranks joined, but could not connect to each other. If the machines have several "
        "networks, set GLOO_SOCKET_IFNAME");
  return *made;
}

void DistContext::Group::connect(Deadline deadline) {
  lines.gloo = connect_members(meeting, "gloo", world.rank, deadline);
  if (placement.backend == "gloo") {
    if (options.shared_memory) share_memory(deadline);
  }
#ifdef SD_HAVE_CUDA
  if (placement.backend != "nccl") return;
  // Ranks that cannot work together would hang or fail deep inside NCCL.
  std::vector<RankGpu> gpus;
  for (const std::string& record :
       gather(encode(RankGpu{gpu_identity(placement.device), nccl_here()}), deadline))
    gpus.push_back(decode_rank_gpu(record));
  const GpuVerdict verdict = judge_gpus(gpus, hosts);  // rank 0's; the others have no records
  const std::string refusal = broadcast_text(verdict.refusal, deadline);
  if (!refusal.empty()) throw UsageError(refusal);
  shares_gpus = broadcast_text(verdict.shared ? "yes" : "no", deadline) == "yes";
  const auto made_nccl = std::make_shared<c10::intrusive_ptr<c10d::Backend>>();
  const auto work_nccl = [made_nccl, m = meeting, rank = world.rank, d = placement.device,
                          timeout = usable(options.timeout)] {
    *made_nccl = connect_nccl(m, rank, d, timeout);
  };
  if (!joins_by(deadline, work_nccl))
    throw DistError(
        "NCCL could not connect the ranks. If the machines have several networks, set NCCL_SOCKET_IFNAME; "
        "NCCL_DEBUG=INFO shows more");
  nccl = *made_nccl;
#endif
}

// Sums go through shared memory if, on each machine, all ranks can open one segment and see each other's
// processes; otherwise, silently, through Gloo. Containers may have the same host name but share neither
// memory nor processes.
void DistContext::Group::share_memory(Deadline deadline) {
  std::vector<Peer>& peers = lines.peers;
  std::unique_ptr<SharedSum>& shared = lines.shared;
  Meeting leaders = meeting;  // the first rank of each machine
  leaders.members.clear();
  for (const Hello& m : meeting.members) {
    const auto here = hosts.begin() + m.rank;
    if (std::find(hosts.begin(), here, m.host) == here) leaders.members.push_back(m);
    if (m.host == hosts[static_cast<std::size_t>(world.rank)]) peers.push_back({m.rank, m.pid});
  }
  if (leaders.members.size() == meeting.members.size()) return;
  const auto place_in = [rank = world.rank](const auto& ranks) {
    const auto is_this = [rank](const auto& member) { return member.rank == rank; };
    return static_cast<int>(std::find_if(ranks.begin(), ranks.end(), is_this) - ranks.begin());
  };
  const int size = static_cast<int>(peers.size()), leader = peers.front().rank;
  const std::string key = kMemory + std::to_string(leader);
  std::string address;
  if (world.rank == leader) {
    try {
      shared = SharedSum::create(size);
      address = shared->address();
    } catch (const std::runtime_error&) {
      // For example, if there is no room.
    }
    meeting.store->set(key, address);
  } else {
    await_keys(*meeting.store, kMemory, {leader}, deadline);
    if (!deadline.passed()) address = meeting.store->get_to_str(key);
  }
  bool fine = !address.empty() && std::none_of(peers.begin(), peers.end(),
                                               [](const Peer& p) { return process_has_ended(p.pid); });
  try {
    if (fine && !shared) shared = SharedSum::open(address, place_in(peers), size);
  } catch (const std::runtime_error&) {
    fine = false;
  }
  const std::vector<std::string> answers = gather(fine ? "yes" : "no", deadline);
  const bool all = std::find(answers.begin(), answers.end(), "no") == answers.end();
  if (broadcast_text(all ? "yes" : "no", deadline) != "yes") return shared.reset();
  lines.many_machines = leaders.members.size() > 1;
  if (lines.many_machines && world.rank == leader)
    lines.across = connect_members(leaders, "gloo.machines", place_in(leaders.members), deadline);
}

// Ends the connections, so that peers that wait for this rank notice at once. On a thread of its own: the
// libraries' destructors may wait.
void DistContext::Group::close_connections() {
#ifdef SD_HAVE_CUDA
  // GPU work that still waits for a lost rank would keep this process from ending. The backend is never
  // destroyed: its destructor may wait for the group's timeout.
  if (auto* const kept = nccl.release()) {
    finishes_by(Deadline::in(kMoment), [kept, device = placement.device] {
      try {
        c10::cuda::set_device(device.index());
        kept->abort();
      } catch (const c10::Error&) {
        // The connection is already lost, and the reason is reported elsewhere.
      }
    });
  }
#endif
  if (lines.shared) lines.shared->give_up();
  lines.sent.clear();
  for (auto* const group : {&lines.across, &lines.gloo}) {
    const auto held = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroupGloo>>(std::move(*group));
    group->reset();
    finishes_by(Deadline::in(kMoment), [held] { held->reset(); });
  }
}

void DistContext::Group::leave() noexcept {
  try {
    const bool in_order = failure.empty() && std::uncaught_exceptions() <= exceptions_at_start;
#ifdef SD_HAVE_CUDA
    if (in_order && nccl) {
      const auto shutdown = [n = nccl, d = placement.device] {
        c10::cuda::set_device(d.index());
        n->shutdown();
      };
      if (finishes_by(Deadline::in(usable(options.timeout)), shutdown)) nccl.reset();
    }
#endif
    if (!in_order) close_connections();
    if (store_lost) return;
    std::vector<int> others;
    for (int r = 0; r < world.size; ++r)
      if (r != world.rank && std::find(lost.begin(), lost.end(), r) == lost.end()) others.push_back(r);
    const milliseconds patience = in_order ? kFarewell : 2 * kMoment;
    const auto farewell = [store = meeting.store, hosting = meeting.hosting, others, patience, in_order,
                           self = std::to_string(world.rank)] {
      const Deadline deadline = Deadline::in(patience);
      store->set(kLeft + self, std::string(in_order ? "in order" : "after an error of its own"));
      if (in_order) await_keys(*store, kLeft, others, deadline);  // nobody still reads from a peer
      store->set(kGone + self, std::string("1"));
      if (hosting) await_keys(*store, kGone, others, deadline);
    };
    finishes_by(Deadline::in(patience + kMoment), farewell);
    close_connections();
  } catch (const std::exception&) {
    // The store is already gone: no rank can be told that this one leaves.
  }
}

struct StopWatch::State {
  std::function<bool()> stopping;
  c10::intrusive_ptr<c10d::Store> store;  // null with one rank
  std::atomic<bool> stops = false;
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
  std::promise<void> left;

  void watch();
};

void StopWatch::State::watch() {
  try {
    std::unique_lock lock(mutex);
    while (!stops && !wake.wait_for(lock, kStopLook, [this] { return done; })) {
      lock.unlock();
      if (stopping()) {
        stops = true;
        store->set(kStop, std::string("1"));
      } else {
        stops = store->check({kStop});
      }
      lock.lock();
    }
  } catch (const std::exception&) {
    // The store is lost: the next collective names who is missing.
  }
  left.set_value();
}

StopWatch::~StopWatch() {
  if (!state_->store) return;
  {
    const std::lock_guard guard(state_->mutex);
    state_->done = true;
  }
  state_->wake.notify_all();
  state_->left.get_future().wait_for(kMoment);  // its thread may be in a store that does not answer
}

bool StopWatch::stops() const { return state_->stops || state_->stopping(); }

StopWatch DistContext::watch_for_stop(std::function<bool()> stopping) {
  const auto state = std::make_shared<StopWatch::State>();
  state->stopping = std::move(stopping);
  state->store = group_->meeting.store;
  if (state->store) std::thread([state] { state->watch(); }).detach();
  return StopWatch(state);
}

template <typename Body>
void DistContext::Group::guarded(const std::string& what, Deadline deadline, Body body) {
  if (!failure.empty())
    throw DistError(fmt::format("{}: {} after the group was lost: {}", self(), what, failure), true);
  ++calls;
  const auto begun = Clock::now();
  const milliseconds limit = usable(deadline.left());
  try {
#ifdef SD_HAVE_CUDA
    // NCCL's own thread has aborted an operation that hung, and does not report it.
    if (nccl && nccl->getError() != c10d::ErrorType::SUCCESS)
      throw DistError(fmt::format("an earlier operation of NCCL {}", nccl_failure(nccl->getError())));
#endif
    body(limit);
  } catch (const core::Bug&) {
    throw;
  } catch (const std::exception& error) {  // c10d, Gloo and NCCL throw kinds of their own
    fail(what, begun, limit, brief(error));
  }
}

// `start(backend, limit)` starts one operation on the Gloo group.
template <typename Start>
void DistContext::Group::run(const std::string& what, Deadline deadline, Start start) {
  guarded(what, deadline, [&](milliseconds limit) {
    const c10::intrusive_ptr<c10d::Work> work = start(*lines.gloo, limit);
    // The operation ends itself at the limit, so that its thread is free when the group is torn down.
    work->wait(limit + kMoment);
  });
}

// `start(backend, tensors, limit)` starts one operation on the group that serves the tensor's device.
template <typename Start>
void DistContext::Group::run_on(at::Tensor& tensor, const std::string& what, Deadline deadline, Start start) {
  SD_CHECK(tensor.defined() && tensor.is_contiguous(), "a collective needs a contiguous tensor: " + what);
  const at::NoGradGuard no_grad;
#ifdef SD_HAVE_CUDA
  if (nccl && tensor.is_cuda()) {
    guarded(what, deadline, [&](milliseconds limit) {
      std::vector<at::Tensor> tensors{tensor};
      start(*nccl, tensors, limit);  // on the current stream; returns no work to wait for
    });
    return;
  }
#endif
  at::Tensor on_cpu = tensor.cpu();  // the tensor itself if it is there already
  run(what, deadline, [&](c10d::Backend& backend, milliseconds limit) {
    std::vector<at::Tensor> tensors{on_cpu};
    return start(backend, tensors, limit);
  });
  if (!on_cpu.is_same(tensor)) tensor.copy_(on_cpu);
}

void DistContext::Group::fail(const std::string& what, Clock::time_point begun, milliseconds limit,
                              const std::string& library_text) {
  const std::string call = fmt::format("{} (call {})", what, calls);
  const std::string head = fmt::format("{}: {} failed after {:.1f} s (limit {:.1f} s)", self(), call,
                                       seconds(Clock::now() - begun), seconds(limit));
  failure = head;
  const bool too_late = Clock::now() - begun >= limit;
  close_connections();
  const milliseconds patience = std::clamp(options.timeout / 4, milliseconds(500), milliseconds(2'000));
  const auto findings = std::make_shared<Findings>();
  const auto work = [findings, m = meeting, rank = world.rank, call, patience] {
    *findings = hear_survivors(*m.store, m.members, rank, call, patience);
  };
  bool heard = false;
  try {
    heard = finishes_by(Deadline::in(patience + kMoment), work);
  } catch (const std::exception&) {
    // The store is gone; reported below.
  }
  if (!heard) {
    store_lost = true;
    if (world.agent_store)
      *findings = {
          {}, fmt::format("the launcher's store at {}:{} is lost too", world.master_addr, world.master_port)};
    else
      *findings = {{0},
                   fmt::format("no word from {}; it hosts the store", describe(meeting.members.front()))};
  }
  lost = findings->lost;
  failure = fmt::format("{}: {}.{} The library says: {}", head, findings->text,
                        lost.empty() ? "" : " Check the missing ranks' own output first.", library_text);
  if (too_late) {  // where a connection broke, the message says enough
    core::tell_error(head + ". Its threads:");
    print_stacks();
  }
  throw DistError(failure, true);
}

std::vector<std::string> DistContext::Group::gather(const std::string& record, Deadline deadline) {
  const auto size = static_cast<std::size_t>(world.size);
  std::vector<at::Tensor> length{at::full({1}, static_cast<std::int64_t>(record.size()), at::kLong)};
  std::vector<std::vector<at::Tensor>> lengths(1);
  for (std::size_t r = 0; r < size; ++r) lengths[0].push_back(at::empty({1}, at::kLong));
  run("gather (lengths)", deadline, [&](c10d::Backend& backend, milliseconds limit) {
    c10d::AllgatherOptions options_;
    options_.timeout = limit;
    return backend.allgather(lengths, length, options_);
  });
  std::int64_t longest = 1;
  for (const at::Tensor& l : lengths[0]) longest = std::max(longest, l.item<std::int64_t>());
  std::vector<at::Tensor> own{at::zeros({longest}, at::kByte)};
  std::memcpy(own[0].data_ptr(), record.data(), record.size());
  std::vector<std::vector<at::Tensor>> all;
  if (world.rank == 0) {
    all.emplace_back();
    for (std::size_t r = 0; r < size; ++r) all[0].push_back(at::empty({longest}, at::kByte));
  }
  run("gather", deadline, [&](c10d::Backend& backend, milliseconds limit) {
    c10d::GatherOptions options_;
    options_.timeout = limit;
    options_.rootRank = 0;
    return backend.gather(all, own, options_);
  });
  std::vector<std::string> records;
  for (std::size_t r = 0; world.rank == 0 && r < size; ++r)
    records.emplace_back(static_cast<const char*>(all[0][r].const_data_ptr()),
                         static_cast<std::size_t>(lengths[0][r].item<std::int64_t>()));
  return records;
}

std::string DistContext::Group::broadcast_text(const std::string& text, Deadline deadline) {
  const auto from_main = [&](at::Tensor t) {
    run("broadcast of a text", deadline, [&](c10d::Backend& backend, milliseconds limit) {
      std::vector<at::Tensor> tensors{t};
      c10d::BroadcastOptions options_;
      options_.timeout = limit;
      return backend.broadcast(tensors, options_);
    });
    return t;
  };
  const at::Tensor length = from_main(at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong));
  const auto bytes = length.item<std::int64_t>();
  if (bytes == 0) return {};
  at::Tensor buffer = at::empty({bytes}, at::kByte);
  if (world.rank == 0) std::memcpy(buffer.data_ptr(), text.data(), text.size());
  from_main(buffer);
  return {static_cast<const char*>(buffer.const_data_ptr()), static_cast<std::size_t>(bytes)};
}

DistContext::DistContext(World world, Options options)
    : group_(
          std::make_unique<Group>(Group{world, options, choose_placement(world, options, visible_gpus())})) {
#ifdef SD_HAVE_CUDA
  if (device().is_cuda()) c10::cuda::set_device(device().index());
#endif
  if (!group_->alone()) group_->join();
}

DistContext::~DistContext() {
  if (!group_->alone()) group_->leave();
}

int DistContext::rank() const { return group_->world.rank; }
int DistContext::size() const { return group_->world.size; }
int DistContext::local_rank() const { return group_->world.local_rank; }
int DistContext::local_size() const { return group_->world.local_size; }
std::string DistContext::backend() const { return group_->placement.backend; }
at::Device DistContext::device() const { return group_->placement.device; }
bool DistContext::shares_gpus() const { return group_->shares_gpus; }
const std::vector<std::string>& DistContext::hosts() const { return group_->hosts; }
Deadline DistContext::deadline() const { return Deadline::in(group_->options.timeout); }

template <class Number>
void Connections::add_machines(Number* values, at::Tensor& tensor, milliseconds limit) {
  const at::NoGradGuard no_grad;
  if (across->getSize() > 2) {
    std::vector<at::Tensor> tensors{tensor};
    across->allreduce(tensors, all_reduce_options(limit))->wait(limit + kMoment);
    return;
  }
  // Two machines send each other their whole tensors: as many bytes as in a ring, but in one message each
  // way instead of two in sequence. When the connection breaks, Gloo ends no wait for a message that is under
  // way. So this waits for an empty message that follows the tensor. What it sends is a copy: its arrival
  // is certain, and its wait short, once the other machine's next message has come.
  std::vector<at::Tensor> own{tensor.clone()}, theirs{at::empty_like(tensor)},
      nothing{at::empty({0}, at::kByte)};
  const int other = 1 - across->getRank();
  const auto received = across->recv(theirs, other, 0);
  const auto end = across->recv(nothing, other, 1);
  std::vector<c10::intrusive_ptr<c10d::Work>> sending{across->send(own, other, 0)};
  sending.push_back(across->send(nothing, other, 1));
  end->wait(limit + kMoment);
  received->wait(limit + kMoment);
  for (const auto& before : sent) before->wait(limit + kMoment);
  sent = std::move(sending);
  const Number* more = theirs[0].const_data_ptr<Number>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] += more[i];
}

// The ranks of a machine add their numbers, the machines' first ranks add the sums, and hand the result to the others.
void Connections::sum_in_shared_memory(at::Tensor& tensor, int divisor, milliseconds limit) {
  const auto sum = [&](auto* values) {
    using Number = std::remove_pointer_t<decltype(values)>;
    const Deadline until = Deadline::in(limit);
    const auto count = static_cast<std::size_t>(tensor.numel());
    shared->sum(values, count, static_cast<Number>(many_machines ? 1 : divisor), peers, until);
    if (!many_machines) return;
    if (across) {
      add_machines(values, tensor, limit);
      for (std::size_t i = 0; i < count; ++i) values[i] /= static_cast<Number>(divisor);
    }
    shared->broadcast(values, count, peers, until);
  };
  tensor.scalar_type() == at::kFloat ? sum(tensor.data_ptr<float>()) : sum(tensor.data_ptr<std::int64_t>());
}

void DistContext::Group::sum_in_shared_memory(at::Tensor& tensor, int divisor, Deadline deadline) {
  guarded(fmt::format("all-reduce of {}", describe(tensor)), deadline,
          [&](milliseconds limit) { lines.sum_in_shared_memory(tensor, divisor, limit); });
}

void DistContext::all_reduce_sum(at::Tensor& tensor, Deadline deadline) {
  if (group_->alone()) return;
  if (group_->lines.takes(tensor)) return group_->sum_in_shared_memory(tensor, 1, deadline);
  group_->run_on(tensor, fmt::format("all-reduce of {}", describe(tensor)), deadline,
                 [](c10d::Backend& backend, std::vector<at::Tensor>& tensors, milliseconds limit) {
                   return backend.allreduce(tensors, all_reduce_options(limit));
                 });
}

void DistContext::post_mean(const at::Tensor& tensor) {
  if (!group_->alone() && group_->lines.takes(tensor) && tensor.scalar_type() == at::kFloat) {
    group_->lines.shared->post(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()));
  }
}

void DistContext::all_reduce_mean(at::Tensor& tensor, Deadline deadline) {
  if (group_->alone()) return;
  SD_CHECK(tensor.is_floating_point(), "a mean needs floating-point numbers: " + describe(tensor));
  if (group_->lines.takes(tensor)) return group_->sum_in_shared_memory(tensor, size(), deadline);
  all_reduce_sum(tensor, deadline);
  const at::NoGradGuard no_grad;
  tensor.div_(size());
}

void DistContext::broadcast(at::Tensor& tensor, int root, Deadline deadline) {
  SD_CHECK(root >= 0 && root < size(), "broadcast from rank " + std::to_string(root));
  if (group_->alone()) return;
  group_->run_on(tensor, fmt::format("broadcast of {} from rank {}", describe(tensor), root), deadline,
                 [root](c10d::Backend& backend, std::vector<at::Tensor>& tensors, milliseconds limit) {
                   c10d::BroadcastOptions options;
                   options.rootRank = root;
                   options.timeout = limit;
                   options.asyncOp = false;
                   return backend.broadcast(tensors, options);
                 });
}

void DistContext::barrier(std::string_view where, Deadline deadline) {
  if (group_->alone()) return;
  group_->run(fmt::format("barrier '{}'", where), deadline, [](c10d::Backend& backend, milliseconds limit) {
    c10d::BarrierOptions options;
    options.timeout = limit;
    return backend.barrier(options);
  });
}

std::vector<std::string> DistContext::gather(const std::string& record, Deadline deadline) {
  if (group_->alone()) return {record};
  return group_->gather(record, deadline);
}

std::string DistContext::broadcast_text(const std::string& text, Deadline deadline) {
  return group_->alone() ? text : group_->broadcast_text(text, deadline);
}

void DistContext::check_same(std::string_view what, const std::string& value, Deadline deadline) {
  if (group_->alone()) return;
  const auto shown = [](const std::string& text) {
    return text.size() > 80 ? text.substr(0, 80) + "..." : text;
  };
  const std::vector<std::string> values = group_->gather(value, deadline);
  std::vector<int> different;
  std::vector<std::string> parts;
  for (std::size_t r = 1; r < values.size(); ++r)
    if (values[r] != values[0]) {
      different.push_back(static_cast<int>(r));
      parts.push_back(fmt::format("rank {} on {}: '{}'", r, hosts()[r], shown(values[r])));
    }
  std::string verdict;
  if (!different.empty())
    verdict = fmt::format("{}: not the same on all ranks: rank {} unlike rank 0 on {}, which has '{}'; {}",
                          what, rank_list(different), hosts()[0], shown(values[0]), fmt::join(parts, ", "));
  verdict = group_->broadcast_text(verdict, deadline);
  if (!verdict.empty()) throw DistError(fmt::format("{}: {}", group_->self(), verdict));
}

}  // namespace snake_ddp::dist
