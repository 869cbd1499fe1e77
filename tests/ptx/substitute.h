// The kernels of this program, run from what nvcc made of them instead of from what the host's compiler did.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "ptx/banks.h"

namespace ptx {

using BankUses = std::map<std::string, BankUse>;  // by the kernel's name without its template's arguments

/// From now on every launch() of a kernel runs its entry in <folder>/<source>.ptx; launches of kernels that are in none
/// throw Error. The result goes on counting what they want of shared memory.
std::shared_ptr<const BankUses> take_launches(const std::filesystem::path& folder);

}  // namespace ptx
