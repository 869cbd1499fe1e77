// What rounding a channel to a scale of its own does to it, from its moments by octave: where head_model.h takes a
// channel to be spread as its head is, here its values are taken to be spread evenly over the bf16 numbers around their
// mean, with the mean and the variance that they have in each octave. int8 only, and nothing is clipped.
#pragma once

#include "solve/head_model.h"

namespace kvcal {

/// Of one channel; means over tokens.
struct ChannelRounding {
  double squared_error = 0;  // e_c² = E[(x' - x)²]
  double varying = 0;        // what of it is not common to all tokens, as varying_error()
  PopulationErrors of_populations;
  double lost = 0;  // energy of octaves below the smallest normal number
};

ChannelRounding rounding_of(const ChannelStatistics& channel, const NumberFormat& format, double scale,
                            uint64_t n_tokens);

}  // namespace kvcal
