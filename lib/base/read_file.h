// Reads small files whole, with the limits and messages that untrusted files need.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace kvcal {

/// The bytes of a regular file, or of a shell's pipe (finite_input.h). Throws Error (beginning with the quoted path)
/// when it is missing, not readable, something else (a named pipe would block for ever), or larger than max_bytes.
std::string read_file(const std::filesystem::path& path, size_t max_bytes);

/// "no such file or directory" and the like: the text of an errno value, for messages.
std::string errno_text(int error);

}  // namespace kvcal
