// What --tokens names.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "snake_ddp/nets/token_reader.hpp"

namespace snake_ddp::train {

/// The best tokenizer and mask predictor in `folder`.
/// Throws  FileError where the files are missing, damaged or do not fit what snakes see here.
nets::TokenReader token_reader(const std::string& folder, at::Device device);

}  // namespace snake_ddp::train
