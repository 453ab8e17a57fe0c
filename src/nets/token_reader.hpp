// A trained, frozen tokenizer and mask predictor, which read graphs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "nets/mask_predictor.hpp"
#include "nets/tokenizer.hpp"

namespace snake_ddp::nets {

/// Prefix of the names of a stage's parameters in its files; "model.shape" is the shape.
inline constexpr const char* kModelPrefix = "model.";

/// A frozen tokenizer.
struct FrozenTokenizer {
  TokenizerShape shape;
  FlatParameters parameters;

  /// Shapes  graphs [N, nodes, features]; returns [N, tokens] int64.
  [[nodiscard]] at::Tensor tokens(const at::Tensor& graphs) const;
};

/// Throws  FileError if `file` has none. `what` names the source.
FrozenTokenizer frozen_tokenizer(const NamedTensors& file, at::Device device, const std::string& what);

struct FrozenMaskPredictor {
  MaskPredictorShape shape;
  FlatParameters parameters;
};

/// Throws  FileError if `file` has none.
FrozenMaskPredictor frozen_mask_predictor(const NamedTensors& file, at::Device device,
                                          const std::string& what);

/// What an agent observes of the snakes: for each snake its code vectors. For a visible snake they are those of its
/// tokens, for an unseen one the mean over each token's predicted distribution.
class TokenReader {
 public:
  /// Throws  FileError if the two do not match. `what` names the source.
  TokenReader(FrozenTokenizer tokenizer, FrozenMaskPredictor predictor, const std::string& what);

  /// Floats of the graphs that one agent sees, and of what is made of them.
  [[nodiscard]] std::int64_t graph_floats() const;
  [[nodiscard]] std::int64_t features() const;

  /// Shapes  graphs [N, graph_floats()] as an agent sees them: a snake without its first node is not visible. Returns
  ///         [N, features()]: the code vectors of each snake, then for each 1 if it is not visible.
  /// Threads at::get_num_threads(). On the CPU a row's result depends neither on their number nor on the other rows:
  ///         rows are read in blocks of one size, each by one thread.
  [[nodiscard]] at::Tensor read(const at::Tensor& graphs) const;

  [[nodiscard]] at::Device device() const { return tokenizer_.parameters.flat().device(); }

  /// All parameters, by names that begin with "tokens.". Views.
  [[nodiscard]] NamedTensors named() const;

 private:
  [[nodiscard]] at::Tensor read_block(const at::Tensor& graphs) const;

  FrozenTokenizer tokenizer_;
  FrozenMaskPredictor predictor_;
};

}  // namespace snake_ddp::nets
