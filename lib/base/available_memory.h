// How much memory a process may take.
#pragma once

#include <cstdint>

namespace kvcal {

/// In bytes, from the system's available memory and the control group's limit.
uint64_t available_memory();

}  // namespace kvcal
