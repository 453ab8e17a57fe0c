#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command_line.hpp"
#include "app/replay_page.hpp"
#include "app/report_data.hpp"
#include "app/team.hpp"
#include "embedded.hpp"
#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::app {
namespace {

struct ReportArgs {
  ReportOptions data;
  std::string html;
  bool json = false, watch = false;
  double every = 10;
};

bool any_running(const nlohmann::ordered_json& data) {
  const nlohmann::ordered_json& runs = data.at("runs");
  return std::any_of(runs.begin(), runs.end(), [](const auto& run) { return run.at("state") == "running"; });
}

}  // namespace

Action add_report(CLI::App& command) {
  const auto line = std::make_shared<ReportArgs>();
  command
      .add_option("runs", line->data.runs, "run folders; runs that differ only in their seed share a curve")
      ->option_text("RUN ...");
  command.add_option("--html", line->html, "write the page to this file")->option_text("FILE");
  command.add_flag("--json", line->json, "print what the page shows as one JSON object on stdout");
  command.add_option("--preset", line->data.preset, "preset to compare the settings with [the defaults]")
      ->option_text("FILE");
  add_number(command, "ladder_games", line->data.ladder_games,
             "games of the last weights against each scripted team and the champion; 0: none", 0, 100'000);
  command
      .add_option("--champion", line->data.champion,
                  fmt::format("another actor to play against [{}, if it exists]", kChampion))
      ->option_text("FILE");
  command.add_flag("--watch", line->watch, "rewrite the page until the last of the runs has ended");
  add_number(command, "every", line->every, "seconds between rewrites with --watch", 0.1, 86'400.0);
  only_with(command, "--every", "--watch");
  return [line]() -> int {
    if (line->data.runs.empty())
      throw core::UsageError(
          "report needs the folder of a run, for example runs/snakes_3v3/run1_…; see --help");
    if (line->html.empty() == !line->json)
      throw core::UsageError("report needs either --html OUT, for a page, or --json");
    if (line->watch && line->json) throw core::UsageError("--watch is for --html");
    if (line->data.champion.empty() && io::is_there(kChampion)) line->data.champion = kChampion;
    if (!line->html.empty()) io::check_output(line->html);
    for (;;) {
      nlohmann::ordered_json data = report_data(line->data);
      if (line->json) {
        core::print_result(data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
        return core::kExitDone;
      }
      const bool goes_on = line->watch && any_running(data);
      data["reload_s"] = goes_on ? std::ceil(line->every) : 0;
      const std::string page = with_data(kReportPageHtml, "report", data);
      io::write_output(line->html, page);
      if (!goes_on) {
        core::print_result(
            fmt::format("{}: {}, {} kB; open it in a browser\n", line->html,
                        core::counted(static_cast<std::int64_t>(line->data.runs.size()), "run"),
                        (page.size() + 999) / 1000));
        return core::kExitDone;
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(line->every));
    }
  };
}

}  // namespace snake_ddp::app
