#include "products.hpp"

#include <fmt/format.h>

#include "learners/learner.hpp"
#include "nets/mixer.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::bench {
namespace {

using Products = std::vector<Product>;
using Options = learners::LearnerOptions;
constexpr std::int64_t kTeamSize = game::kTeamSize, kActions = game::kMoves;

// With the first two layers folded into one, as both paths of the learner have it.
Products of_ddpg(const Options& o, std::int64_t batch) {
  Products all;
  const std::int64_t rows = batch * kTeamSize, hidden = o.hidden_size, actor = o.features + 1,
                     critic = o.features + 5;
  for (const std::int64_t in : {actor, critic}) {
    const std::int64_t out = in == actor ? 4 : 1;
    // Forward for target and online network; the critic runs once more for the actor.
    const std::int64_t forwards = in == actor ? 2 : 3;
    all.push_back({forwards, rows, hidden, in, false});
    all.push_back({forwards, rows, out, hidden, false});
    all.push_back({1, rows, hidden, out, false});   // back through the last layer
    all.push_back({1, out, hidden, rows, true});    // gradient of the last layer
    all.push_back({2, in, hidden, hidden, false});  // folding, online and target
    all.push_back({1, in, hidden, rows, true});     // gradient of the folded map
    all.push_back({1, hidden, hidden, in, true});   // of the second layer
    all.push_back({1, hidden, in, hidden, false});  // of the first
  }
  all.push_back({1, rows, hidden, 1, false});  // dQ/da, and on to the actor's four outputs
  all.push_back({1, rows, 4, hidden, false});
  return all;
}

// Likewise the map from features to the gates of an LSTM's two directions.
Products of_bicnet(const Options& o, std::int64_t batch) {
  Products all;
  const std::int64_t rows = batch * kTeamSize, h = o.hidden_size, gates = 4 * h, actor = o.features + 1,
                     critic = o.features + 5;
  for (const std::int64_t in : {actor, critic}) {
    const std::int64_t out = in == actor ? 4 : 1;
    const std::int64_t forwards = in == actor ? 2 : 3, backwards = in == actor ? 1 : 2;
    all.push_back({2, in, 2 * gates, h, false});  // folding, online and target
    all.push_back({forwards, rows, 2 * gates, in, false});
    all.push_back({forwards * 4, batch, gates, h, false});  // two directions, two steps with one before
    all.push_back({forwards, rows, h, 2 * h, false});
    all.push_back({forwards, rows, out, h, false});
    all.push_back({backwards, rows, h, out, false});
    all.push_back({backwards, rows, 2 * h, h, false});
    all.push_back({backwards * 4, batch, h, gates, false});
    // Gradients of the weights, from the last layer to the first.
    all.push_back({1, out, h, rows, true});
    all.push_back({1, 2 * h, h, rows, true});
    all.push_back({2, h, gates, 2 * batch, true});
    all.push_back({1, in, 2 * gates, rows, true});
    all.push_back({1, h, 2 * gates, in, true});
    all.push_back({1, h, in, 2 * gates, false});
  }
  all.push_back({1, rows, 4, 2 * gates, false});  // dQ/da
  return all;
}

// Passes of `rows` rows through a linear layer, and its gradients from `learned` rows: the input's only above the first layer.
void add_layer(Products& all, std::int64_t in, std::int64_t out, std::int64_t forwards, std::int64_t rows,
               std::int64_t learned, bool first = false) {
  all.push_back({forwards, rows, out, in, false});
  all.push_back({1, in, out, learned, true});
  if (!first) all.push_back({1, learned, in, out, false});
}

Products of_mlp(const Options& o, std::int64_t forwards, std::int64_t rows) {
  Products all;
  add_layer(all, o.features, o.hidden_size, forwards, rows, rows, /*first=*/true);
  add_layer(all, o.hidden_size, o.hidden_size, forwards, rows, rows);
  add_layer(all, o.hidden_size, kActions, forwards, rows, rows);
  return all;
}

// Online and target network. What mixes the values, a few numbers for each row, is no matrix product.
void add_mixer(Products& all, const Options& o, std::int64_t rows) {
  const nets::MixerShape shape{kTeamSize * (o.features + 1)};
  add_layer(all, shape.state, (shape.agents + 3) * shape.embed, 2, rows, rows, /*first=*/true);
}

// Windows and what is seen after them, through both networks; the steps after the burn-in are learned from.
Products of_gru(const Options& o, std::int64_t windows) {
  Products all;
  const std::int64_t h = o.hidden_size, rows = windows * kTeamSize, seen = o.sequence_length + 1,
                     learned = o.sequence_length - o.burn_in;
  add_layer(all, o.features, h, 2, seen * rows, learned * rows, /*first=*/true);
  add_layer(all, h, 3 * h, 2, seen * rows, learned * rows);
  // The first step has no state before it, and the first learned one passes no gradient on.
  all.push_back({2 * (seen - 1), rows, 3 * h, h, false});
  all.push_back({1, h, 3 * h, learned * rows, true});
  all.push_back({learned - 1, rows, h, 3 * h, false});
  add_layer(all, h, kActions, 2, (learned + 1) * rows, learned * rows);
  return all;
}

// A Q-learner's kind of batches determines its network, and how often an update evaluates that.
Products of_q_learner(const Options& o, learners::Feed feed, bool mixes, std::int64_t batch) {
  if (feed == learners::Feed::kRollout) return of_mlp(o, 1, batch * kTeamSize);
  const std::int64_t windows = batch / o.sequence_length;
  // The online network values both observations, the target network the next one.
  Products all = feed == learners::Feed::kWindows ? of_gru(o, windows) : of_mlp(o, 3, batch * kTeamSize);
  if (mixes)
    add_mixer(all, o, feed == learners::Feed::kWindows ? windows * (o.sequence_length - o.burn_in) : batch);
  return all;
}

}  // namespace

Products products_of(const Options& o, learners::Learner& learner, std::int64_t batch) {
  const learners::LearnerEntry& entry = learners::find_learner(o.algo);
  if (o.algo == "ddpg") return of_ddpg(o, batch);
  if (o.algo == "bicnet") return of_bicnet(o, batch);
  if (entry.actor) throw core::Bug(fmt::format("the update bench does not know the products of {}", o.algo));
  const bool mixes = learner.exported_critic().front().first.starts_with("mixer.");
  return of_q_learner(o, entry.feed, mixes, batch);
}

}  // namespace snake_ddp::bench
