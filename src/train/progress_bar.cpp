#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "snake_ddp/train/reporter.hpp"

namespace snake_ddp::train {
namespace {

constexpr int kLeastCells = 5, kMostCells = 30;  // between the bar's ends

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::ceil(seconds));
  if (s >= 48 * 3600) return fmt::format("{}d {}h", s / 86400, s / 3600 % 24);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{:02}:{:02}", s / 60, s % 60);
}

std::string rate_text(double rate) {
  if (rate >= 1e6) return fmt::format("{:.2f}M", rate / 1e6);
  if (rate >= 1e4) return fmt::format("{:.1f}k", rate / 1e3);
  return fmt::format("{:.0f}", rate);
}

struct Bound {
  double share = 0;  // done, 0 to 1
  std::optional<double> seconds_left;
  std::string count;
};

Bound first_bound(const RunProgress& p) {
  const auto of = [](double part, double whole) { return std::clamp(part / whole, 0.0, 1.0); };
  Bound episodes{of(static_cast<double>(p.episode), static_cast<double>(p.max_episodes)), std::nullopt,
                 fmt::format("episode {} of {}", p.episode, p.max_episodes)};
  if (p.episodes_per_s > 0)
    episodes.seconds_left =
        static_cast<double>(std::max<std::int64_t>(p.max_episodes - p.episode, 0)) / p.episodes_per_s;
  if (p.max_seconds <= 0) return episodes;
  const Bound time{of(p.seconds, p.max_seconds), std::max(p.max_seconds - p.seconds, 0.0),
                   fmt::format("{} of {}", clock_text(p.seconds), clock_text(p.max_seconds))};
  return episodes.seconds_left && *episodes.seconds_left < *time.seconds_left ? episodes : time;
}

}  // namespace

std::string bar_text(const RunProgress& p, int columns) {
  const Bound bound = first_bound(p);
  // The most important first: what does not fit is left out from the end.
  std::vector<std::string> pieces;
  if (bound.seconds_left) pieces.push_back(clock_text(*bound.seconds_left) + " left");
  if (p.win_rate && !p.evaluated) {
    pieces.push_back(fmt::format("training win rate {:.1f} %", 100 * *p.win_rate));
  } else if (p.win_rate) {
    const std::string target =
        p.target_win_rate > 0 ? fmt::format(" / {:g}", 100 * p.target_win_rate) : std::string();
    pieces.push_back(fmt::format("eval win rate {:.1f}{} %", 100 * *p.win_rate, target));
  }
  if (p.steps_per_s) pieces.push_back(rate_text(*p.steps_per_s) + " steps/s");
  pieces.push_back(bound.count);

  const std::string head = fmt::format("Training {:3.0f}%", std::floor(100 * bound.share));
  const int room = std::max(columns - 1, 0);  // a full row would make some terminals wrap
  const auto cells = [&](const std::string& tail) {
    return room - static_cast<int>(head.size() + std::string(" ||").size() + tail.size());
  };
  std::string tail;
  for (const std::string& piece : pieces) {
    const std::string longer = tail + (tail.empty() ? " " : ", ") + piece;
    if (cells(longer) < kLeastCells) break;
    tail = longer;
  }
  if (cells(tail) < kLeastCells) return head.substr(0, static_cast<std::size_t>(room));
  const int all = std::min(cells(tail), kMostCells), full = static_cast<int>(bound.share * all);
  return fmt::format("{} |{:#<{}}{:{}}|{}", head, "", full, "", all - full, tail);
}

}  // namespace snake_ddp::train
