// Base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvcal {

/// The bytes of digits, without the '=' that may stand behind them; none where a character is no digit. Bits that fill
/// no byte are dropped.
std::optional<std::string> bytes_of_base64(std::string_view digits);

/// The digits of bytes, with the '=' behind them.
std::string base64_of(std::string_view bytes);

}  // namespace kvcal
