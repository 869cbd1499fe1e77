// The two things that rounding errors are predicted from: what happens to the values of each octave of a head, exactly,
// and the moments of its channels by octave. Within an octave a channel is taken to be spread as its head is.
#pragma once

#include <array>
#include <span>
#include <vector>

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

/// Tokens that are alike in a channel but for what they vary in: octaves next to each other, of which each holds some
/// share of all tokens. Others hold few, which another token more or less would be without.
std::vector<std::span<const OctaveMoments>> populations_of(const ChannelStatistics& channel, uint64_t n_tokens);

/// Of a population. Where its magnitudes are far from zero and it has both signs, those are two populations around
/// opposite means: so moments are those of magnitudes there; but where nothing else varies, signs are all there is.
struct PopulationMoments {
  explicit PopulationMoments(std::span<const OctaveMoments> octaves);
  double n = 0, energy = 0;
  double offset = 0, spread = 0;  // |E[x]|, Var
  bool far_from_zero() const { return is_far_from_zero(offset, spread); }
};

/// What rounding does to the populations of a channel, over all tokens: as they are, and around the mean of each.
struct PopulationErrors {
  double error = 0, energy = 0, varying_error = 0, variance = 0;
  void add(const PopulationErrors& other, double weight);
};
PopulationErrors errors_of_populations(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens);

}  // namespace kvcal
