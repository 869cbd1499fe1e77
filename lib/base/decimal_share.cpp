#include "base/decimal_share.h"

#include <cassert>
#include <charconv>
#include <cmath>

namespace kvcal {
namespace {

using Wide = unsigned __int128;

// digits / 10^places.
struct Decimal {
  uint64_t digits = 0;  // at most 17 of them
  int places = 0;
};

Decimal shortest_decimal(double value) {
  char text[40];
  char* const end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  Decimal out;
  const char* at = text;
  for (bool behind_point = false; *at != 'e'; ++at) {
    if (*at == '.') {
      behind_point = true;
      continue;
    }
    out.digits = out.digits * 10 + static_cast<uint64_t>(*at - '0');
    out.places += behind_point;
  }
  int exponent = 0;
  at += at[1] == '+' ? 2 : 1;  // from_chars takes no plus
  std::from_chars(at, end, exponent);
  out.places -= exponent;
  return out;
}

Wide power_of_ten(int power) {
  Wide out = 1;
  while (power-- > 0) out *= 10;
  return out;
}

}  // namespace

uint64_t decimal_share(double share, int places, uint64_t n) {
  assert(std::isfinite(share) && share >= 0);
  Decimal d = shortest_decimal(share);
  d.places += places;
  const Wide product = static_cast<Wide>(d.digits) * n;  // below 10^17 · 2^64 < 10^37
  if (d.places >= 37) return product == 0 ? 0 : 1;
  if (d.places <= 0) return static_cast<uint64_t>(product * power_of_ten(-d.places));
  const Wide divisor = power_of_ten(d.places);
  return static_cast<uint64_t>((product + divisor - 1) / divisor);
}

}  // namespace kvcal
