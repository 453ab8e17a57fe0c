#include "roll.hpp"

#include <fmt/format.h>

#include <optional>
#include <type_traits>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::dist {
namespace {

constexpr char kSeparator = '\n';

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == kSeparator) c = ' ';
  return text;
}

}  // namespace

std::string Hello::describe() const { return fmt::format("rank {} on {} (pid {})", rank, host, pid); }

std::string encode(const Hello& h) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", one_line(h.token), h.rank, h.size, one_line(h.host), h.pid,
                     one_line(h.fingerprint));
}

Hello decode_hello(std::string_view text) {
  const auto word = [&] {
    const std::size_t end = std::min(text.find(kSeparator), text.size());
    const std::string_view found = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return found;
  };
  const auto number = [&](auto& value) {
    const std::string_view digits = word();
    const auto read = core::try_number<std::remove_reference_t<decltype(value)>>(digits);
    if (!read)
      throw core::DistError(
          fmt::format("the store contains an unknown greeting ('{}'): is another program at "
                      "this port?",
                      digits));
    value = *read;
  };
  Hello h;
  h.token = word();
  number(h.rank);
  number(h.size);
  h.host = word();
  number(h.pid);
  h.fingerprint = word();
  if (h.rank < 0 || h.rank >= h.size)
    throw core::DistError(fmt::format("{} reports a world size of {}", h.describe(), h.size));
  return h;
}

Roll call_roll(const Hello& rank_zero, const std::vector<Hello>& answered) {
  std::vector<std::optional<Hello>> places(static_cast<std::size_t>(rank_zero.size));
  places[0] = rank_zero;
  Roll roll;
  for (const Hello& h : answered) {
    if (h.size != rank_zero.size)
      roll.refusal =
          fmt::format("the world sizes differ: {} was started with WORLD_SIZE={}, {} with WORLD_SIZE={}",
                      h.describe(), h.size, rank_zero.describe(), rank_zero.size);
    else if (std::optional<Hello>& place = places[static_cast<std::size_t>(h.rank)]; place)
      roll.refusal = fmt::format(
          "two processes claim rank {}: one on {} (pid {}) and one on {} (pid {}). Give each its "
          "own RANK, and look for a process left over from an earlier run",
          h.rank, place->host, place->pid, h.host, h.pid);
    else if (h.fingerprint != rank_zero.fingerprint)
      roll.refusal =
          fmt::format("the builds differ: {} runs '{}', {} runs '{}'. Start the same binary everywhere",
                      h.describe(), h.fingerprint, rank_zero.describe(), rank_zero.fingerprint);
    else
      place = h;
    if (!roll.refusal.empty()) return roll;
  }
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (places[r])
      roll.members.push_back(*places[r]);
    else
      roll.missing.push_back(static_cast<int>(r));
  }
  return roll;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += last > i + 1 ? fmt::format("{}-{}", ranks[i], ranks[last]) : std::to_string(ranks[i]);
    if (last > i + 1) i = last;
  }
  return text;
}

}  // namespace snake_ddp::dist
