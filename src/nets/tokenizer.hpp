// A vector-quantised autoencoder of small graphs: a snake's surroundings become a few discrete tokens.
// Follows  van den Oord, Vinyals, Kavukcuoglu, "Neural discrete representation learning", arXiv:1711.00937; the layers are
//          Hamilton, Ying, Leskovec, "Inductive representation learning on large graphs", arXiv:1706.02216, with the mean.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "nets/leaves.hpp"

namespace snake_ddp::nets {

/// The torus that nodes are on, and the factors that turn dx and dy into cells.
inline constexpr double kTorusColumns = 20, kTorusRows = 10, kColumnsPerUnit = 10, kRowsPerUnit = 5;

struct TokenizerShape {
  std::int64_t nodes = 18, features = 4;  // a node is present (0 or 1), dx, dy, length
  std::int64_t hidden = 32;
  std::int64_t tokens = 4;   // of a graph, each with a codebook of its own
  std::int64_t codes = 128;  // of a codebook
  std::int64_t code_size = 8;

  bool operator==(const TokenizerShape&) const = default;
};

/// The shape as files hold it, [6] int64.
at::Tensor shape_tensor(const TokenizerShape& shape);
/// Throws  FileError that starts with `what` if the tensor is not a shape, or its numbers are impossible.
TokenizerShape tokenizer_shape_from(const at::Tensor& tensor, const std::string& what);

/// The parameters by name, in the order of Weights.
std::vector<NamedBlock> tokenizer_blocks(const TokenizerShape& shape);

/// The codebooks among them.
/// Shapes  returns a view [tokens * codes, code_size].
const at::Tensor& codebooks_of(const FlatParameters& parameters);

/// Two layers of message passing among nodes in neighbouring cells of the torus, and from all nodes; then a linear map.
/// Shapes  graphs [N, nodes, features]; returns [N, tokens, code_size].
at::Tensor encode_graphs(const TokenizerShape& shape, const Weights& weights, const at::Tensor& graphs);

/// The nearest codes.
/// Shapes  latent [N, tokens, code_size]; returns [N, tokens] int64, codes of each token's own codebook.
at::Tensor nearest_codes(const TokenizerShape& shape, const Weights& weights, const at::Tensor& latent);

/// Shapes  tokens [N, tokens]; returns [N, tokens, code_size].
at::Tensor code_vectors(const TokenizerShape& shape, const Weights& weights, const at::Tensor& tokens);

/// Shapes  codes [N, tokens, code_size]; returns graphs [N, nodes, features].
at::Tensor decode_graphs(const TokenizerShape& shape, const Weights& weights, const at::Tensor& codes);

/// For each graph, [N]: the squared errors of the nodes' features (of missing nodes only `present` counts), divided by
/// nodes times features; and the mean squared distance of latent and code, once for the codebook, once for the encoder
/// (the commitment).
struct TokenizerLoss {
  at::Tensor reconstruction, codebook, commitment;
  at::Tensor latent, tokens;  // [N, tokens, code_size], [N, tokens]
};
TokenizerLoss tokenizer_loss(const TokenizerShape& shape, const Weights& weights, const at::Tensor& graphs);

}  // namespace snake_ddp::nets
