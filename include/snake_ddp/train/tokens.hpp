// The networks of --tokens.
#pragma once

#include <string>

#include "snake_ddp/learners/with_tokens.hpp"

namespace snake_ddp::train {

/// The best tokenizer and mask predictor in `folder`, for observers with this view radius.
/// Throws  FileError if the files are missing, damaged, or made for other observations.
learners::TokenSource token_source(const std::string& folder, int view_radius, at::Device device);

}  // namespace snake_ddp::train
