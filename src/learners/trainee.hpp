// A network that is trained, with its target, gradient and optimizer.
#pragma once

#include <ATen/ops/zeros_like.h>

#include <optional>
#include <string>
#include <utility>

#include "learners/adam.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "nets/net_mirror.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::learners {

/// `Net` has parameters(), named(), named_views() and init(), as each network in nets/ does.
template <class Net>
class Trainee {
 public:
  /// Draws the weights from `seed`. `follower` becomes the target; without it there is none.
  Trainee(const LearnerOptions& options, double learning_rate, std::uint64_t seed, Net fresh,
          std::optional<Net> follower)
      : net(std::move(fresh)),
        gradient(net.parameters().like()),
        adam(net.parameters(), learning_rate, &net.backend()),
        norm(at::zeros_like(adam.steps)),
        target_(std::move(follower)),
        learning_rate_(learning_rate),
        max_norm_(options.max_grad_norm),
        tau_(options.tau) {
    net.init(seed);
    if constexpr (kMayMirror) {
      if (options.mirror_symmetric) {
        mirror_.emplace(net, options.mirror);
        mirror_->make_symmetric(net.parameters().flat());
      }
    }
    start();
  }

  /// The target becomes the network, the optimizer is reset.
  void start() {
    if (target_) target_->parameters().flat().copy_(net.parameters().flat());
    adam.reset();
  }

  /// The learning rate becomes `factor` x the first one.
  void scale_rate(double factor) {
    adam.learning_rate = factor * learning_rate_;
    adam.publish_rate();
  }

  /// Adam's step with the clipped gradient; then the target's. A symmetric network's gradient is averaged with its image: after the
  /// ranks' mean, because an all-reduce need not round an element and its image alike.
  void descend() {
    if (mirror_) mirror_->average(gradient.flat());
    at::Tensor none;
    norm = adam.step(net.parameters().flat(), gradient.flat(), max_norm_,
                     target_ ? target_->parameters().flat() : none, tau_);
  }

  /// One step by the gradient's mean over all ranks.
  /// Returns `norm`.
  at::Tensor step(const Average& average) {
    average(gradient.flat());
    descend();
    return norm;
  }

  /// For weights that were read or averaged over ranks: gradients keep a symmetry, but do not make one, and means are symmetric up
  /// to rounding.
  /// Throws  FileError if a network that should be symmetric is not.
  void keep_symmetry() {
    if (!mirror_) return;
    if (mirror_->asymmetry(net.parameters().flat()) > 1e-5)
      throw core::FileError("not symmetric under reflections: train it without --mirror_symmetric");
    for (at::Tensor flat : {net.parameters().flat(), adam.first_moment.flat()})
      if (!mirror_->is_symmetric(flat)) mirror_->make_symmetric(flat);
    at::Tensor squares = adam.second_moment.flat();
    mirror_->make_symmetric(squares);
    squares.abs_();  // an image has signs
  }

  /// Appends what a bit-exact continuation needs, under these prefixes.
  void add_state(nets::NamedTensors& out, const std::string& weights, const std::string& targets,
                 const std::string& optimizer) {
    nets::add_under(out, weights, net.named());
    if (target_) nets::add_under(out, targets, target_->named());
    add_adam(out, optimizer, net, adam);
  }

  [[nodiscard]] Trained trained() {
    Trained t{net.parameters().flat(), {adam.first_moment.flat(), adam.second_moment.flat()}};
    if (target_) t.slots.push_back(target_->parameters().flat());
    return t;
  }

  [[nodiscard]] bool has_target() const { return target_.has_value(); }
  [[nodiscard]] Net& target() { return *target_; }

  Net net;
  nets::FlatParameters gradient;
  Adam adam;
  at::Tensor norm;  // 0-dim, of the last gradient before clipping

 private:
  static constexpr bool kMayMirror = requires(const Net& n, const core::Mirror& m) {
    nets::mirrored_blocks(n, m);
  };

  std::optional<Net> target_;
  std::optional<nets::NetMirror> mirror_;
  double learning_rate_, max_norm_, tau_;
};

}  // namespace snake_ddp::learners
