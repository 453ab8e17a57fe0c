// A learner's weights when runs compare, load and save them.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <set>

#include "../io/temporary_folder.hpp"
#include "io/state_dict.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "named_tensors.hpp"
#include "weights.hpp"

namespace {

using namespace snake_ddp;
using named_tensors::find;

learners::LearnerOptions small(const std::string& algo, std::uint64_t seed = 1) {
  learners::LearnerOptions o;
  o.algo = algo;
  o.hidden_size = 8;
  o.sequence_length = 4;
  o.burn_in = 1;
  o.seed = seed;
  return o;
}

// Of the first element, or of the last.
void flip_lowest_bit(const at::Tensor& tensor, bool last) {
  std::int64_t element = 0;
  for (std::int64_t d = 0; last && d < tensor.dim(); ++d) element += (tensor.size(d) - 1) * tensor.stride(d);
  auto* bytes = static_cast<std::uint8_t*>(tensor.data_ptr());
  bytes[static_cast<std::size_t>(element) * tensor.element_size()] ^= 1U;  // little-endian
}

}  // namespace

TEST_CASE("the hash of a state changes with one bit of any tensor of any learner", "[unit]") {
  for (const learners::LearnerEntry& entry : learners::registry()) {
    const auto learner = entry.make(small(entry.name));
    const std::string whole = train::state_hash(*learner);
    CHECK(whole.size() == 16);
    CHECK(train::state_hash(*entry.make(small(entry.name))) == whole);
    std::set<std::string> seen = {whole};
    std::size_t flipped = 0;
    for (const auto& [name, tensor] : learner->state()) {
      for (const bool last : {false, true}) {
        if (last && tensor.numel() == 1) continue;
        CAPTURE(entry.name, name, last);
        flip_lowest_bit(tensor, last);
        learner->state_changed();  // a count of updates is kept beside its tensor
        CHECK(seen.insert(train::state_hash(*learner)).second);
        flip_lowest_bit(tensor, last);
        learner->state_changed();
      }
      ++flipped;
    }
    CHECK(flipped >= 10);
    CHECK(train::state_hash(*learner) == whole);
  }
}

TEST_CASE("after --load_model weights are the file's, and each target equals its network", "[unit]") {
  for (const learners::LearnerEntry& entry : learners::registry()) {
    CAPTURE(entry.name);
    io::TemporaryFolder folder;
    train::TrainOptions o;
    o.algo = entry.name;
    o.hidden_size = 8;
    o.runs_dir = folder.path();
    o.load_model = true;
    o.load_model_run = 3;
    o.load_model_run_episode = 40;
    const std::string models = folder / "snakes_3v3/run3_x/trained_model";
    std::filesystem::create_directories(models);
    const auto first = entry.make(small(entry.name, 5)), second = entry.make(small(entry.name, 6));
    io::save_state_dict(models + "/actor_40.pth", first->exported_actor());
    io::save_state_dict(models + "/critic_40.pth", first->exported_critic());
    for (const auto& [name, tensor] : second->state())  // as after updates
      if (name.find("adam.") != std::string::npos) tensor.fill_(0.5);
    second->state_changed();

    train::load_weights(o, *train::weights_to_load(o), *second);
    const nets::NamedTensors then = first->state(), now = second->state();
    for (const auto& [name, tensor] : now) {
      CAPTURE(name);
      // A second critic is in no file; it keeps its own weights.
      if (name.starts_with("critic_2") && name.find("adam.") == std::string::npos) continue;
      CHECK(at::equal(tensor, find(then, name)));
    }
    for (const auto& [name, tensor] : now) {
      CAPTURE(name);
      const std::size_t at = name.find("target.");
      if (at == std::string::npos) continue;
      const std::string of = at == 0 ? name.substr(7) : name.substr(0, at - 1) + "." + name.substr(at + 7);
      CHECK(at::equal(tensor, find(now, of)));
    }
  }
}
