// --shard i/n of calibrate.
#pragma once

#include <string>

#include "prefill/sequence_plan.h"

namespace CLI {
class App;
}

namespace kvcal {

/// "2/3" into the options. Throws Error for anything else.
void take_shard(const std::string& text, SequenceOptions& options);

/// The first option given that only matters for scales, such as "--policy", which a shard does not compute; or "".
std::string scale_option_given(const CLI::App& verb);

}  // namespace kvcal
