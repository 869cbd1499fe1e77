// Which mapped file an address lies in: for the handler of the signal raised by reading a truncated file.
#pragma once

#include <string_view>

namespace kvcal {

/// The quoted path of the open MappedFile whose mapping covers the address, "" for none (or for files beyond the first
/// thousand). Async-signal-safe.
std::string_view mapped_file_at(const void* address) noexcept;

}  // namespace kvcal
