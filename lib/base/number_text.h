// Floating-point numbers as text for files that must be equal byte for byte.
#pragma once

#include <string>

namespace kvcal {

/// The shortest decimal that reads back as the same value, independent of locale and C library; always a JSON number
/// that shows it is no integer ("1.0", "0.03125", "1e-07"). The argument must be finite (JSON has no other).
std::string shortest_double(double value);
std::string shortest_float(float value);

/// The same for messages, where a number may also be "NaN", "infinity" or "-infinity".
std::string float_text(float value);

}  // namespace kvcal
