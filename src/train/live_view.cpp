#include "train/live_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace snake_ddp::train {
namespace {

constexpr int kLeastCells = 5, kMostCells = 30;     // between the bar's ends
constexpr int kLeastColumns = 60, kLeastRows = 16;  // of a terminal for the screen
constexpr std::size_t kMostMeans = 256;
constexpr double kQuiet_s = 3;       // without a report; then the current activity is shown
constexpr double kStraggler = 0.15;  // how much more of its time a rank works than those that wait for it
constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
    kSigns{"_", ".", "-", "~", "=", "+", "*", "#"};

struct Bound {
  double share = 0;  // done, 0 to 1
  std::optional<double> seconds_left;
  std::string count;
};

Bound first_bound(const RunProgress& p) {
  const auto of = [](double part, double whole) { return std::clamp(part / whole, 0.0, 1.0); };
  const bool by_steps = p.total_steps > 0;
  const auto done = static_cast<double>(by_steps ? p.board_steps : p.episode),
             all = static_cast<double>(by_steps ? p.total_steps : p.max_episodes);
  const double rate = by_steps ? p.steps_per_s.value_or(0) : p.episodes_per_s;
  Bound episodes{of(done, all), std::nullopt,
                 by_steps ? fmt::format("{:.1f} of {:.1f} million steps", done / 1e6, all / 1e6)
                          : fmt::format("episode {} of {}", p.episode, p.max_episodes)};
  if (rate > 0) episodes.seconds_left = std::max(all - done, 0.0) / rate;
  if (p.max_seconds <= 0) return episodes;
  const Bound time{of(p.seconds, p.max_seconds), std::max(p.max_seconds - p.seconds, 0.0),
                   fmt::format("{} of {}", clock_text(p.seconds), clock_text(p.max_seconds))};
  return episodes.seconds_left && *episodes.seconds_left < *time.seconds_left ? episodes : time;
}

std::size_t width(std::string_view text) {  // all our characters are one column wide
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string clipped(std::string text, std::size_t room) {
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end)
    if ((text[end] & 0xc0) != 0x80 && seen++ == room) break;
  text.resize(end);
  return text;
}

std::string padded(std::string text, std::size_t cells) {
  const std::size_t used = width(text);
  return used < cells ? text + std::string(cells - used, ' ') : text;
}

std::string repeated(std::string_view piece, std::size_t times) {
  std::string all;
  for (std::size_t k = 0; k < times; ++k) all += piece;
  return all;
}

// As many of the ranks as fit: all in order, or first the busiest, which the others wait for.
std::string ranks_text(const std::vector<RankState>& ranks, std::size_t room) {
  const auto state = [&](std::size_t rank) {
    const RankState& r = ranks[rank];
    return r.own_work ? fmt::format("{} {:.0f} %", rank, 100 * *r.own_work)
                      : fmt::format("{} {:.0f} MB", rank, r.memory_mb);
  };
  const auto listed = [&](const std::vector<std::size_t>& order, std::size_t count) {
    std::string text;
    for (std::size_t k = 0; k < count; ++k) text += (k == 0 ? "" : ", ") + state(order[k]);
    if (count < order.size()) text += fmt::format(", {} more", order.size() - count);
    return text;
  };
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), 0);
  const auto work = [&](std::size_t rank) { return ranks[rank].own_work.value_or(0); };
  const std::size_t busiest = *std::max_element(
      order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return work(a) < work(b); });
  double others = 0;
  for (const std::size_t rank : order) others += rank == busiest ? 0 : work(rank);
  others /= static_cast<double>(ranks.size() - 1);
  std::set<std::string> hosts;
  for (const RankState& r : ranks) hosts.insert(r.host);
  const auto [least, most] =
      std::minmax_element(ranks.begin(), ranks.end(),
                          [](const RankState& a, const RankState& b) { return a.memory_mb < b.memory_mb; });
  std::string tail;
  if (ranks[busiest].own_work)
    tail = work(busiest) - others >= kStraggler
               ? fmt::format(" at work; the others wait for rank {}{}", busiest,
                             hosts.size() > 1 ? " on " + ranks[busiest].host : "")
               : " of their time at work";
  const std::string memory =
      ranks[busiest].own_work ? fmt::format(", {:.0f} to {:.0f} MB", least->memory_mb, most->memory_mb) : "";
  std::size_t count = order.size();
  if (width(listed(order, count) + tail) > room) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return work(a) > work(b); });
    while (count > 1 && width(listed(order, count) + tail) > room) --count;
  }
  const std::string text = listed(order, count) + tail;
  return width(text + memory) <= room ? text + memory : text;
}

}  // namespace

void Sparkline::add(double value) {
  sum_ += value;
  if (++count_ < span_) return;
  means_.push_back(std::exchange(sum_, 0) / static_cast<double>(std::exchange(count_, 0)));
  if (means_.size() < kMostMeans) return;
  means_ = cells_of(kMostMeans / 2);
  span_ *= 2;
}

std::vector<double> Sparkline::cells_of(std::size_t cells) const {
  const std::size_t count = means_.size(), places = std::min(count, cells);
  std::vector<double> out(places);
  for (std::size_t place = 0; place < places; ++place) {
    const std::size_t begin = place * count / places, end = (place + 1) * count / places;
    for (std::size_t i = begin; i < end; ++i) out[place] += means_[i] / static_cast<double>(end - begin);
  }
  return out;
}

std::string Sparkline::drawn(std::size_t cells, double low, double high, bool utf8) const {
  std::string text;
  for (const double value : cells_of(cells)) {
    const double height = high > low ? (value - low) / (high - low) : 0.5;
    const auto level = std::isfinite(height) ? static_cast<std::size_t>(std::clamp(8 * height, 0.0, 7.0)) : 7;
    text += utf8 ? kBlocks[level] : kSigns[level];
  }
  return text;
}

std::string Sparkline::drawn(std::size_t cells, bool utf8) const {
  const std::vector<double> all = cells_of(cells);
  if (all.empty()) return {};
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  return drawn(cells, *low, *high, utf8);
}

std::string target_text(const RunProgress& p) {
  return p.target_win_rate > 0 ? fmt::format(" / {:g}", 100 * p.target_win_rate) : std::string();
}

std::string rate_text(double rate) {
  if (rate >= 1e6) return fmt::format("{:.2f}M", rate / 1e6);
  if (rate >= 1e4) return fmt::format("{:.1f}k", rate / 1e3);
  return fmt::format("{:.0f}", rate);
}

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::ceil(seconds));
  if (s >= 48 * 3600) return fmt::format("{}d {}h", s / 86400, s / 3600 % 24);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{:02}:{:02}", s / 60, s % 60);
}

std::string bar_text(const RunProgress& p, int columns) {
  const Bound bound = first_bound(p);
  std::vector<std::string> pieces;
  if (bound.seconds_left) pieces.push_back(clock_text(*bound.seconds_left) + " left");
  if (p.win_rate && !p.evaluated) {
    pieces.push_back(fmt::format("training win rate {:.1f} %", 100 * *p.win_rate));
  } else if (p.win_rate) {
    pieces.push_back(fmt::format("eval win rate {:.1f}{} %", 100 * *p.win_rate, target_text(p)));
  }
  if (p.steps_per_s) pieces.push_back(rate_text(*p.steps_per_s) + " steps/s");
  pieces.push_back(bound.count);

  return bar_line("Training", bound.share, pieces, columns);
}

std::string bar_line(const std::string& what, double share, const std::vector<std::string>& pieces,
                     int columns) {
  const std::string head = fmt::format("{} {:3.0f}%", what, std::floor(100 * share));
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
  const int all = std::min(cells(tail), kMostCells), full = static_cast<int>(share * all);
  return fmt::format("{} |{:#<{}}{:{}}|{}", head, "", full, "", all - full, tail);
}

std::string screen_text(const RunProgress& p, const Doing& doing, int columns, bool utf8) {
  const auto room = static_cast<std::size_t>(std::max(columns - 1, 1));
  const std::size_t cells = std::clamp<std::size_t>(room / 4, 10, kMostCells), label = 12;
  std::vector<std::string> lines;
  const std::string title = clipped("-- " + p.title + " ", room);
  lines.push_back(title + std::string(room - width(title), '-'));
  const auto add = [&](const char* name, const std::string& picture, const std::string& words) {
    lines.push_back(
        clipped(padded(name, label) + (picture.empty() ? "" : padded(picture, cells) + "  ") + words, room));
  };

  const Bound bound = first_bound(p);
  const auto full = static_cast<std::size_t>(bound.share * static_cast<double>(cells));
  std::string time = fmt::format("{:.0f} %", std::floor(100 * bound.share));
  if (bound.seconds_left) time += fmt::format(", {} left", clock_text(*bound.seconds_left));
  time += ", " + bound.count;
  if (!bound.count.starts_with("episode")) time += fmt::format(", episode {}", p.episode);
  add("time", repeated(utf8 ? "█" : "#", full) + repeated(utf8 ? "░" : ".", cells - full), time);
  if (!p.evaluation.empty()) add("evaluation", p.evaluations.drawn(cells, 0, 1, utf8), p.evaluation);
  if (!p.training.empty()) add("training", p.training_wins.drawn(cells, 0, 1, utf8), p.training);
  if (!p.league.empty()) add("league", p.elo.drawn(cells, utf8), p.league);
  if (!p.losses.empty()) add("loss", p.critic_loss.drawn(cells, utf8), p.losses);
  if (!p.speed.empty()) add("speed", "", p.speed);
  if (p.ranks.size() > 1) add("ranks", "", ranks_text(p.ranks, room - label));
  if (doing.quiet_seconds >= kQuiet_s)
    add("now", "", fmt::format("{}, for {:.0f} s", doing.what, doing.seconds));

  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

LiveView::LiveView(core::Console& console, std::function<Doing()> doing)
    : console_(console), doing_(std::move(doing)) {
  if (!console_.terminal()) return;
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; }))
      if (shown_ && Clock::now() - shown_at_ > std::chrono::milliseconds(1500)) draw();
  });
}

LiveView::~LiveView() { end(); }

void LiveView::show(const RunProgress& progress) {
  if (!console_.terminal()) return;
  const std::lock_guard guard(mutex_);
  shown_ = progress;
  shown_at_ = Clock::now();
  if (!ended_) draw();
}

void LiveView::end() {
  {
    const std::lock_guard guard(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  console_.clear_bar();
}

void LiveView::draw() {
  const core::Console::Size size = console_.size();
  RunProgress now = *shown_;
  const double quiet_s = std::chrono::duration<double>(Clock::now() - shown_at_).count();
  now.seconds += quiet_s;
  const bool fits = size.columns >= kLeastColumns && size.rows >= kLeastRows;
  Doing doing = doing_ ? doing_() : Doing{};
  doing.quiet_seconds = quiet_s;
  console_.bar(abilities_.escapes && fits ? screen_text(now, doing, size.columns, abilities_.utf8)
                                          : bar_text(now, size.columns));
}

}  // namespace snake_ddp::train
