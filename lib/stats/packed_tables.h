// The tables of statistics as bytes, from one process of a job to another of the same program and plan.
#pragma once

#include <string>
#include <string_view>

#include "stats/run_record.h"

namespace kvcal {

/// Of all caches and states; not the run record.
std::string packed_tables(const Statistics& statistics);

/// The reverse, with the run record and the layouts of `like`, which is another part of the same plan. Throws Error for
/// bytes that are not of such a part.
Statistics unpacked_tables(std::string_view bytes, const Statistics& like);

}  // namespace kvcal
