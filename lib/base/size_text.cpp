#include "base/size_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace kvcal {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array kUnits = {Unit{"KiB", 1024.0},
                               Unit{"MiB", 1024.0 * 1024},
                               Unit{"GiB", 1024.0 * 1024 * 1024},
                               Unit{"TiB", 1024.0 * 1024 * 1024 * 1024},
                               Unit{"KB", 1e3},
                               Unit{"MB", 1e6},
                               Unit{"GB", 1e9},
                               Unit{"TB", 1e12},
                               Unit{"B", 1}};

// No machine has more; sums of such sizes stay within 64 bits.
constexpr double kMostBytes = 1e17;

double unit_named(std::string_view name) {
  for (const Unit& unit : kUnits)
    if (unit.name == name) return unit.bytes;
  return 0;
}

}  // namespace

uint64_t parse_size(std::string_view what, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const double bytes = value * unit_named(rest);
  if (error != std::errc() || !(bytes > 0) || bytes > kMostBytes)
    fail(std::string(what) + " is " + quoted(text) +
         ", expected a size with its unit: 80GiB (2^30 bytes) or 80GB (10^9)");
  return static_cast<uint64_t>(std::llround(bytes));
}

std::string gib_text(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1024.0 * 1024);
  const bool small = bytes != 0 && std::abs(mib) < 1023.95;
  if (small && std::abs(mib) < 0.05) return (bytes < 0 ? "-" : "") + bytes_text(static_cast<uint64_t>(std::abs(bytes)));
  char text[40];
  std::snprintf(text, sizeof text, small ? "%.1f MiB" : "%.1f GiB", small ? mib : mib / 1024);
  return text;
}

std::string bytes_text(uint64_t bytes) {
  constexpr const char* kNames[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kNames[unit]);
  return text;
}

}  // namespace kvcal
