#include "rendezvous.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/exception.h>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "network.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/descriptor.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::dist {
namespace {

using core::Deadline;
using core::DistError;
using std::chrono::milliseconds;

// Keys in the shared store.
const std::string kLogLength = "snake/join/length";
const std::string kLog = "snake/join/hello/";        // + index: a Hello
const std::string kOffer = "snake/join/offer/";      // + token: an id
const std::string kAnswer = "snake/join/answer/";    // + id/token: present
const std::string kMissing = "snake/join/missing/";  // + id: the ranks that rank 0 waits for
const std::string kAnnounced =
    "snake/join/announced";  // id, "go" and the members, or id, "no" and the reason

constexpr milliseconds kBetweenLooks{10};
constexpr milliseconds kQuiet{5'000};  // before rank 0 says whom it waits for
constexpr milliseconds kLongQuiet{
    15'000};  // before the others, who may be many, say that they wait for rank 0
constexpr milliseconds kLinger{
    300};  // a store that this process hosts stays this long after its refusal, for others to read it

std::string draw_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

double seconds(milliseconds span) { return std::chrono::duration<double>(span).count(); }

std::string read_or_empty(c10d::Store& store, const std::string& key) {
  return store.check({key}) ? store.get_to_str(key) : std::string();
}

// What started the ranks, for a person.
std::string name_of_group(const World& world) {
  if (world.launcher == Launcher::kSlurm) return fmt::format("srun (job {})", world.job);
  if (world.launcher == Launcher::kMpi) return "mpirun";
  return world.torchrun ? "torchrun" : fmt::format("WORLD_SIZE={}", world.size);
}

// "1, 3 to 5"
std::string with_words(const std::string& rank_list) {
  std::string text;
  for (const char c : rank_list) text += c == '-' ? std::string(" to ") : std::string(1, c);
  return text;
}

// One line for a person who wonders why nothing happens.
class Notice {
 public:
  Notice(const World& world, milliseconds after, Deadline deadline)
      : world_(world), due_(Deadline::in(after)), deadline_(deadline) {}

  void waiting_for(const std::string& whom) {
    if (said_ || !due_.passed()) return;
    said_ = true;
    core::tell_error(
        fmt::format("rank {} on {}: waiting for {} of {}, at most {:.0f} s more (--join_timeout)",
                    world_.rank, core::host_name(), whom, name_of_group(world_), seconds(deadline_.left())));
  }

 private:
  const World& world_;
  const Deadline due_, deadline_;
  bool said_ = false;
};

struct Announcement {
  std::string id;
  bool go = false;
  std::string reason;          // of a "no"
  std::vector<Hello> members;  // of a "go"
};

constexpr char kRecordSeparator = '\x1e';

std::string encode(const Announcement& a) {
  std::string text = a.id + kRecordSeparator + (a.go ? "go" : "no" + (kRecordSeparator + a.reason));
  for (const Hello& h : a.members) text += kRecordSeparator + encode(h);
  return text;
}

Announcement decode_announcement(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(kRecordSeparator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  Announcement a;
  SD_CHECK(words.size() >= 3,
           "an announcement needs three words or more, it has " + std::to_string(words.size()));
  a.id = words[0];
  a.go = words[1] == "go";
  if (!a.go) a.reason = words[2];
  for (std::size_t i = 2; a.go && i < words.size(); ++i) a.members.push_back(decode_hello(words[i]));
  return a;
}

void greet(c10d::Store& store, const Hello& self) {
  store.set(kLog + std::to_string(store.add(kLogLength, 1)), encode(self));
}

// Rank 0's side.
class Host {
 public:
  Host(c10d::Store& store, Hello self) : store_(store), self_(std::move(self)), id_(draw_token()) {}

  Announcement gather_members(const World& world, milliseconds limit, Deadline deadline) {
    Notice notice(world, kQuiet, deadline);
    store_.deleteKey(
        "exception_dump");  // left by a failed NCCL group, it would make healthy ranks dump and abort
    greet(store_, self_);
    std::string last_missing;
    for (;;) {
      Roll roll = look_around();
      if (roll.refusal.empty() && roll.missing.empty()) return announce({id_, true, {}, roll.members});
      const std::string missing = rank_list(roll.missing);
      if (roll.refusal.empty() && deadline.passed())
        roll.refusal = fmt::format(
            "{} of {} did not join within {:.0f} s: rank {}. Check their output; the others are: {}",
            roll.missing.size(), core::counted(self_.size, "rank"), seconds(limit), missing,
            describe(roll.members));
      if (!roll.refusal.empty()) {
        announce({id_, false, roll.refusal, {}});
        std::this_thread::sleep_for(kLinger);
        throw DistError(roll.refusal);
      }
      if (missing != last_missing) store_.set(kMissing + id_, last_missing = missing);
      notice.waiting_for((roll.missing.size() > 1 ? "ranks " : "rank ") + with_words(missing));
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }

 private:
  Roll look_around() {
    const std::int64_t length = store_.add(kLogLength, 0);
    while (read_ < length) pending_.emplace(++read_, std::nullopt);
    for (auto entry = pending_.begin(); entry != pending_.end();) {
      std::optional<Hello>& hello = entry->second;
      if (!hello) {
        const std::string text = read_or_empty(store_, kLog + std::to_string(entry->first));
        if (!text.empty()) hello = decode_hello(text);
        if (hello && hello->token != self_.token) store_.set(kOffer + hello->token, id_);
      }
      const bool is_self = hello && hello->token == self_.token;
      const bool answered = hello && !is_self && store_.check({kAnswer + id_ + "/" + hello->token});
      if (answered) answered_.push_back(*hello);
      entry = is_self || answered ? pending_.erase(entry) : std::next(entry);
    }
    // Another living rank 0 offers its id to this one; the answer lets both see each other.
    if (const std::string other = read_or_empty(store_, kOffer + self_.token); !other.empty())
      store_.set(kAnswer + other + "/" + self_.token, std::string("1"));
    return call_roll(self_, answered_);
  }

  Announcement announce(Announcement a) {
    store_.set(kAnnounced, encode(a));
    return a;
  }

  static std::string describe(const std::vector<Hello>& members) {
    std::string text;
    for (const Hello& h : members) text += (text.empty() ? "" : ", ") + h.describe();
    return text;
  }

  c10d::Store& store_;
  const Hello self_;
  const std::string id_;
  std::int64_t read_ = 0;
  std::map<std::int64_t, std::optional<Hello>>
      pending_;  // log entries without an answer; most are of processes that ended long ago
  std::vector<Hello> answered_;
};

DistError taken(const Hello& self, const Announcement& group) {
  const int size = static_cast<int>(group.members.size());
  if (size != self.size)
    return DistError(fmt::format(
        "{} was started with WORLD_SIZE={}, but a group of {} formed here, led by {}", self.describe(),
        self.size, core::counted(size, "rank"), group.members.front().describe()));
  return DistError(
      fmt::format("two processes claim rank {}: this one on {} (pid {}), and one on {} (pid {}) which is in "
                  "the group. Give each its own RANK, and look for a process left over from an earlier run",
                  self.rank, self.host, self.pid, group.members[static_cast<std::size_t>(self.rank)].host,
                  group.members[static_cast<std::size_t>(self.rank)].pid));
}

// The side of every other rank.
Announcement join_host(c10d::Store& store, const Hello& self, const std::string& where, milliseconds limit,
                       Deadline deadline, Notice& notice) {
  std::string before = read_or_empty(store, kAnnounced);
  greet(store, self);
  std::string offered;
  for (;;) {
    if (const std::string id = read_or_empty(store, kOffer + self.token); !id.empty() && id != offered) {
      offered = id;
      store.set(kAnswer + id + "/" + self.token, std::string("1"));
    }
    if (const std::string now = read_or_empty(store, kAnnounced); now != before) {
      const Announcement a = decode_announcement(now);
      if (a.go) {
        const auto place = static_cast<std::size_t>(self.rank);
        if (place < a.members.size() && a.members[place].token == self.token) return a;
        throw taken(self, a);
      }
      if (a.id == offered) throw DistError(a.reason);
      before = now;  // from an earlier attempt
    }
    if (deadline.passed()) {
      if (!offered.empty())
        throw DistError(
            fmt::format("the group was not complete within {:.0f} s: rank 0 at {} still waits for rank {}",
                        seconds(limit), where, read_or_empty(store, kMissing + offered)));
      std::string hint = "was it started?";
      if (!before.empty()) {
        const Announcement last = decode_announcement(before);
        if (last.go && self.rank < static_cast<int>(last.members.size()))
          hint = fmt::format("an earlier group here has {}, led by {}",
                             core::counted(last.members.size(), "rank"),
                             last.members[static_cast<std::size_t>(self.rank)].describe());
      }
      throw DistError(fmt::format("rank 0 did not answer at the store {} within {:.0f} s: {}", where,
                                  seconds(limit), hint));
    }
    if (offered.empty()) notice.waiting_for("rank 0 at " + where);
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

// The one of the master's addresses at which a store of this process should listen; empty: all addresses of the
// machine. The store has no password, so it should be reachable by as few as possible. But the master's name may be a
// loopback address on this machine (Debian's /etc/hosts, or a Kubernetes operator for the first pod), while ranks on
// other machines know another address.
std::string listening_address(const World& world, const std::vector<std::string>& addresses) {
  const bool all_here = world.local_size == world.size && std::getenv("KUBERNETES_SERVICE_HOST") == nullptr;
  const auto found = std::find_if(addresses.begin(), addresses.end(), is_own);
  return found != addresses.end() && (all_here || !is_loopback(*found)) ? *found : std::string();
}

// From here on this thread, and those it starts, have descriptors of their own: at first the standard ones and `kept`. Returns
// whether the system can do that; if not, they share the process's.
bool own_descriptors(int kept) {
  const auto close_all = [](int first, unsigned last, int flags) {
    return ::syscall(SYS_close_range, static_cast<unsigned>(first), last, flags) == 0;
  };
  const int first = STDERR_FILENO + 1;
  if (!close_all(std::max(first, kept + 1), ~0U, CLOSE_RANGE_UNSHARE)) return false;
  if (kept > first) close_all(first, static_cast<unsigned>(kept) - 1, 0);
  return true;
}

}  // namespace

// A store in this process, behind its listening socket. The store has no password: connections of strangers use up the
// descriptors of its thread and none of the run's, whose files are still written.
class StoreServer {
 public:
  StoreServer(const std::string& address, const c10d::TCPStoreOptions& options) {
    std::promise<bool> ready;
    std::future<bool> is_ready = ready.get_future();
    const int listening = options.masterListenFd.value_or(-1);
    std::thread([address, options, listening, ready = std::move(ready), state = state_]() mutable {
      const bool apart = own_descriptors(listening);
      try {
        const auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
        ready.set_value(apart);
        state->leave.get_future().wait();
      } catch (...) {  // a thread's entry: the constructor rethrows it
        ready.set_exception(std::current_exception());
      }
      state->left.set_value();
    }).detach();
    // The store has its own then. This one shows whose port it is.
    if (is_ready.get() && listening >= 0) listening_ = core::Descriptor(listening);
  }
  ~StoreServer() {
    state_->leave.set_value();
    state_->left.get_future().wait_for(std::chrono::seconds(1));
  }
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  struct State {
    std::promise<void> leave, left;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  core::Descriptor listening_{-1};
};

namespace {

c10::intrusive_ptr<c10d::Store> open_store(const World& world, const std::string& address, bool hosting,
                                           int store_fd, Deadline deadline,
                                           std::shared_ptr<StoreServer>& server) {
  c10d::TCPStoreOptions options;
  options.port = world.master_port;
  options.isServer = hosting;
  options.waitWorkers = false;  // our own meeting waits, and can name the missing ranks
  options.timeout = std::max(milliseconds(500), deadline.left() / 2);  // the library tries twice
  if (hosting && store_fd >= 0) options.masterListenFd = store_fd;
  try {
    if (hosting) {
      server = std::make_shared<StoreServer>(address, options);
      options.isServer = false;
      options.masterListenFd.reset();
    }
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const c10d::SocketError& error) {
    const std::string text = error.what_without_backtrace();
    if (hosting && text.find("EADDRINUSE") != std::string::npos)
      throw DistError(port_taken_message(world.master_port));
    throw DistError(fmt::format("the store at {}:{} cannot be opened: {}", address, world.master_port, text));
  } catch (const c10::Error& error) {
    throw DistError(fmt::format(
        "the program listening at {}:{} is not a process group's store{}: {}", address, world.master_port,
        hosting ? " of this process; is MASTER_ADDR this machine?" : "", error.what_without_backtrace()));
  }
}

}  // namespace

Meeting meet(const World& world, const std::string& fingerprint, milliseconds limit, Deadline deadline,
             std::atomic<const char*>& stage) {
  stage = "looking up MASTER_ADDR's name: ask the resolver";
  const std::string where = fmt::format("{}:{}", world.master_addr, world.master_port);
  const Hello self{draw_token(), world.rank, world.size, core::host_name(), ::getpid(), fingerprint};
  const std::vector<std::string> addresses = resolve(world.master_addr, deadline);
  Notice notice(world, kLongQuiet, deadline);
  Meeting meeting;
  meeting.hosting = world.rank == 0 && !world.agent_store;
  meeting.master_address = addresses.front();
  if (!meeting.hosting) try {
      meeting.master_address = wait_for_listener(addresses, world.master_port, deadline,
                                                 [&] { notice.waiting_for("rank 0 at " + where); });
    } catch (const DistError& error) {
      throw DistError(
          fmt::format("nothing answers at {} ({}) after {:.0f} s: {}. Is {} running there, and does a "
                      "firewall block the port?",
                      where, fmt::join(addresses, ", "), seconds(limit), error.what(),
                      world.agent_store ? "torchrun's agent" : "rank 0"));
    }
  stage =
      "waiting for an answer from the store: its process may be stopped, or another program may hold the "
      "port";
  int store_fd = world.store_fd;
  if (meeting.hosting && store_fd < 0) {
    if (const std::string own = listening_address(world, addresses); !own.empty()) {
      std::uint16_t port = world.master_port;
      store_fd = listen_at(own, port);
      meeting.master_address = own;
    }
  }
  meeting.raw =
      open_store(world, meeting.master_address, meeting.hosting, store_fd, deadline, meeting.server);
  const Announcement group = world.rank == 0 ? Host(*meeting.raw, self).gather_members(world, limit, deadline)
                                             : join_host(*meeting.raw, self, where, limit, deadline, notice);
  meeting.members = group.members;
  meeting.store = c10::make_intrusive<c10d::PrefixStore>("snake/run/" + group.id, meeting.raw);
  return meeting;
}

}  // namespace snake_ddp::dist
