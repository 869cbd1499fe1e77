// What an Observer needs: for the plan of a run's memory.
#include <algorithm>
#include <utility>

#include "stats/device_tables.h"
#include "stats/observer.h"
#include "stats/row_format_sampler.h"
#include "stats/site_tables.h"
#include "stats/state_observer.h"
#include "stats/statistics_layout.h"

namespace kvcal {
namespace {

/// Estimates for the memory plan, from normally distributed data: a head of 10^7 values fills about 20 octaves of 128
/// codes, a channel of 10^5 values about 18 octaves.
constexpr int64_t kCodesPerHead = 20 * 128, kOctavesPerChannel = 18;

/// A chat of four turns or more, with a system prompt and tools, has 14 kinds of tokens.
constexpr int64_t kKindsPerPrompt = 16;

}  // namespace

int64_t Observer::bytes_needed(const ModelSpec& spec, int64_t n_tokens, int64_t n_prompts, int n_passes) {
  std::vector<int64_t> dense(spec.layers.size() + 1);  // a spec read from elsewhere may lack layers: those count last
  int64_t encoded = 0;
  for (const KvLayout& layout : spec.caches) {
    const size_t first = std::min(static_cast<size_t>(layout.layer), spec.layers.size());
    const size_t last = std::max(first, static_cast<size_t>(spec.readers_of(layout.cache).back()));
    for (const CacheSite site : sites_of(layout)) {
      const int64_t heads = heads_of(layout, site), channels = heads * width_of(layout, site);
      for (size_t layer = first; layer <= std::min(last, spec.layers.size()); ++layer)
        dense[layer] += SiteTables::bytes(layout, site) + n_tokens / 8;
      encoded += heads * kCodesPerHead * static_cast<int64_t>(sizeof(std::pair<uint16_t, uint64_t>)) +
                 channels * (kOctavesPerChannel * static_cast<int64_t>(sizeof(OctaveMoments)) +
                             static_cast<int64_t>(sizeof(ChannelStatistics))) +
                 int64_t{2} * n_passes * n_prompts;
    }
  }
  return *std::max_element(dense.begin(), dense.end()) + encoded +
         StateObserver::bytes_needed(spec, n_prompts, n_passes);
}

int64_t Observer::device_bytes_needed(const ModelSpec& spec, const ObservedExtent& extent) {
  std::vector<int64_t> dense(spec.layers.size() + 1);
  for (const KvLayout& layout : spec.caches) {
    const size_t first = std::min(static_cast<size_t>(layout.layer), spec.layers.size());
    const size_t last = std::min(static_cast<size_t>(spec.readers_of(layout.cache).back()), spec.layers.size());
    for (const CacheSite site : sites_of(layout))
      for (size_t layer = first; site_exists(layout, site) && layer <= last; ++layer)
        dense[layer] += DeviceTables::bytes(layout, site, extent.n_passes * extent.n_prompts * kKindsPerPrompt);
    for (size_t layer = first; layer <= last; ++layer)
      dense[layer] += RowFormatSampler::bytes(layout, extent.n_samples, extent.precision);
    for (const int reader : spec.readers_of(layout.cache))  // whose figures stay until the last one is done
      for (size_t layer = std::max(first, std::min(static_cast<size_t>(reader), last)); layer <= last; ++layer)
        dense[layer] += AttentionSampler::bytes(layout.n_heads, extent.n_samples, extent.sample);
  }
  for (const StateLayout& layout : state_layouts(spec))
    dense[std::min(static_cast<size_t>(layout.layer), spec.layers.size())] +=
        DeviceTables::bytes(layout, extent.n_passes * extent.n_prompts * kKindsPerPrompt);
  int64_t before = 0, most = 0;  // a layer's tables are fetched when the next one is done
  for (const int64_t bytes : dense) {
    most = std::max(most, before + bytes);
    if (bytes > 0) before = bytes;
  }
  return most;
}

}  // namespace kvcal
