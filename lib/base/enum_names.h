// Enumerators by the names that files and flags have for them.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvcal {

template <class Enum, size_t N>
struct EnumNames {
  std::string_view kind;  // what fail_unknown() calls them
  std::array<std::string_view, N> names;

  constexpr std::string_view operator[](Enum e) const { return names[static_cast<size_t>(e)]; }
  Enum find(std::string_view name) const {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) fail_unknown(kind, name, std::vector<std::string>(names.begin(), names.end()));
    return static_cast<Enum>(found - names.begin());
  }
};

}  // namespace kvcal
