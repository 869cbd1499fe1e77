// A thread for each device of a run, heard by the thread that called.
#pragma once

#include <cstddef>
#include <functional>

#include "prefill/runner.h"

namespace kvcal {

using HearStep = std::function<void(const RunStep&)>;

/// Runs work(0) to work(n - 1), each in a thread of its own, and hears their steps in this one, one after the other.
/// When a work throws, or `hear` does, the others end at their next step, which throws in their threads; what was
/// thrown first leaves this function when all have ended. Throws Error when the system refuses a thread.
void run_workers(size_t n, const std::function<void(size_t, const HearStep&)>& work, const HearStep& hear);

}  // namespace kvcal
