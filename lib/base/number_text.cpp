#include "base/number_text.h"

#include <cassert>
#include <charconv>
#include <cmath>

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

}  // namespace kvcal
