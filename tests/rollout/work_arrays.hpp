// The arrays of functors as plain memory: of a fleet with its replay, and of Adam. `Memory` has a
// `T* take<T>(const char* name, std::int64_t count)`.
#pragma once

#include <cstdint>

#include "../../src/learners/adam_work.hpp"
#include "../../src/replay/draw_rows.hpp"
#include "../../src/rollout/fleet_work.hpp"

namespace snake_ddp {

/// Functors only read some of the arrays that tests fill.
template <class T>
T* filled(const T* array) {
  return const_cast<T*>(array);
}

struct Games {
  rollout::FleetArrays f{};
  rollout::Seen seen{}, drawn{};  // of the boards now, and of rows of replay
  replay::DrawRows draw{};
  rollout::WriteGraphs graphs{};  // with tokens
};

template <class Memory>
Games lay_out_games(Memory& m, const play::Sight& sight, std::int64_t boards, std::int64_t capacity) {
  Games g;
  rollout::FleetArrays& f = g.f;
  const std::int64_t row = play::kTeam * (sight.features() + 1);
  f.rules.sight = sight;
  f.rules.n_step = 3;
  f.rules.mask_fatal = true;
  f.opponents =
      agents::plan_of_mix(agents::parse_mix("level0,level1,level2,level3,level4,evasion,territory"), 11);
  f.num_boards = boards;
  f.capacity = f.ended_capacity = capacity;
  f.best = encode::is_view(sight.kind);
  f.decays = true;
  f.boards = m.template take<game::State>("boards", boards);
  f.games = m.template take<std::int64_t>("games", boards);
  f.running = m.template take<std::int64_t>("running games", boards * play::kFields);
  f.running_epsilon = m.template take<double>("running epsilon", boards);
  f.window = m.template take<float>("window", boards * f.rules.n_step * play::kAlignedWindowWidth);
  f.window_size = m.template take<std::int64_t>("window's size", boards);
  f.window_next = m.template take<std::int64_t>("window's next", boards);
  f.epsilon = m.template take<double>("epsilon", 1);
  f.place = m.template take<double>("place", boards + 1);
  f.started = m.template take<std::int64_t>("started", 1);
  f.ended = m.template take<std::int64_t>("ended", 1);
  f.values = m.template take<float>("values", boards * play::kActionFloats);
  f.rivals = m.template take<std::uint8_t>("rivals", boards * play::kTeam);
  f.counts = m.template take<std::int64_t>("counts", boards);
  f.sums = m.template take<std::int64_t>("sums", boards);
  f.records = m.template take<std::int64_t>("records", f.ended_capacity * rollout::kEndedFields);
  f.record_epsilon = m.template take<double>("records' epsilon", f.ended_capacity);
  f.counter = m.template take<std::int64_t>("replay's counters", replay::kCounters);
  const std::int64_t seen = f.best ? play::kBoardFloats : row;
  const std::int64_t widths[] = {seen, play::kActionFloats, play::kTeam,
                                 seen, play::kTeam,         play::kActionFloats};
  for (int s = 0; s < play::kBack; ++s)
    f.column[s] = m.template take<float>(play::kSourceNames[s], f.capacity * widths[s]);
  g.seen = {sight, f.boards, nullptr, m.template take<float>("seen", boards * row)};
  g.draw = {7, f.counter + replay::kDraw, f.counter + replay::kSize,
            m.template take<std::int64_t>("drawn", boards)};
  if (f.best)
    g.drawn = {sight, reinterpret_cast<game::State*>(f.column[play::kObservation]), g.draw.index,
               m.template take<float>("rows seen", boards * row)};
  if (sight.tokens)
    g.graphs = {sight.view_radius, f.boards,
                m.template take<float>("graphs", boards * play::kTeam * encode::kGraphsFloats)};
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
