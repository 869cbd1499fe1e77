// The kernels of this program, run from what nvcc made of them instead of from what the host's compiler did.
#pragma once

#include <filesystem>

namespace ptx {

/// From now on every launch() of a kernel runs its entry in <folder>/<source>.ptx; launches of kernels that are in none
/// throw Error.
void take_launches(const std::filesystem::path& folder);

}  // namespace ptx
