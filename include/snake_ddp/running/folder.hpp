// Which ranks see the folder of a run.
#pragma once

#include <string>

#include "snake_ddp/dist/context.hpp"

namespace snake_ddp::running {

/// What a rank has of the run's folder.
struct Access {
  bool sees = true;
  std::string unreadable;  // where it does not: what but a missing file keeps it from reading
};

/// Whether this rank finds in `folder` what rank 0 just put there.
/// Collective.
/// Throws      FileError on rank 0 where it can neither write nor read there.
Access access_to(const std::string& folder, dist::DistContext& context);

/// The ranks that do not see it, with their hosts, on rank 0; empty on the others, and where all do.
/// Collective.
std::string blind_ranks(bool sees, dist::DistContext& context);

}  // namespace snake_ddp::running
