#include "evaluation_games.hpp"

#include <algorithm>
#include <utility>

#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/folders.hpp"
#include "snake_ddp/records/game_log.hpp"

namespace snake_ddp::train {

EvaluationGames::EvaluationGames(play::MatchOptions& options)
    : seed_(options.seed), swap_sides_(options.swap_sides) {
  options.on_step = [this](std::int64_t number, const game::Actions& actions, const game::StepResult&,
                           const game::State& after) {
    Game& game = games_[number];
    game.moves.push_back(actions);
    game.lead = after.team_return(0) - after.team_return(1);
  };
}

void EvaluationGames::write(const std::string& folder, const std::string& a, const std::string& b) const {
  if (games_.empty()) return;
  std::vector<std::pair<int, std::int64_t>> order;  // worst first
  for (const auto& [number, game] : games_)
    order.emplace_back(swapped(number) ? -game.lead : game.lead, number);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  const auto best = std::find_if(order.begin(), order.end(),
                                 [&](const auto& one) { return one.first == order.back().first; });
  const std::pair<const char*, std::int64_t> chosen[] = {
      {"best", best->second}, {"median", order[order.size() / 2].second}, {"worst", order.front().second}};
  records::make_own_folder(folder);
  for (const auto& [name, number] : chosen) {
    const game::Draws draws{seed_, static_cast<std::uint64_t>(number)};
    game::State board = game::new_board(draws);
    records::RecordedGame record = records::begin_record(board);
    record.names = {a, b};
    if (swapped(number)) std::swap(record.names[0], record.names[1]);
    for (const game::Actions& actions : games_.at(number).moves) {
      const game::StepResult result = game::advance(board, actions, draws);
      records::add_step(record, actions, result, board);
    }
    records::write_file_atomically(folder + "/" + name + ".json", records::game_log_text(record));
  }
}

}  // namespace snake_ddp::train
