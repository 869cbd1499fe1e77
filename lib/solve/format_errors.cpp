#include "solve/format_errors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "solve/channel_model.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

double relative(double squared_error, double energy) { return energy > 0 ? std::sqrt(squared_error / energy) : 0; }

/// The parts of the site that the statistics keep: itself, or the two parts of a latent row.
std::span<const CacheSite> parts_of(CacheSite site) {
  static constexpr std::array key = {CacheSite::Key}, value = {CacheSite::Value};
  static constexpr std::array row = {CacheSite::Latent, CacheSite::Rope};
  if (site == CacheSite::Key) return key;
  if (site == CacheSite::Value) return value;
  return row;
}

/// The largest of error(part, head) over all heads.
template <class Error>
double worst_of(const CacheStatistics& cache, CacheSite site, Error error) {
  double worst = 0;
  for (const CacheSite part : parts_of(site))
    for (size_t head = 0; head < cache.at(part).heads.size(); ++head)
      worst = std::max(worst, error(cache.at(part), head));
  return worst;
}

std::optional<double> static_error(const CacheStatistics& cache, CacheSite site, const RunRecord& run,
                                   const SolveOptions& options, const NumberFormat& format) {
  SolveOptions of_format = options;  // there is a column for scales per channel
  if (of_format.granularity == Granularity::Channel) of_format.granularity = Granularity::Tensor;
  try {
    const std::vector<float> scales = scales_for(cache, site, run, of_format, format);
    return worst_of(cache, site, [&](const SiteStatistics& s, size_t head) {
      return error_of(s.heads[head].histogram, format, scales[scales.size() == 1 ? 0 : head]).error;
    });
  } catch (const Error&) {  // broken values, or none: the same for whoever solves this site
    return std::nullopt;
  }
}

double per_channel_error(const SiteStatistics& s, size_t head) {
  static const NumberFormat& int8 = number_format("int8");
  const size_t width = s.channels.size() / s.heads.size();
  double energy = 0, squared_error = 0;
  for (size_t c = head * width; c < (head + 1) * width; ++c) {
    const ChannelStatistics& channel = s.channels[c];
    const double step = static_cast<double>(magnitude_of(channel.absmax)) / int8.max;
    energy += mean_square(channel, s.n_tokens);
    if (step > 0) squared_error += rounding_of(channel, int8, step, s.n_tokens).squared_error;
  }
  return relative(squared_error, energy);
}

void add_sampled(const CacheStatistics& cache, CacheSite site, FormatErrors& errors) {
  const SiteStatistics& first = cache.at(parts_of(site)[0]);
  errors.sampled_rows = energies_of(first.row_formats, 0).rows;
  if (errors.sampled_rows == 0) return;
  const auto worst = [&](auto squared_error) {
    return worst_of(cache, site, [&](const SiteStatistics& s, size_t head) {
      const RowFormatEnergies sums = energies_of(s.row_formats, static_cast<int32_t>(head));
      return relative(std::invoke(squared_error, sums), sums.energy);
    });
  };
  errors.e4m3_per_row = worst(&RowFormatEnergies::dynamic_error);
  errors.nvfp4 = worst(&RowFormatEnergies::nvfp4_error);
  if (energies_of(first.row_formats, 0).int4_error)
    errors.int4_per_row = worst([](const RowFormatEnergies& sums) { return *sums.int4_error; });
}

}  // namespace

FormatErrors format_errors(const CacheStatistics& cache, CacheSite site, const RunRecord& run,
                           const SolveOptions& options) {
  FormatErrors errors;
  errors.e4m3 = static_error(cache, site, run, options, number_format("fp8_e4m3"));
  errors.e5m2 = static_error(cache, site, run, options, fp8_e5m2());
  errors.int8 = static_error(cache, site, run, options, number_format("int8"));
  if (errors.int8)  // else there are broken values, or none
    errors.int8_per_channel =
        worst_of(cache, site, [](const SiteStatistics& s, size_t head) { return per_channel_error(s, head); });
  add_sampled(cache, site, errors);
  return errors;
}

std::span<const FormatColumn> format_columns() {
  static constexpr std::array columns = {
      FormatColumn{"fp8_e4m3", "fp8_e4m3", &FormatErrors::e4m3},
      FormatColumn{"fp8_e4m3_per_row", "fp8_e4m3 per row", &FormatErrors::e4m3_per_row},
      FormatColumn{"fp8_e5m2", "fp8_e5m2", &FormatErrors::e5m2},
      FormatColumn{"int8", "int8", &FormatErrors::int8},
      FormatColumn{"int8_per_channel", "int8 per channel", &FormatErrors::int8_per_channel},
      FormatColumn{"nvfp4", "nvfp4", &FormatErrors::nvfp4},
      FormatColumn{"int4_per_row", "int4 per row", &FormatErrors::int4_per_row},
  };
  return columns;
}

}  // namespace kvcal
