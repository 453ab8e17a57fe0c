// How a rank joins the others, and leaves them.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

#include "group.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::dist {
namespace {

void await_keys(c10d::Store& store, const std::string& prefix, const std::vector<int>& ranks,
                Deadline deadline) {
  for (const int r : ranks)
    while (!store.check({prefix + std::to_string(r)}) && !deadline.passed())
      std::this_thread::sleep_for(kNap);
}

}  // namespace

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

std::string brief(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr std::size_t kEnough = 300;
  return text.size() > kEnough ? text.substr(0, kEnough) + " ..." : text;
}

}  // namespace snake_ddp::dist
