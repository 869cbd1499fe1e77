// --shard i/n of calibrate.
#pragma once

#include <string>

#include "prefill/sequence_plan.h"

namespace CLI {
class App;
}

namespace kvcal {

/// "2/3" into the options. Throws Error for anything that is no shard.
void take_shard(const std::string& text, SequenceOptions& options);

/// The first option on the command line that makes scales, "--policy": a shard makes none. "" when there is none.
std::string scale_option_given(const CLI::App& verb);

}  // namespace kvcal
