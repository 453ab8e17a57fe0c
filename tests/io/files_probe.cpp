// Driven by test_files_python.py: writes files for Python to read and prints what it reads from Python's.
#include <ATen/ATen.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "io/event_writer.hpp"
#include "io/state_dict.hpp"
#include "snake_ddp/core/error.hpp"

namespace {

using namespace snake_ddp;

// The Python side builds the same with torch; see EXPECTED_STATE there.
void write_state(const std::string& path) {
  const at::Tensor flat = at::arange(40, at::kFloat) / 8;
  io::save_state_dict(path, {{"net.0.weight", flat.slice(0, 0, 12).view({3, 4})},
                             {"net.0.bias", flat.slice(0, 12, 15)},
                             {"transposed", flat.view({5, 8}).t()},
                             {"steps", at::scalar_tensor(-7, at::kLong)},
                             {"half", at::tensor({0.5, -2.0}).to(at::kHalf)},
                             {"brain", at::tensor({0.5, -2.0}).to(at::kBFloat16)},
                             {"double", at::tensor({1.0 / 3.0}, at::kDouble)},
                             {"bool", at::tensor({1, 0}, at::kInt).to(at::kBool)},
                             {"byte", at::tensor({0, 255}, at::kInt).to(at::kByte)},
                             {"empty", at::empty({0, 3}, at::kFloat)},
                             {"name with \xc3\xa9", at::ones({1}, at::kInt)}});
}

void write_events(const std::string& folder) {
  io::EventWriter writer(folder);
  for (int episode = 0; episode < 100; ++episode) {
    writer.scalar("reward/snake_1", 0.25 * episode, episode);
    writer.scalar("loss/actor", -1.0 / (episode + 1), episode);
  }
  writer.scalar("eval/win_rate", 0.75, 1'000'000'000'000);
  writer.flush();
}

nlohmann::json state_as_json(const std::string& path) {
  nlohmann::json items = nlohmann::json::array();
  for (const auto& [name, value] : io::load_state_dict(path)) {
    nlohmann::json numbers = nlohmann::json::array();
    const bool whole = at::isIntegralType(value.scalar_type(), /*includeBool=*/true);
    const at::Tensor wide = value.flatten().to(whole ? at::kLong : at::kDouble);
    for (std::int64_t i = 0; i < wide.numel(); ++i) {
      if (whole) {
        numbers.push_back(wide.const_data_ptr<std::int64_t>()[i]);
      } else {
        numbers.push_back(wide.const_data_ptr<double>()[i]);
      }
    }
    items.push_back({{"name", name},
                     {"type", c10::toString(value.scalar_type())},
                     {"shape", value.sizes().vec()},
                     {"values", numbers}});
  }
  return items;
}

// One line: the contents of the file, or the kind and text of the error.
void print_state(const std::string& path) {
  nlohmann::json line;
  try {
    line = state_as_json(path);
  } catch (const core::FileError& error) {
    line = {{"file_error", error.what()}};
  }
  std::puts(line.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string command = argc >= 3 ? argv[1] : "";
    if (command == "write-state") {
      write_state(argv[2]);
    } else if (command == "write-events") {
      write_events(argv[2]);
    } else if (command == "read") {
      for (int i = 2; i < argc; ++i) print_state(argv[i]);
    } else {
      throw core::UsageError("usage: io_probe write-state FILE | write-events FOLDER | read FILE...");
    }
    return core::kExitDone;
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
