// The one setting taken from the environment.
#pragma once

#include <cstdint>
#include <optional>

namespace kvcal {

/// SOURCE_DATE_EPOCH: the time to write into files and to show to templates, in seconds since 1970 (UTC); none when it
/// is not set. Throws Error when it is not a number.
std::optional<int64_t> source_date_epoch();

}  // namespace kvcal
