// The GPT-2 alphabet: a printable character for each of the 256 bytes, so that any text is a string of known symbols.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace kvcal {

/// Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68, in rising order, are U+0100 and up.
const std::array<std::string, 256>& byte_symbols();

/// The byte that a symbol stands for, or -1.
int byte_of_symbol(char32_t symbol);

std::string to_byte_symbols(std::string_view text);

/// The pre-tokenizing pattern of GPT-2, which ByteLevel applies with use_regex.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace kvcal
