// Names of settings that a user may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace snake_ddp::config {

/// What a user may have meant by an unknown setting: the known names for what other programs call so (`lr`,
/// `total_timesteps`), otherwise the nearest name; empty when there is neither.
std::vector<std::string> near_names(const std::string& name, const std::vector<std::string>& known);

/// As "; did you mean --a or --b?", each name between `before` and `after`; empty without names.
std::string did_you_mean(const std::vector<std::string>& names, std::string_view before = "",
                         std::string_view after = "");

}  // namespace snake_ddp::config
