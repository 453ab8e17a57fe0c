#include "team.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/moves.hpp"

namespace snake_ddp::python {
namespace {

constexpr std::size_t kSeats = game::kTeamSize, kValues = game::kMoves;

class NetworkMover final : public play::Mover {
 public:
  NetworkMover(std::shared_ptr<const Team> team, std::uint64_t seed)
      : team_(std::move(team)), passes_(*team_), seed_(seed) {}

  void act(std::span<const game::State> boards, std::span<const std::uint8_t> team, std::int64_t first_game,
           std::span<game::Actions> actions, std::span<play::Reasons> /*reasons*/) override {
    choose(
        *team_, passes_, boards, team,
        [&](std::size_t k) {
          return core::random_block(seed_, static_cast<std::uint64_t>(first_game) + k,
                                    static_cast<std::uint32_t>(boards[k].step() * 2 + team[k]),
                                    core::Purpose::kAct);
        },
        actions);
  }

 private:
  std::shared_ptr<const Team> team_;
  Passes passes_;
  std::uint64_t seed_;
};

}  // namespace

Team scripted_team(const std::string& name) {
  Team team;
  team.script = game::try_opponent(name);
  if (!team.script) {
    throw core::UsageError(
        fmt::format("\"{}\" is not an opponent: {}", name, fmt::join(game::opponent_names(), ", ")));
  }
  return team;
}

Passes::Passes(const Team& team)
    : q_net_(team.q_net),
      actor_(team.actor),
      row_floats_(team.obs_spec.features() + 1),
      rows_(kBoards * kSeats * static_cast<std::size_t>(row_floats_)),
      values_(kBoards * kSeats * kValues) {
  SD_CHECK((q_net_ != nullptr) != (actor_ != nullptr), "a network");
  if (actor_) hidden_.resize(kBoards * kSeats * static_cast<std::size_t>(actor_->hidden));
}

const float* Passes::run(std::int64_t boards) {
  const std::int64_t rows = boards * game::kTeamSize;
  if (q_net_) {
    play::forward(*q_net_, rows, rows_.data(), row_floats_, q_scratch_, values_.data());
  } else {
    forward(*actor_, rows, rows_.data(), hidden_.data(), values_.data());
  }
  return values_.data();
}

void choose(const Team& team, Passes& passes, std::span<const game::State> boards,
            std::span<const std::uint8_t> sides, const std::function<core::RandomBlock(std::size_t)>& draw,
            std::span<game::Actions> actions) {
  const std::size_t row = kSeats * static_cast<std::size_t>(passes.row_floats());
  std::array<std::size_t, Passes::kBoards> place;
  for (std::size_t next = 0; next < boards.size();) {
    std::size_t count = 0;
    for (; next < boards.size() && count < place.size(); ++next) {
      if (boards[next].done()) continue;
      team.obs_spec.write(boards[next], sides[next], passes.rows() + count * row);
      place[count++] = next;
    }
    const float* values = passes.run(static_cast<std::int64_t>(count));
    for (const std::size_t k : std::span(place).first(count)) {
      const core::RandomBlock words = draw(k);
      for (std::size_t snake = 0; snake < kSeats; ++snake, values += kValues) {
        const auto index = static_cast<int>(sides[k] * kSeats + snake);
        const unsigned open = team.avoids_fatal() ? game::open_moves(boards[k], index) : play::kAllMoves;
        actions[k].of[index] =
            move_of(team, team.obs_spec.up(boards[k], index), values, open, words.word[snake]);
      }
    }
  }
}

void act_in_blocks(play::Mover& mover, std::span<const game::State> boards,
                   std::span<const std::uint8_t> sides, std::int64_t first_game,
                   std::span<game::Actions> actions) {
  for (std::size_t b = 0; b < boards.size(); b += play::kBlock) {
    const std::size_t count = std::min<std::size_t>(play::kBlock, boards.size() - b);
    mover.act(boards.subspan(b, count), sides.subspan(b, count), first_game + static_cast<std::int64_t>(b),
              actions.subspan(b, count), {});
  }
}

play::MakeMover mover_of(const std::shared_ptr<const Team>& team) {
  if (team->script) return play::scripted(*team->script);
  if (team->values) return play::mover(team->search, *team->values);
  if (team->search) return play::mover(team->search, team->obs_spec);
  return [team](std::uint64_t seed) { return std::make_unique<NetworkMover>(team, seed); };
}

}  // namespace snake_ddp::python
