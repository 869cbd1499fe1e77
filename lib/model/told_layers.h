// What the usual keys of a config.json tell of the kinds of its layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/usual_keys.h"

namespace kvcal {

struct ToldLayer {
  bool caches = true, slides = false, recurs = false;
  int64_t n_kv_heads = 0;  // 0: as other keys say
};

struct ToldLayers {
  std::vector<ToldLayer> layers;
  bool told = false;     // else all count as attention that keeps every position
  bool windows = false;  // also of those that have none
  std::string unknown;   // a word of theirs that is not known, and counts as attention; "" for none
};

/// As many as the config has, or as its list of kinds is long. Several keys may tell the same; one that tells otherwise
/// than the first, or cannot be read, is not noted. None where no key tells how many layers there are.
ToldLayers told_layers(UsualKeys& keys);

}  // namespace kvcal
