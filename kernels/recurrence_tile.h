// How much of a recurrence a block does at a time, by the shared memory that the device has.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include "base/error.h"
#include "kernels/kernels.h"

namespace kvcal::cuda {

struct RecurrenceTile {
  int rows, columns;  // of a chunk; of the values
};

/// The largest whose `bytes` (tile -> size_t) the device has. Whole chunks go before wide slices: the state is read
/// once per chunk, products of keys are computed once per slice. Throws Error.
template <class Bytes>
RecurrenceTile tile_that_fits(const RecurrenceShape& s, size_t shared_limit, const Bytes& bytes) {
  for (const int rows : {64, 32})
    for (int columns = 64; columns >= 8; columns /= 2)
      if ((columns < 2 * s.dv || columns == 8) && bytes({rows, columns}) <= shared_limit) return {rows, columns};
  fail("recurrence: a head of " + std::to_string(s.dk) + " key channels needs " + std::to_string(bytes({32, 8})) +
       " bytes of shared memory, the device has " + std::to_string(shared_limit));
}

}  // namespace kvcal::cuda
