// Numbers as text: for files that must be equal byte for byte, and for people.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kvcal {

/// The shortest decimal that reads back as the same value, independent of locale and C library; always a JSON number
/// that shows it is no integer ("1.0", "0.03125", "1e-07"). The argument must be finite (JSON has no other).
std::string shortest_double(double value);
std::string shortest_float(float value);

/// The same for messages, where a number may also be "NaN", "infinity" or "-infinity".
std::string float_text(float value);

/// As printf writes it with this format, which takes one double: formatted("%.3g %%", 12.3456) is "12.3 %".
std::string formatted(const char* format, double value);

/// A share of one, small ones with two digits: "2.65 %", "4.3e-09 %".
std::string share_in_percent(double share);

/// "-1,234,567".
std::string grouped(int64_t n);

/// Ascending indexes, neighbors joined: "0-2, 4-6, 8".
std::string ranges_text(std::span<const int64_t> indexes);

}  // namespace kvcal
