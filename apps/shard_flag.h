// --shard i/n of calibrate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "prefill/sequence_plan.h"

namespace CLI {
class App;
}

namespace kvcal {

struct SettledShard {
  std::string text;     // "i/n"
  int64_t on_host = 0;  // JobPart's; 0 where no launcher was asked
};

/// What --shard says as "i/n": "auto" and "auto/n" ask the launcher (launcher.h), anything else stays.
SettledShard settled_shard(const std::string& text);

/// "run.kvstats" of shard "2/8" is "run.2-of-8.kvstats".
std::filesystem::path shard_file(const std::filesystem::path& file, std::string shard);

/// "2/3" into the options. Throws Error for anything else.
void take_shard(const std::string& text, SequenceOptions& options);

/// The first option given that only matters for scales, such as "--policy", which a shard does not compute; or "".
std::string scale_option_given(const CLI::App& verb);

}  // namespace kvcal
