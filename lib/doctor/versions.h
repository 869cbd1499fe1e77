// What holds in which versions of a server, where the version is not known: no answer presumes the newest one unsaid.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace kvcal {

/// The facts as they would be with each version whose code was looked at, the oldest first. None where the version is
/// known, and of servers other than vLLM and SGLang.
std::vector<Facts> with_each_version(const Facts& facts);

/// "vLLM 0.15.0 or later" of these facts, by their index; "" where it holds with all versions, or with none.
std::string versions_where(const std::vector<Facts>& each, const std::function<bool(size_t)>& holds);

}  // namespace kvcal
