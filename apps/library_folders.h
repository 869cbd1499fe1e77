// Where CUDA's libraries may be when the system's loader does not know it.
#pragma once

#include <filesystem>
#include <vector>

namespace kvcal {

/// That exist: nvidia/*/lib among the packages of the first python3 in PATH, which is where pip puts them, then the
/// toolkit's usual place.
std::vector<std::filesystem::path> library_folders();

}  // namespace kvcal
