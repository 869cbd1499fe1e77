// exp, log, pow and others whose bits do not depend on the C library: frequencies, moments and scales reach files, and
// equal inputs must give equal bytes on every machine. Only +, -, *, / and bit operations of IEEE double inside;
// relative error below 1e-15, so that rounding to float is right in practically every case.
#pragma once

#include <cstdint>

namespace kvcal {

double portable_exp(double x);               // inf above 709.78, 0 below -745; NaN stays NaN
double portable_log(double x);               // x > 0; -inf at 0, NaN below
double portable_pow(double base, double y);  // base > 0
double portable_erfc(double x);              // 1 - erf(x), relative error below 1e-13
double normal_quantile(double p);            // x with Φ(x) = p, 0 < p < 1, of the standard normal distribution
double portable_sin_pi(double x);            // sin(pi x), |x| < 2^51

/// Splitmix64 from any state: a few lines whose numbers no library version changes.
uint64_t next_random(uint64_t& state);

}  // namespace kvcal
