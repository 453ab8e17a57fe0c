#include "snake_ddp/app/replay_page.hpp"

#include <nlohmann/json.hpp>

#include "embedded.hpp"
#include "page_data.hpp"

namespace snake_ddp::app {
namespace {

nlohmann::ordered_json board_json(const records::RecordedBoard& board) {
  return {board.snakes, board.beans, board.directions};
}

}  // namespace

std::string replay_page(const records::RecordedGame& game, const PageNotes& notes) {
  nlohmann::ordered_json boards = {board_json(game.start)}, steps = nlohmann::ordered_json::array();
  for (const records::RecordedStep& step : game.steps) {
    boards.push_back(board_json(step.after));
    steps.push_back({step.actions, step.reward, step.hit});
    if (records::is_explained(step)) steps.back().push_back(records::explanation_json(step.reasons));
  }
  nlohmann::ordered_json data = {{"rows", game::kRows},
                                 {"columns", game::kCols},
                                 {"start_length", game::kStartLength},
                                 {"names", game.names},
                                 {"start_time", game.start_time},
                                 {"end_time", game.end_time},
                                 {"truncated", game.cut_off},
                                 {"file", notes.file},
                                 {"number", notes.number},
                                 {"boards", boards},
                                 {"steps", steps}};
  if (notes.blunders) {
    data["blunders"] = nlohmann::ordered_json::array();
    for (const search::Loss& loss : *notes.blunders)
      data["blunders"].push_back({loss.step, loss.snake, loss.played, loss.better, loss.points()});
  }
  return with_data(kReplayPageHtml, "game", data);
}

}  // namespace snake_ddp::app
