// The meeting before the group: finds the store, agrees on who is in, and gives them a private corner of the
// store.
//
// torchrun's agent keeps its store over restarts, old keys included, and its restart count differs between
// machines. So nothing here trusts a key that was there before:
//   - every process draws a token and appends a greeting with it to a log in the store;
//   - rank 0 draws an id and offers it to each token in the log; only a living process answers its own offer;
//   - when each rank has answered, rank 0 announces the group: id and members. Who
//     sees another token than its own at its place knows that two processes claim one rank.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "roll.hpp"
#include "snake_ddp/base/deadline.hpp"
#include "snake_ddp/dist/world.hpp"

namespace snake_ddp::dist {

struct Meeting {
  c10::intrusive_ptr<c10d::Store> raw;    // the launcher's or rank 0's, shared with others
  c10::intrusive_ptr<c10d::Store> store;  // this group's own corner
  std::vector<Hello> members;             // in rank order
  std::string master_address;             // numeric
  bool hosting = false;                   // the store lives in this process
};

/// Waits   until all ranks are there. `limit` is the whole time given for joining, for messages. `stage`
///         tells another thread what a library call without a deadline is busy with.
/// Throws  DistError: who is missing, claims a taken rank, has another world size or build; port taken; no
///         listener.
Meeting meet(const World& world, const std::string& fingerprint, std::chrono::milliseconds limit,
             base::Deadline deadline, std::atomic<const char*>& stage);

}  // namespace snake_ddp::dist
