// JSON as text that people read and that is equal byte for byte for equal values.
#pragma once

#include <string>

#include "base/json.h"

namespace kvcal {

/// Two spaces per level, members in their order, shortest round-trip numbers (base/number_text.h), a newline at the
/// end. Arrays of plain values, and objects of plain values that fit, take one line. Throws Error for numbers that are
/// not finite and for text that is not UTF-8.
std::string json_text(const Json& value);

/// A float32 as the JSON number whose shortest text is the float's shortest text: 0.0312, not 0.031199999153614044.
Json json_number(float value);

}  // namespace kvcal
