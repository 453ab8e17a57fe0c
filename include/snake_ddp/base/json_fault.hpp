// What is wrong with a text that should be JSON, in plain words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace snake_ddp::base {

/// Where a parser gave up: "line 2, column 7, after {"a": 1,,". `bytes` is how many it had read.
std::string json_fault(std::string_view text, std::size_t bytes);

/// The message of the JSON library's exception without the exception's name.
std::string plain_json_error(std::string_view what);

}  // namespace snake_ddp::base
