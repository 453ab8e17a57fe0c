// The arrays of functors as plain memory: of a fleet with its replay, and of Adam. `Memory` has a
// `T* take<T>(const char* name, std::int64_t count)`.
#pragma once

#include <cstdint>

#include "../../src/learners/adam_work.hpp"
#include "../../src/learners/draw_rows.hpp"
#include "../../src/rollout/board_work.hpp"

namespace snake_ddp {

/// Functors only read some of the arrays that tests fill.
template <class T>
T* filled(const T* array) {
  return const_cast<T*>(array);
}

struct Games {
  rollout::BoardArrays f{};
  rollout::TakeRows take{};       // with a rollout
  rollout::Seen seen{}, drawn{};  // of the boards now, and of rows of replay
  learners::DrawRows draw{};
  rollout::WriteGraphs graphs{};  // with tokens
};

/// On the last `selves` boards the policy plays itself. With `rollout_steps`, steps go to a rollout of so many, not to replay.
template <class Memory>
Games lay_out_games(Memory& m, const play::ObsSpec& obs_spec, std::int64_t boards, std::int64_t capacity,
                    std::int64_t selves = 0, std::int64_t rollout_steps = 0) {
  Games g;
  rollout::BoardArrays& f = g.f;
  const std::int64_t row = play::kTeamSize * (obs_spec.features() + 1);
  f.rules.obs_spec = obs_spec;
  f.rules.n_step = 3;
  f.rules.mask_fatal = true;
  f.seats = {boards, boards - selves, selves};
  f.sides = selves > 0 ? 2 : 1;
  const std::int64_t seats = f.seats.count(), windows = boards * f.sides;
  f.capacity = f.ended_capacity = capacity;
  f.best = game::is_view(obs_spec.kind);
  f.decays = true;
  f.boards = m.template take<game::State>("boards", boards);
  f.games = m.template take<std::int64_t>("games", boards);
  f.running = m.template take<std::int64_t>("running games", boards * play::kFields);
  f.running_epsilon = m.template take<double>("running epsilon", boards);
  f.window = m.template take<float>("window", windows * f.rules.n_step * play::kAlignedWindowWidth);
  f.window_size = m.template take<std::int64_t>("window's size", windows);
  f.window_next = m.template take<std::int64_t>("window's next", windows);
  f.epsilon = m.template take<double>("epsilon", 1);
  f.place = m.template take<double>("place", seats + 1);
  f.started = m.template take<std::int64_t>("started", 1);
  f.ended = m.template take<std::int64_t>("ended", 1);
  f.values = m.template take<float>("values", seats * play::kActionFloats);
  f.actions = m.template take<game::Actions>("actions", boards);
  f.last_row = m.template take<std::int64_t>("last rows", windows);
  f.rivals = m.template take<std::uint8_t>("rivals", boards * play::kTeamSize);
  f.counts = m.template take<std::int64_t>("counts", boards);
  f.sums = m.template take<std::int64_t>("sums", boards);
  f.records = m.template take<std::int64_t>("records", f.ended_capacity * rollout::kEndedFields);
  f.record_epsilon = m.template take<double>("records' epsilon", f.ended_capacity);
  f.counter = m.template take<std::int64_t>("replay's counters", learners::kCounters);
  const std::int64_t seen = f.best ? play::kBoardFloats : row;
  const std::int64_t widths[] = {seen, play::kActionFloats, play::kTeamSize,
                                 seen, play::kTeamSize,     play::kActionFloats};
  for (int s = 0; s < learners::kBack; ++s)
    f.column[s] = m.template take<float>(learners::kColumnNames[s], f.capacity * widths[s]);
  g.seen = {obs_spec, f.boards, nullptr, m.template take<float>("seen", boards * row)};
  g.draw = {7, f.counter + learners::kDraw, f.counter + learners::kSize,
            m.template take<std::int64_t>("drawn", boards)};
  if (f.best)
    g.drawn = {obs_spec, reinterpret_cast<game::State*>(f.column[learners::kObservation]), g.draw.index,
               m.template take<float>("rows seen", boards * row)};
  if (rollout_steps > 0) {
    const std::int64_t rows = rollout_steps * seats;
    rollout::RolloutArrays& r = f.rollout;
    f.rules.n_step = 1;
    r.seats = f.seats;
    r.steps = rollout_steps;
    r.board = m.template take<game::State>("a rollout's boards", rows);
    r.action = m.template take<float>("its actions", rows * play::kActionFloats);
    r.reward = m.template take<float>("its rewards", rows * play::kTeamSize);
    r.discount = m.template take<float>("its discounts", rows);
    r.value = m.template take<float>("its values", rows * play::kTeamSize);
    r.cut_every = rollout_steps;
    r.cut_board = m.template take<game::State>("boards cut off", seats);
    r.cut_value = m.template take<float>("their values", seats * play::kTeamSize);
    r.last_value = m.template take<float>("values at the end", seats * play::kTeamSize);
    r.counter = m.template take<std::int64_t>("a rollout's counters", rollout::kRolloutCounters);
    g.take = {r, 7, 3, m.template take<std::int64_t>("a batch's rows", rows / 3)};
  }
  if (obs_spec.tokens)
    g.graphs = {obs_spec.view_radius, f.boards,
                m.template take<float>("graphs", boards * play::kTeamSize * game::kGraphsFloats)};
  return g;
}

struct Adam {
  learners::BeginAdam begin;
  learners::StepAdam step;
  learners::AdamScales* scales;
};

template <class Memory>
Adam lay_out_adam(Memory& m, std::int64_t parameters) {
  const auto floats = [&](const char* name, std::int64_t count) {
    return m.template take<float>(name, count);
  };
  auto* const scales = m.template take<learners::AdamScales>("scales", 1);
  return {{floats("squares", 1), floats("norm", 1), floats("Adam's steps", 1),
           m.template take<double>("rate", 1), 1.0, scales},
          {scales, floats("gradient", parameters), floats("parameters", parameters),
           floats("first moments", parameters), floats("second moments", parameters),
           floats("targets", parameters), 0.01F},
          scales};
}

}  // namespace snake_ddp
