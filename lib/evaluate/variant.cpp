#include "evaluate/variant.h"

namespace kvcal {

int Variant::first_cache() const {
  for (size_t c = 0; c < caches.size(); ++c)
    if (caches[c].any()) return static_cast<int>(c);
  return -1;
}

}  // namespace kvcal
