// The tables of docs/reference, from those that the program itself uses.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace snake_ddp::app {

/// Rewrites the tables in the pages of a folder: what is between `<!-- table NAME -->` and `<!-- end -->`.
/// Throws  FileError for a name that it does not know, and for a table that no page has.
void write_reference(const CLI::App& program, const std::string& folder);

}  // namespace snake_ddp::app
