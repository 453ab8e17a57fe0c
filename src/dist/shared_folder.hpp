// Which ranks see a run's folder.
#pragma once

#include <string>

#include "dist/context.hpp"

namespace snake_ddp::dist {

/// A rank's view of the run's folder.
struct Access {
  bool sees = true;
  std::string
      unreadable;  // if it does not see it: the error, other than a missing file, that prevents reading
};

/// Whether this rank finds in `folder` the file that rank 0 just put there.
/// Collective.
/// Throws      FileError on rank 0 if it can neither write nor read there.
Access access_to(const std::string& folder, DistContext& context);

/// The ranks that do not see it, with their hosts, on rank 0; empty on the others, and if all see it.
/// Collective.
std::string blind_ranks(bool sees, DistContext& context);

}  // namespace snake_ddp::dist
