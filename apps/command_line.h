// From argv to the job it asks for.
#pragma once

#include "verbs.h"

namespace kvcal {

/// The job of the chosen verb; for --help and --version, one that prints. Throws Error with a single line for a command
/// line that cannot be understood: which verb, what is wrong, the nearest match of an unknown name.
Job parse_command_line(int argc, const char* const* argv);

}  // namespace kvcal
