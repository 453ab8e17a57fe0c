#include "snake_ddp/learners/mixing.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "snake_ddp/learners/ddpg.hpp"

namespace snake_ddp::learners {

Mixing::Mixing(const LearnerOptions& options)
    : mixer(nets::MixerShape{kTeam * (options.features + 1)}, options.device),
      target(mixer.shape(), options.device),
      gradient(mixer.parameters().like()),
      adam(mixer.parameters(), options.c_lr, options.library_products || !options.device.is_cpu()) {
  mixer.init(options.seed + 1);
  start();
}

void Mixing::start() {
  const c10::NoGradGuard no_grad;
  target.parameters().flat().copy_(mixer.parameters().flat());
  adam.reset();
}

void Mixing::step(const Average& average, const LearnerOptions& options) {
  average(gradient.flat());
  adam.step(mixer.parameters().flat(), gradient.flat(), options.max_grad_norm, target.parameters().flat(),
            options.tau);
}

void Mixing::add_state(nets::NamedTensors& out) {
  nets::add_under(out, "", mixer.named());
  nets::add_under(out, "target.", target.named());
  add_adam(out, "mixer_adam.", mixer, adam);
}

}  // namespace snake_ddp::learners
