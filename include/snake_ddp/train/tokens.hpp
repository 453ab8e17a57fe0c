// The networks of --tokens.
#pragma once

#include <string>

#include "snake_ddp/nets/token_reader.hpp"

namespace snake_ddp::train {

/// The best tokenizer and mask predictor in `folder`.
/// Throws  FileError if the files are missing, damaged, or made for other observations.
nets::TokenReader token_reader(const std::string& folder, at::Device device);

}  // namespace snake_ddp::train
