#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/base/console.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/text.hpp"
#include "snake_ddp/records/verify_trace.hpp"

namespace snake_ddp::app {
namespace {

struct VerifyLine {
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
    base::print_result(fmt::format("{}\n", out.dump()));
  } else {
    if (games >= 0) base::print_result(fmt::format("{}, ", base::counted(games, "game")));
    base::print_result(
        fmt::format("{}, {}\n", base::counted(count, what), base::counted(mismatches, "mismatch")));
    if (mismatches > 0) base::print_result(fmt::format("first mismatch: {}\n", first));
  }
  return mismatches == 0 ? base::kExitDone : base::kExitBug;
}

}  // namespace

Action add_verify_trace(CLI::App& command) {
  const auto line = std::make_shared<VerifyLine>();
  command.add_option("files", line->files, "recorded games, JSON lines, plain or gzip");
  command.add_option("--encodings", line->encodings, "recorded observations, opponents' moves and rewards");
  command.add_option("--traces", line->traces, "the games that --encodings was recorded from");
  command.add_flag("--json", line->json, "one JSON object on stdout");
  return [line]() -> int {
    if (!line->encodings.empty()) {
      if (line->traces.empty())
        throw base::UsageError("verify-trace --encodings needs --traces, the games it was recorded from");
      const records::EncodingReport r = records::verify_encodings(line->encodings, line->traces);
      return print("state", -1, r.states, r.mismatches, r.first_mismatch, line->json);
    }
    if (line->files.empty())
      throw base::UsageError("verify-trace needs a file of recorded games; see --help");
    const records::TraceReport r = records::verify_traces(line->files);
    return print("step", r.games, r.steps, r.mismatches, r.first_mismatch, line->json);
  };
}

}  // namespace snake_ddp::app
