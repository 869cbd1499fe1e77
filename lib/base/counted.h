// Numbers of things, as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/number_text.h"

namespace kvcal {

/// "1 prompt", "2,048 prompts"; `plural` where it is not the word with an s.
inline std::string counted(int64_t n, std::string_view one, std::string_view plural = {}) {
  std::string text = grouped(n) + ' ';
  if (n == 1) return text.append(one);
  return plural.empty() ? text.append(one).append("s") : text.append(plural);
}

}  // namespace kvcal
