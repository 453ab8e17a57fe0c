// Sums among the ranks of one machine through shared memory: a copy and a sum at memory speed instead of two trips
// through the loopback device. Gloo serves every other case.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "snake_ddp/core/deadline.hpp"
#include "snake_ddp/core/descriptor.hpp"

namespace snake_ddp::dist {

/// "has ended", "is stopped by a signal", or "is alive but did not reach this call".
std::string process_state(long pid);

/// Also true of a process that its parent has not yet waited for.
bool process_has_ended(long pid);

/// A process that has the segment open. Lists of them are in the order of their places in it.
struct Peer {
  int rank = 0;  // in the whole group, for messages
  long pid = 0;
};

/// A segment that `size` processes of one machine have open, each at a place of its own: 0, its maker's, to size - 1.
class SharedSum {
 public:
  /// Creates a segment without a name in any file system: it disappears with the last process that has it
  /// open, however that process ends.
  /// Throws  std::runtime_error where the system has no room or no such memory.
  static std::unique_ptr<SharedSum> create(int size);
  /// Opens the segment with that address. Throws  std::runtime_error where this process cannot.
  static std::unique_ptr<SharedSum> open(const std::string& address, int place, int size);
  ~SharedSum();
  SharedSum(const SharedSum&) = delete;
  SharedSum& operator=(const SharedSum&) = delete;

  /// The address of the segment that this process created, for processes that see this one under the same
  /// pid. Valid as long as this object lives.
  [[nodiscard]] const std::string& address() const { return address_; }

  /// Replaces `values` by its sum over all places, added in their order and divided: the same bits on each.
  /// Collective  each process calls it as often, in the same order, with the same count.
  /// Waits       until `deadline`, or until one of `peers` has ended or given up.
  /// Throws      std::runtime_error then; the segment is unusable after it.
  template <class Number>  // float or std::int64_t
  void sum(Number* values, std::size_t count, Number divisor, const std::vector<Peer>& peers,
           core::Deadline deadline);

  /// Replaces `values` by those at place 0. Otherwise like `sum`.
  template <class Number>
  void broadcast(Number* values, std::size_t count, const std::vector<Peer>& peers, core::Deadline deadline);

  /// Ends the others' waits for this process within moments: for a process whose own call failed elsewhere.
  void give_up() noexcept;

 private:
  struct Layout;
  SharedSum(int place, int size) : place_(place), size_(size) {}
  void map();
  template <class Number>
  void show(const Number* values, std::size_t piece, std::size_t left);
  void await(int place, const std::vector<Peer>& peers, core::Deadline deadline);
  template <class Number, class Combine>
  void in_pieces(Number* values, std::size_t count, const std::vector<Peer>& peers, core::Deadline deadline,
                 Combine combine);
  [[nodiscard]] std::byte* slot(int place) const;

  std::string address_;
  int place_, size_;
  core::Descriptor descriptor_{-1};
  std::uint64_t round_ = 0;
  std::chrono::nanoseconds patience_ =
      std::chrono::microseconds(100);  // how long the next wait spins before it sleeps
  Layout* layout_ = nullptr;
};

}  // namespace snake_ddp::dist
