// The territory heuristic's weights as text, and random variations of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "snake_ddp/agents/opponents.hpp"

namespace snake_ddp::agents {

/// In the order of the struct.
using WeightList = std::array<int, sizeof(territory::Weights) / sizeof(int)>;

/// "9,2,1,40,42,45,8,40,25": whole numbers from -100,000 to 100,000, as many as there are weights. None for anything else.
std::optional<territory::Weights> try_weights(std::string_view text);
std::string to_string(const territory::Weights& weights);

/// Candidate `number` of a random search: the default weights, each times 10 and a random factor between 1/4
/// and 4 whose logarithm is uniform. Candidate 0 is the default weights themselves.
territory::Weights random_weights(std::uint64_t seed, std::uint64_t number);

}  // namespace snake_ddp::agents
