// Where CUDA's libraries may be when the system's loader does not know it.
#pragma once

#include <filesystem>
#include <vector>

namespace kvcal {

/// That exist: nvidia/*/lib, which is where pip puts them, among the packages that the program is one of and those of
/// the first python3 in PATH; then the toolkit's usual place.
std::vector<std::filesystem::path> library_folders();

}  // namespace kvcal
