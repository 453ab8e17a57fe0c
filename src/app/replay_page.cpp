#include "app/replay_page.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "embedded.hpp"
#include "snake_ddp/core/check.hpp"

namespace snake_ddp::app {
namespace {

nlohmann::ordered_json board_json(const io::RecordedBoard& board) {
  return {board.snakes, board.beans, board.directions};
}

}  // namespace

std::string with_data(std::string_view html, std::string_view id, const nlohmann::ordered_json& data) {
  // Plain ASCII without the characters that are special in HTML, which only occur in strings.
  std::string text;
  for (const char c : data.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    switch (c) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += c;
    }
  }
  constexpr std::string_view kNull = "null";
  const std::string place = fmt::format("<script type=\"application/json\" id=\"{}\">{}", id, kNull);
  std::string page(html);
  const std::size_t at = page.find(place);
  SD_CHECK(at != std::string::npos, "the page has no element for its data");
  return page.replace(at + place.size() - kNull.size(), kNull.size(), text);
}

std::string replay_page(const io::RecordedGame& game, const PageNotes& notes) {
  nlohmann::ordered_json boards = {board_json(game.start)}, steps = nlohmann::ordered_json::array();
  for (const io::RecordedStep& step : game.steps) {
    boards.push_back(board_json(step.after));
    steps.push_back({step.actions, step.reward, step.hit});
    if (io::is_explained(step)) steps.back().push_back(io::explanation_json(step.reasons));
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
    for (const play::Loss& loss : *notes.blunders)
      data["blunders"].push_back({loss.step, loss.snake, loss.played, loss.better, loss.points()});
  }
  return with_data(kReplayPageHtml, "game", data);
}

}  // namespace snake_ddp::app
