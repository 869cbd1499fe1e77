#include "base/number_text.h"

#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace kvcal {
namespace {

template <class T>
std::string shortest(T value) {
  assert(std::isfinite(value));
  char text[40];
  std::string out(text, std::to_chars(text, text + sizeof text, value).ptr);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

}  // namespace

std::string shortest_double(double value) { return shortest(value); }
std::string shortest_float(float value) { return shortest(value); }

std::string float_text(float value) {
  if (std::isfinite(value)) return shortest(value);
  return std::isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity";
}

std::string formatted(const char* format, double value) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string share_in_percent(double share) {
  return formatted(share != 0 && std::abs(share) < 0.0005 ? "%.1e %%" : "%.2f %%", 100 * share);
}

std::string grouped(int64_t n) {
  std::string text = std::to_string(n);
  const ptrdiff_t first = n < 0 ? 1 : 0;
  for (ptrdiff_t i = static_cast<ptrdiff_t>(text.size()) - 3; i > first; i -= 3)
    text.insert(static_cast<size_t>(i), ",");
  return text;
}

std::string ranges_text(std::span<const int64_t> indexes) {
  std::string text;
  for (size_t i = 0; i < indexes.size();) {
    size_t end = i;
    while (end + 1 < indexes.size() && indexes[end + 1] == indexes[end] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(indexes[i]);
    if (end > i) text += "-" + std::to_string(indexes[end]);
    i = end + 1;
  }
  return text;
}

}  // namespace kvcal
