// The meeting before the group: finds the store, agrees on the members, and gives them a private part of the store.
//
// torchrun's agent keeps its store across restarts, with old keys, and its restart count differs between
// machines. So nothing here trusts an existing key:
//   - every process draws a token and appends a Hello with it to a log in the store;
//   - rank 0 draws an id and offers it to each token in the log; only a living process answers its own offer;
//   - when each rank has answered, rank 0 announces the group: id and members. A process
//     that finds a token other than its own at its rank knows that two processes claim it.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dist/world.hpp"
#include "roll.hpp"
#include "snake_ddp/core/deadline.hpp"

namespace snake_ddp::dist {

class StoreServer;

struct Meeting {
  std::shared_ptr<StoreServer>
      server;  // of the store, if this process hosts it; outlives the connections to it
  c10::intrusive_ptr<c10d::Store> raw;    // the launcher's or rank 0's, shared with others
  c10::intrusive_ptr<c10d::Store> store;  // this group's own part of it
  std::vector<Hello> members;             // in rank order
  std::string master_address;             // numeric
  bool hosting = false;                   // this process hosts the store
};

/// Waits   until all ranks are there. `limit` is the whole time allowed for joining, for messages. `stage` is set
///         before each library call without a deadline, for messages of another thread.
/// Throws  DistError: a rank is missing, claims a taken number, has another world size or build; port taken; no
///         listener.
Meeting meet(const World& world, const std::string& fingerprint, std::chrono::milliseconds limit,
             core::Deadline deadline, std::atomic<const char*>& stage);

}  // namespace snake_ddp::dist
