// The roll call: the records that processes exchange through the store before a group exists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace snake_ddp::dist {

/// What a process reports about itself.
struct Hello {
  std::string
      token;  // drawn by this process at this start; nothing left over from an earlier start can match it
  int rank = 0;
  int size = 1;  // of the world, from this process's environment
  std::string host;
  long pid = 0;
  std::string fingerprint;  // of the build

  /// "rank 1 on nodeA (pid 77)"
  [[nodiscard]] std::string describe() const;
};

std::string encode(const Hello& hello);
Hello decode_hello(std::string_view text);  // throws DistError if the text is not a Hello

/// Rank 0's verdict on the processes that answered it.
struct Roll {
  std::string refusal;         // why no group can form; empty if one can
  std::vector<int> missing;    // ranks
  std::vector<Hello> members;  // in rank order; complete if no rank is missing and there is no refusal
};

/// Compares those that `answered` with rank 0's own view of the world.
Roll call_roll(const Hello& rank_zero, const std::vector<Hello>& answered);

/// "1, 3-5"
std::string rank_list(const std::vector<int>& ranks);

}  // namespace snake_ddp::dist
