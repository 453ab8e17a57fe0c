// Settings, as in --config and a run's config.json.
#include <nlohmann/json.hpp>

#include "fuzz.hpp"
#include "io/fields.hpp"
#include "snake_ddp/core/check.hpp"

using namespace snake_ddp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  bool flag = false;
  std::int64_t whole = 5, any_whole = 0;
  double real = 0.5, any_real = 0;
  std::string text, choice = "softmax";
  // One of each kind. The names are those of real settings, so that the program's own files serve as a corpus.
  const io::Fields fields = {{"layer_norm", &flag, "", 0, 1, {}},
                             {"batch_size", &whole, "", 1, 1e6, {}},
                             {.name = "seed", .target = &any_whole, .help = "", .choices = {}},
                             {"gamma", &real, "", 0, 1, {}},
                             {.name = "reward_scale", .target = &any_real, .help = "", .choices = {}},
                             {.name = "runs_dir", .target = &text, .help = "", .choices = {}},
                             {"output_activation", &choice, "", 0, 1, {"softmax", "tanh"}}};
  return fuzz::read_or_refuse([&] {
    io::set_from_json_text(fields, fuzz::text_of(data, size), "settings", {"run"});
    io::check(fields);
    SD_CHECK(whole >= 1 && whole <= 1'000'000 && real >= 0 && real <= 1, "a value out of its range");
    SD_CHECK(choice == "softmax" || choice == "tanh", choice);
    const nlohmann::ordered_json before = io::to_json(fields);
    io::set_from_json(fields, nlohmann::json::parse(before.dump()), "what was written");
    SD_CHECK(io::to_json(fields) == before, "another value after being written");
  });
}
