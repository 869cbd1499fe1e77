// Ways to store the cache that are compared with each other.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/cache_rounding.h"
#include "ops/state_format.h"

namespace kvcal {

/// What is done to a row of a head before it is rounded, and undone behind it.
///
/// ByMeans: each channel's mean is subtracted.
/// Turned: parts of as many channels as the largest power of two that divides the row are multiplied by a Hadamard
///   matrix, and by a power of two which leaves lengths as they are within a factor of sqrt(2).
enum class Moved : uint8_t { No, ByMeans, Turned };

/// What rows of one site go through. Scales: none where they are dynamic, else 1, one a head, or one a channel.
struct SiteRounding {
  CacheFormat format = CacheFormat::E4m3;
  std::vector<float> write, read;
  Moved moved = Moved::No;
  std::vector<float> means{};  // [heads · dim], where rows are moved by them
  bool operator==(const SiteRounding&) const = default;
};

/// Of one cache; a site without a rounding stays as it is. MLA: `key` is of the row, `query` of the absorbed one.
struct CacheSites {
  std::optional<SiteRounding> key, value, query;
  ProbabilityRounding probabilities{};  // of the attention that reads it
  bool any() const { return key || value || query; }
};

constexpr const char* kFloor = "floor";

/// Of a name: whether the variant is worse by intention, to show that scales matter.
inline bool is_control(std::string_view name) { return name == "swapped" || name == "undivided"; }

/// A way to store all caches of a model.
struct Variant {
  std::string name;                // "scale_1.0", "file", "swapped", ...; unique in a run
  std::string format;              // "fp8_e4m3", ...
  std::vector<CacheSites> caches;  // by ModelSpec::caches
  int layer = -1;                  // the only one whose cache it rounds; -1: it was made for all
  StateFormat state{};             // how recurrent states are stored
  bool index_keys = false;         // whether an indexer's keys are rounded, as servers store them

  /// Whether it rounds nothing and computes otherwise: "floor" (variant_tap.h).
  bool is_floor() const { return name == kFloor; }

  /// The first cache that it rounds: before its layer the variant is the reference. -1: none.
  int first_cache() const;
};

}  // namespace kvcal
