// Sizes of memory as people type and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvcal {

/// "80GiB" is 80 · 2^30 bytes, "80 GB" 80 · 10^9; KiB to TiB, KB to TB, B; fractions may be given ("1.5GiB"), signs
/// not. Throws Error naming `what` for anything else: "80G" could mean both.
uint64_t parse_size(std::string_view what, const std::string& text);

/// "12.3 GiB", "512.0 MiB", "3.0 KiB", "0.0 GiB" for none; negative sizes have a sign.
std::string gib_text(int64_t bytes);

/// In the largest unit of which there is one: "1.5 GiB", "3.0 KiB", "12 bytes".
std::string bytes_text(uint64_t bytes);

}  // namespace kvcal
