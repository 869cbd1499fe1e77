// What must hold between the tables of one set of statistics, however it came about.
#pragma once

#include "stats/run_record.h"

namespace kvcal {

/// Most values that one head may have counted: sums of squared significands then stay below 2^62.
constexpr uint64_t kMaxObservationsPerHead = uint64_t{1} << 46;

/// Throws Error with one line that names cache, site, head and what contradicts what: codes in range and ascending,
/// histogram and other counts add up to tokens x width, absmax is the largest code counted, its place is within the
/// run, channel tables add up to the histogram octave by octave, pair norms lie between the maxima of their channels
/// and their hypotenuse, position and prompt maxima reach the site's.
void check_statistics(const Statistics& statistics);

/// The same of recurrent states (state_checks.cpp); part of it.
void check_states(const Statistics& statistics);

}  // namespace kvcal
