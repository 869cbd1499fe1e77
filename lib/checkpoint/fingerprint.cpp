#include "checkpoint/fingerprint.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/sha256.h"
#include "checkpoint/fold_mark.h"
#include "checkpoint/kv_scale_names.h"

namespace kvcal {

std::string weights_fingerprint(const Checkpoint& checkpoint, std::span<const std::string> names) {
  constexpr uint64_t kSample = 4096;
  std::vector<std::string> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  Sha256 hash;
  std::array<std::byte, kSample> sample;
  for (const std::string& name : sorted) {
    if (KvScaleName ignored; parse_kv_scale_name(name, ignored) || is_modelslim_cache_name(name)) continue;
    const TensorInfo* info = checkpoint.find(name);
    if (!info) fail("fingerprint of " + quoted(checkpoint.folder().string()) + ": no tensor " + quoted(name));
    hash.update(name);
    hash.update(std::string_view("\0", 1));
    hash.update(str(*info) + "\n");
    const std::span<std::byte> part = std::span(sample).first(std::min(info->bytes, kSample));
    checkpoint.read(name, 0, part);
    hash.update(part);
    checkpoint.read(name, info->bytes - part.size(), part);
    hash.update(part);
  }
  // A fold may change nothing but rows that are not sampled.
  if (const auto record = read_fold_record(checkpoint.folder()))
    if (const Json* tensors = find_member(*record, "tensors")) hash.update(canonical_json(*tensors));
  return hash.hex();
}

}  // namespace kvcal
