#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/command_line.hpp"
#include "io/verify_trace.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::app {
namespace {

struct VerifyArgs {
  std::vector<std::string> files;
  std::string encodings, traces;
  bool json = false;
};

int print(const std::string& what, std::int64_t games, std::int64_t count, std::int64_t mismatches,
          const std::string& first, bool json) {
  if (json) {
    nlohmann::ordered_json out;
    if (games >= 0) out["games"] = games;
    out[what + "s"] = count;
    out["mismatches"] = mismatches;
    if (mismatches > 0) out["first_mismatch"] = first;
    core::print_result(fmt::format("{}\n", out.dump()));
  } else {
    if (games >= 0) core::print_result(fmt::format("{}, ", core::counted(games, "game")));
    core::print_result(
        fmt::format("{}, {}\n", core::counted(count, what), core::counted(mismatches, "mismatch")));
    if (mismatches > 0) core::print_result(fmt::format("first mismatch: {}\n", first));
  }
  return mismatches == 0 ? core::kExitDone : core::kExitBug;
}

}  // namespace

Action add_verify_trace(CLI::App& command) {
  const auto line = std::make_shared<VerifyArgs>();
  command.add_option("files", line->files, "recorded games, JSON lines, plain or gzip")
      ->option_text("FILE ...");
  command.add_option("--encodings", line->encodings, "recorded observations, opponents' moves and rewards")
      ->option_text("FILE");
  command.add_option("--traces", line->traces, "the games that --encodings was recorded from")
      ->option_text("FILE");
  command.add_flag("--json", line->json, "one JSON object on stdout");
  return [line]() -> int {
    if (!line->encodings.empty()) {
      if (line->traces.empty())
        throw core::UsageError("verify-trace --encodings needs --traces, the games it was recorded from");
      const io::EncodingReport r = io::verify_encodings(line->encodings, line->traces);
      return print("state", -1, r.states, r.mismatches, r.first_mismatch, line->json);
    }
    if (line->files.empty())
      throw core::UsageError("verify-trace needs a file of recorded games; see --help");
    const io::TraceReport r = io::verify_traces(line->files);
    return print("step", r.games, r.steps, r.mismatches, r.first_mismatch, line->json);
  };
}

}  // namespace snake_ddp::app
