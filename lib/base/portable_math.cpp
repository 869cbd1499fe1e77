#include "base/portable_math.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace kvcal {
namespace {

// ln 2 in two parts; the first has 21 trailing zero bits, so that k * kLn2High is exact for |k| < 2^20.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;

double scale_by_power_of_two(double x, int k) {  // k in [-1100, 1100]; two steps pass through the subnormals
  const auto power = [](int e) { return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52); };
  const int half = k / 2;
  return x * power(half) * power(k - half);
}

// exp(high + low) for a sum that is more exact than one double.
double exp_of_sum(double high, double low) {
  const double shifted = high * kInverseLn2;
  const int k = static_cast<int>(shifted < 0 ? shifted - 0.5 : shifted + 0.5);
  const double r = ((high - k * kLn2High) - k * kLn2Low) + low;  // |r| <= 0.35
  double term = 1, sum = 0;
  double powers[19];
  for (int i = 1; i <= 18; ++i) powers[i] = term = term * r / i;  // 0.35^19 / 19! < 1e-25
  for (int i = 18; i >= 1; --i) sum += powers[i];                 // small terms first
  return scale_by_power_of_two(1 + sum, k);
}

struct Sum {
  double high, low;
};

// log(x) as high + low, relative error about 1e-17.
Sum log_parts(double x) {
  int k = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    k = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  k += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 0x1.6a09e667f3bcdp+0) {  // sqrt(2): keeps |log m| <= 0.35
    m *= 0.5;
    ++k;
  }
  // log m = 2 atanh(s) = 2s + 2s^3/3 + ..., s = (m - 1) / (m + 1), |s| <= 0.172
  const double f = m - 1;
  const double s = f / (m + 1), z = s * s;
  double series = 0;
  for (int i = 23; i >= 3; i -= 2) series = (series + 1.0 / i) * z;  // 0.172^24 / 25 < 1e-19
  // 2s = f - s f, with f exact.
  const double tail = s * (2 * series - f);
  const double high = k * kLn2High + f;
  const double lost = (k * kLn2High - high) + f;  // exact when k != 0, zero when k == 0
  return {high, lost + tail + k * kLn2Low};
}

}  // namespace

double portable_exp(double x) {
  if (x != x) return x;
  if (x > 709.782712893384) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0;
  return exp_of_sum(x, 0);
}

double portable_log(double x) {
  if (x != x || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x == std::numeric_limits<double>::infinity()) return x;
  const Sum l = log_parts(x);
  return l.high + l.low;
}

double portable_pow(double base, double y) {
  const Sum l = log_parts(base);
  // y * l.high is split by Dekker's method, so that the exponent keeps its low bits.
  const auto split = [](double a) {
    const double c = a * 134217729.0;  // 2^27 + 1
    const double high = c - (c - a);
    return Sum{high, a - high};
  };
  const double product = y * l.high;
  const Sum a = split(y), b = split(l.high);
  const double error = ((a.high * b.high - product) + a.high * b.low + a.low * b.high) + a.low * b.low;
  if (product > 709.7) return std::numeric_limits<double>::infinity();
  if (product < -745) return 0;
  return exp_of_sum(product, error + y * l.low);
}

double portable_erfc(double x) {
  constexpr double kTwoBySqrtPi = 1.1283791670955126, kSqrtPi = 1.7724538509055160;
  if (x != x) return x;
  if (x < 0) return 2 - portable_erfc(-x);
  if (x > 27) return 0;
  if (x < 2) {  // the series of erf: x Σ (2x²)^n / (1·3·5...(2n+1)), all terms positive
    double term = x, sum = x;
    for (int n = 1; n < 60; ++n) sum += term *= 2 * x * x / (2 * n + 1);
    return 1 - kTwoBySqrtPi * portable_exp(-x * x) * sum;
  }
  double tail = x;  // continued fraction x + (1/2)/(x + 1/(x + (3/2)/(x + ...)))
  for (int n = 80; n >= 1; --n) tail = x + 0.5 * n / tail;
  return portable_exp(-x * x) / (kSqrtPi * tail);
}

double normal_quantile(double p) {
  constexpr double kRootOfHalf = 0.70710678118654752, kRootOfTwoPi = 2.5066282746310005;
  double x = 0;  // Φ is concave above and convex below 0: from there the steps of Newton's method go one way
  for (int i = 0; i < 200; ++i) {
    const double above = 0.5 * portable_erfc(-kRootOfHalf * x) - p;
    const double next = x - above * kRootOfTwoPi * portable_exp(0.5 * x * x);
    if (next == x || (next - x) * (p - 0.5) < 0) return next;
    x = next;
  }
  return x;
}

double portable_sin_pi(double x) {
  constexpr double kPi = 3.14159265358979323846, kRound = 0x1.8p52;
  const double n = x + kRound - kRound, r = kPi * (x - n);  // |r| <= pi / 2
  double sum = 0;
  for (int k = 23; k > 1; k -= 2) sum = (1 - sum) * (r * r) / (k * (k - 1));
  const bool odd = static_cast<int64_t>(n) % 2 != 0;
  return (odd ? -r : r) * (1 - sum);
}

uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace kvcal
