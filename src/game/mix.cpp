#include "snake_ddp/game/mix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::game {

namespace {

constexpr std::string_view kSelf = "self", kLeague = "league", kFile = "file";
constexpr int kMostFiles = 100;
// About weights: an actor's last layer, and which of two observations of one size.
constexpr std::array<std::string_view, 4> kWords{"softmax", "tanh", "view", "ahead"};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

Mix parse_mix(const std::string& text) {
  Mix mix;
  if (text.empty()) return mix;
  const auto refuse = [&](const std::string& why) {
    throw core::UsageError(fmt::format(
        "--opponent_mix {}: {}; write NAME:WEIGHT,NAME:WEIGHT with these names: {}, {}, {}, or {}:PATH; for "
        "example level2:0.7,self:0.3",
        text, why, fmt::join(opponent_names(), ", "), kSelf, kLeague, kFile));
  };
  int files = 0;
  for (const std::string& part : split(text, ',')) {
    std::vector<std::string> pieces = split(part, ':');
    const bool is_file = pieces[0] == kFile && pieces.size() > 1;
    std::vector<std::string> words;
    if (is_file) {
      pieces.erase(pieces.begin());
      const auto is_word = [](const std::string& piece) {
        return std::find(kWords.begin(), kWords.end(), piece) != kWords.end();
      };
      while (pieces.size() > 1 && is_word(pieces[1])) {
        words.push_back(pieces[1]);
        pieces.erase(pieces.begin() + 1);
      }
    }
    if (pieces.size() > 2) refuse(fmt::format("\"{}\" has more than one colon", part));
    Share share;
    share.league = !is_file && pieces[0] == kLeague;
    if (is_file) {
      if (pieces[0].empty()) refuse(fmt::format("\"{}\" names no file", part));
      if (files == kMostFiles) refuse(fmt::format("more than {} files", kMostFiles));
      share.file = pieces[0];
      share.words = words;
      share.rival.frozen = Rival::kFirstFile + files++;
    } else if (!share.league && pieces[0] != kSelf) {
      share.rival.scripted = try_opponent(pieces[0]);
      if (!share.rival.scripted) refuse(fmt::format("\"{}\" is not an opponent", pieces[0]));
    }
    if (pieces.size() == 2) {
      share.weight = core::try_number<double>(pieces[1]).value_or(0.0);
      if (!(share.weight > 0) || share.weight > 1e6)
        refuse(fmt::format("\"{}\" is not a weight above 0", pieces[1]));
    }
    if (std::any_of(mix.begin(), mix.end(), [&](const Share& other) {
          return is_file ? other.file == share.file
                         : other.rival == share.rival && other.league == share.league;
        }))
      refuse(fmt::format("\"{}\" is named twice", pieces[0]));
    mix.push_back(share);
  }
  return mix;
}

std::size_t place_of(double unit, const std::vector<double>& weights) {
  double total = 0;
  std::size_t last = weights.size();
  for (std::size_t k = 0; k < weights.size(); ++k) {
    total += weights[k];
    if (weights[k] > 0) last = k;
  }
  SD_CHECK(total > 0, "a mix needs a weight above 0");
  double left = unit * total;
  for (std::size_t k = 0; k < last; ++k) {
    left -= weights[k];
    if (left < 0) return k;
  }
  return last;
}

const Share& drawn(const Mix& mix, std::uint64_t seed, std::uint64_t game) {
  std::vector<double> weights;
  for (const Share& share : mix) weights.push_back(share.weight);
  const float unit = core::unit_float(core::random_block(seed, game, 0, core::Purpose::kRival).word[0]);
  return mix[place_of(static_cast<double>(unit), weights)];
}

std::vector<std::int64_t> boards_of(const Mix& mix, std::int64_t boards) {
  const auto shares = static_cast<std::int64_t>(mix.size());
  if (boards < shares)
    throw core::UsageError(
        fmt::format("--num_envs {}: --opponent_mix names {}, and each of them has boards of its own; set "
                    "--num_envs to {} or more",
                    boards, core::counted(shares, "opponent"), shares));
  double total = 0;
  for (const Share& share : mix) total += share.weight;
  // One board each; the others one by one, always to the share that is farthest below its part.
  std::vector<std::int64_t> counts(mix.size(), 1);
  for (std::int64_t left = boards - shares; left > 0; --left) {
    const auto lacks = [&](std::size_t k) {
      return mix[k].weight / total * static_cast<double>(boards) - static_cast<double>(counts[k]);
    };
    std::size_t most = 0;
    for (std::size_t k = 1; k < mix.size(); ++k)
      if (lacks(k) > lacks(most)) most = k;
    ++counts[most];
  }
  return counts;
}

std::int64_t code_of(const Rival& rival) {
  if (rival.is_frozen()) return kFirstFrozenCode - rival.frozen;
  return rival.is_self() ? kSelfCode : static_cast<std::int64_t>(*rival.scripted);
}

Rival rival_of(std::int64_t code) {
  SD_CHECK(code >= kLastFrozenCode && code < static_cast<std::int64_t>(kOpponents.size()),
           "a rival's number must be one that code_of gives");
  if (code <= kFirstFrozenCode) return {std::nullopt, static_cast<int>(kFirstFrozenCode - code)};
  if (code == kSelfCode) return {};
  return {static_cast<Opponent>(code)};
}

std::string_view name(const Rival& rival) {
  return rival.scripted ? name(*rival.scripted) : rival.is_frozen() ? "frozen" : kSelf;
}

std::string name(const Share& share) {
  if (!share.file.empty()) return fmt::format("{}:{}", kFile, share.file);
  return std::string(share.league ? kLeague : name(share.rival));
}

int level_of(const Rival& rival) {
  if (rival.scripted) return static_cast<int>(*rival.scripted);
  return static_cast<int>(kOpponents.size()) + (rival.is_frozen() ? 1 : 0);
}

}  // namespace snake_ddp::game
