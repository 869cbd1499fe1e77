// Reads tests/arch/golden/<case> (format: the README there).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace kvcal {

struct Golden {
  explicit Golden(const std::string& name);

  std::filesystem::path folder;
  Json json;
  SafetensorsFile file;

  std::vector<std::vector<int32_t>> sequences() const;
  std::vector<float> tensor(const std::string& name) const;
};

/// Of rows [tokens, width] those of the tokens that a golden keeps of the residual stream, and of what bf16 makes of K,
/// V and Q: every fourth, from the first.
std::vector<float> kept_tokens(const std::vector<float>& rows, size_t n_tokens);

/// A tensor of a golden's file as float. Throws Error when there is none of this name.
std::vector<float> golden_tensor(const SafetensorsFile& file, const std::string& name);

/// Names of the folders in tests/arch/<kind>, sorted.
std::vector<std::string> cases_of(const std::string& kind);

/// A case of tests/arch/mtp as a checkpoint folder: that of its base, and the MTP layer as a second shard.
void write_mtp_checkpoint(const std::string& name, const std::filesystem::path& folder);

/// Names of all cases, sorted.
std::vector<std::string> golden_cases();

}  // namespace kvcal
