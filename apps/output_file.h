// One file that a verb writes; "-" is standard output.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/atomic_file.h"
#include "base/lines.h"

namespace kvcal {

bool is_standard_output(const std::filesystem::path& path);

/// Throws when it could not be written: before hours of work.
void check_output(const std::filesystem::path& path, Existing existing);

/// The whole file or nothing; of standard output the text.
void write_output(const std::filesystem::path& path, std::string_view text, Existing existing);

/// Tables and advice: to standard output, unless the file is there.
void write_beside_output(const std::filesystem::path& path, const Lines& lines);

/// For messages.
std::string output_name(const std::filesystem::path& path);

}  // namespace kvcal
