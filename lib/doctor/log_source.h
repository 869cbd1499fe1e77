// Where the bytes of a log come from.
#pragma once

#include <string>

#include "doctor/diagnose.h"

namespace kvcal {

/// What does not come from a file may be endless; larger logs belong into one.
constexpr uint64_t kMostStreamedBytes = uint64_t{4} << 30;

/// Of a regular file, or of the pipe that a shell makes of <(COMMAND); "-" is standard input. Throws Error for what may
/// never end: named pipes and devices; and while reading, where a pipe gives more than `most_streamed`.
Doctor::Source log_source(const std::string& name, uint64_t most_streamed = kMostStreamedBytes);

}  // namespace kvcal
