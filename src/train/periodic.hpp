// A run's periodic jobs, as a table. A new job is a function and a row in periodic.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/fields.hpp"
#include "train/counters.hpp"

namespace snake_ddp::train {

struct Session;
struct Scheduled;

/// Bound of intervals and other counts that no run reaches.
inline constexpr double kMany = 1e15;

struct Job {
  enum class Unit { kEpisodes, kUpdates };
  /// When a job runs, once an interval is complete.
  enum class When {
    kStep,    // after the step, by rank 0 alone: no collectives
    kVote,    // at the next vote, by all ranks
    kGames,   // likewise, but not while a stop is requested: it stays due, and the next start does it first
    kGoingOn  // called at each vote that does not end the run, and decides itself whether it is due
  };

  const char* counter;   // completed intervals, by this name in checkpoints
  const char* interval;  // its setting; 0: never
  Unit unit;
  When when;
  void (*run)(Session& s, Scheduled& job);
  const char* due = nullptr;                   // kGames: the name in checkpoints of its marker: 1 if due
  bool at_end = false;                         // also at the end of the run
  bool (*wanted)(const Session& s) = nullptr;  // besides the interval; none: always
  /// The interval's flag; without a heading it is in options.cpp, because other code reads it too.
  struct Flag {
    const char* heading = nullptr;  // in --help
    const char* help = nullptr;
    std::int64_t usual = 0, least = 0;
  } flag = {};
};

std::span<const Job> jobs();

/// The jobs' own flags, over `values`, which must outlive them.
io::Fields job_flags(io::Values& values);

/// A job of this run.
struct Scheduled {
  const Job* job;
  std::int64_t interval;
  std::int64_t* behind;  // its counters
  std::int64_t* due;
};
std::vector<Scheduled> schedule(Session& s);

/// Votes are summed over the ranks.
struct Vote {
  std::int64_t stop = 0;      // got a stop request
  std::int64_t save = 0;      // got a request to save and continue
  std::int64_t finished = 0;  // its episodes are played
  std::int64_t late = 0;      // the time is up, by rank 0's clock
  std::int64_t diverged = 0;  // its loss is not finite
  std::int64_t writing = 0;   // still writes its part of a checkpoint
  std::int64_t episode = 0;   // rank 0's, the others say 0
  Collected collected{};
};

/// What a rank reports with its vote.
struct RankStats {
  std::int64_t waited_us = -1;  // in collectives, since it started; -1: not known, on a GPU
  std::int64_t memory_mb = 0;   // main memory of its process, on a GPU its tensors there
};

/// What the last vote agreed on, the same on all ranks.
struct Agreement : Vote {
  std::vector<RankStats> rank_stats;  // by rank
  std::chrono::steady_clock::time_point at{};
  bool is_finished = false;  // the run: its episodes are played, its time is up, or its target is reached
  bool checkpoint_asked = false;
};

/// Before the first step: the first checkpoint, or jobs that the last start left due. Returns whether to continue.
/// Collective.
bool begin_periodic(Session& s);

/// Step 5 of the loop. Every `votes_every` steps all ranks vote. Returns whether to continue.
/// Collective.
bool keep(Session& s);

/// Writes the checkpoint that a later start continues from, also after the last episode.
/// Collective.
/// Returns     on all ranks why there is none; empty if it is complete.
std::string write_last_checkpoint(Session& s);

/// Creates the run folder again if it was removed.
/// Throws  FileError.
void mend_folder(Session& s);

}  // namespace snake_ddp::train
