// A transformer that predicts the tokens of masked places from those of the others.
// Follows  Vaswani et al., "Attention is all you need", arXiv:1706.03762, with layer norm before each part, as Xiong et
//          al., "On layer normalization in the transformer architecture", arXiv:2002.04745; no dropout. The encoder reads
//          visible places only, as He et al., "Masked autoencoders are scalable vision learners", arXiv:2111.06377.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "nets/leaves.hpp"

namespace snake_ddp::nets {

struct MaskPredictorShape {
  std::int64_t places = 6;   // snakes
  std::int64_t tokens = 4;   // of a place
  std::int64_t codes = 128;  // possible values of a token
  std::int64_t hidden = 256;
  std::int64_t heads = 4;  // divide `hidden`
  std::int64_t encoder_layers = 3, decoder_layers = 3;

  bool operator==(const MaskPredictorShape&) const = default;
};

/// The shape as files hold it, [7] int64.
at::Tensor shape_tensor(const MaskPredictorShape& shape);
/// Throws  FileError that starts with `what` if the tensor is not a shape, or its numbers are impossible.
MaskPredictorShape mask_predictor_shape_from(const at::Tensor& tensor, const std::string& what);

std::vector<NamedBlock> mask_predictor_blocks(const MaskPredictorShape& shape);

/// Logits of all tokens. A place's input is the sum of its tokens' embeddings and its position's; the decoder's inputs
/// are only the places' queries.
/// Shapes  tokens [N, places, tokens] int64; unseen [N, places] float32, 1 for a masked place (each row needs a visible
///         one); returns [N, places, tokens, codes].
at::Tensor predict_tokens(const MaskPredictorShape& shape, const Weights& weights, const at::Tensor& tokens,
                          const at::Tensor& unseen);

}  // namespace snake_ddp::nets
