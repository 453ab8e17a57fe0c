#include "snake_ddp/game/observation.hpp"

#include <algorithm>
#include <iterator>

namespace snake_ddp::game {

std::optional<ObsKind> try_obs_kind(std::string_view name) {
  const auto at = std::find(std::begin(kObsKindNames), std::end(kObsKindNames), name);
  if (at == std::end(kObsKindNames)) return std::nullopt;
  return static_cast<ObsKind>(at - std::begin(kObsKindNames));
}

std::string_view name(ObsKind kind) { return kObsKindNames[static_cast<std::size_t>(kind)]; }

std::optional<ObsKind> try_obs_kind(std::int64_t features) {
  for (const auto kind : {ObsKind::k26, ObsKind::k30, ObsKind::kWindow, ObsKind::kView})
    if (obs_size(kind) == features) return kind;
  return std::nullopt;
}

}  // namespace snake_ddp::game
