// Runs a Python that is no part of this program, to ask what is installed for it.
#pragma once

#include <chrono>
#include <string>

#include "base/json.h"

namespace kvcal {

/// The answer of installed_server.py. Throws Error where there is no such program, and where it fails, says too much or
/// takes too long.
Json ask_python(const std::string& python, std::chrono::milliseconds patience = std::chrono::seconds(20));

/// Ends a Python that is being asked: in a process group of its own, it gets no signal from a terminal.
void end_asked_in_signal_handler();

}  // namespace kvcal
