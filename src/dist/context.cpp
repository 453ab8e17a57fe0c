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
#include <thread>
#include <utility>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

#include "dist/watchdog.hpp"
#include "group.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/core/wait.hpp"

namespace snake_ddp::dist {
namespace {

std::string describe(const Hello& member) {
  if (member.host != core::host_name()) return member.describe();
  return fmt::format("{}, which {}", member.describe(), process_state(member.pid));
}

std::string describe(const at::Tensor& t) { return core::counted(t.numel(), "value"); }

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

}  // namespace

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
