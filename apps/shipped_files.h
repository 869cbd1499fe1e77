// Where the files that come with the program are.
#pragma once

#include <filesystem>
#include <string>

namespace kvcal {

/// Path of a file that comes with the program, "datasets/default.jsonl" or "schemas/...": beside an installed program
/// in its share/kvcal, or in the source tree when the program stands in build/<name>/. Throws Error naming both places.
std::filesystem::path shipped_file(const std::string& name);

}  // namespace kvcal
