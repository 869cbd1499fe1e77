// The two things that rounding errors are predicted from: what happens to the values of each octave of a head, exactly,
// and the moments of its channels by octave. Within an octave a channel is taken to be spread as its head is.
#pragma once

#include <array>

#include "solve/error_model.h"

namespace kvcal {

/// What happens to the values of one octave of a head. Energies are Σx².
struct OctaveEnergy {
  double total = 0, squared_error = 0, clipped = 0, flushed = 0;
};

struct HeadModel {
  const MagnitudeHistogram* histogram = nullptr;
  const NumberFormat* format = nullptr;
  double scale = 1;
  std::array<OctaveEnergy, 256> octaves{};
  HeadError error;
};

HeadModel model_of(const MagnitudeHistogram& histogram, const NumberFormat& format, double scale);

/// Σx² of a channel within an octave.
double energy_of(const OctaveMoments& moments);

/// e_c² = E[(x' - x)²] of a channel, each octave with the relative error that its head has there.
double mean_squared_error(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens);

/// E[x²]; E[x] and E[x²] - E[x]², which queries do not keep.
double mean_square(const ChannelStatistics& channel, uint64_t n_tokens);
double mean(const ChannelStatistics& channel, uint64_t n_tokens);
double variance(const ChannelStatistics& channel, uint64_t n_tokens);

/// Whether all values of a channel have one sign, and differ by less than their octave is wide.
bool is_far_from_zero(double mean, double variance);

/// The part of e_c² that is not common to all tokens. A channel that is far from zero beside its spread lies in few
/// rounding cells, and which ones decides: it is taken to be spread as the head's values around its mean are. Of others
/// all of e_c².
double varying_error(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens);

/// The same and the variance, around the mean of each octave of magnitude and not around that of all: what tokens have
/// that are alike but for their length. A channel that is around zero has all of its energy here.
struct Varying {
  double error = 0, variance = 0;
};
Varying varying_within_octaves(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens);

}  // namespace kvcal
