// Networks that are symmetric under a reflection: the outputs for a mirrored input are the mirrored outputs, because
// each hidden unit has a mirror image among the others.
// Follows  Cohen and Welling, "Group equivariant convolutional networks", arXiv:1602.07576, for a group of two.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "nets/dense.hpp"
#include "nets/mlp.hpp"
#include "snake_ddp/core/mirror_image.hpp"

namespace snake_ddp::nets {

/// A weight [rows, columns] or vector [rows] of a network as files have it, and the images of its rows and columns.
struct MirroredBlock {
  at::Tensor block;
  std::vector<core::MirrorImage> rows, columns;
};

/// The parameters of networks with an even number of hidden units. Unit i of a hidden layer is the image of unit i + hidden / 2.
/// A critic's actions change as the mirror's outputs do.
std::vector<MirroredBlock> mirrored_blocks(const Mlp& net, const core::Mirror& mirror);
std::vector<MirroredBlock> mirrored_blocks(const DenseNet& net, const core::Mirror& mirror);

/// The reflection of a network's parameters.
class NetMirror {
 public:
  /// The blocks are views of `flat`.
  NetMirror(const at::Tensor& flat, const std::vector<MirroredBlock>& blocks);
  /// Of this network.
  template <class Net>
  NetMirror(const Net& net, const core::Mirror& mirror)
      : NetMirror(net.parameters().flat(), mirrored_blocks(net, mirror)) {}

  /// flat := (flat + its image) / 2. This turns a gradient for some inputs into the gradient for these inputs and their
  /// mirror images. A symmetric network whose gradients are symmetric stays symmetric, bit for bit.
  /// Shapes  flat [n] in the network's layout.
  void average(at::Tensor& flat);

  /// One half of the parameters is replaced by the image of the other half, which keeps a random start's distribution.
  void make_symmetric(at::Tensor& flat);

  [[nodiscard]] bool is_symmetric(const at::Tensor& flat);
  /// The largest difference between a parameter and its image, in multiples of the largest parameter.
  [[nodiscard]] double asymmetry(const at::Tensor& flat);

 private:
  const at::Tensor& image_of(const at::Tensor& flat);

  at::Tensor index_, sign_, replaced_;  // [n] int64, float32, bool
  at::Tensor image_;
  // Neighbours whose images are neighbours, each pair once.
  struct Run {
    std::int64_t at, image, count;
    float sign;
  };
  std::vector<Run> runs_;
};

/// The inputs' images if these weights belong to a network that is symmetric under `mirror`, else none.
/// Throws  FileError if they are not an Mlp's. `what` names the source.
std::vector<core::MirrorImage> symmetric_inputs(const NamedTensors& weights, const core::Mirror& mirror,
                                                const std::string& what);

}  // namespace snake_ddp::nets
