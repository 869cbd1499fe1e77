#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/position_bucket.h"
#include "stats/statistics_checks.h"

namespace kvcal {
namespace {

constexpr uint16_t kLargestFinite = 0x7F7F;
constexpr size_t kMaxBuckets = 64;

void check_histogram(const HeadStatistics& head, uint64_t expected) {
  const MagnitudeHistogram& h = head.histogram;
  uint64_t left = expected;  // counted down, so that no sum can overflow
  const auto take = [&](uint64_t n) {
    if (n > left) fail("more values are counted than the " + std::to_string(expected) + " of all states");
    left -= n;
  };
  for (const uint64_t n : {h.zeros, h.infinities, h.nans}) take(n);
  uint16_t previous = 0;
  for (const auto& [code, count] : h.counts) {
    if (code <= previous || code > kLargestFinite || count == 0)
      fail("histogram code " + std::to_string(code) + " with the count " + std::to_string(count) + " follows " +
           std::to_string(previous) + ", expected ascending finite codes that occurred");
    take(count);
    previous = code;
  }
  if (left != 0) fail(std::to_string(expected - left) + " values are counted, expected " + std::to_string(expected));
  if (head.absmax != previous)
    fail("absmax has the code " + std::to_string(head.absmax) + ", but the largest one counted is " +
         std::to_string(previous));
}

void check_place(const StateStatistics& state, size_t index, const RunRecord& run) {
  const HeadStatistics& head = state.counts.heads[index];
  const MagnitudeHistogram& h = head.histogram;
  const Provenance& w = head.where;
  if (h.counts.empty() && h.zeros == 0) {
    if (w != Provenance{}) fail("absmax has a place, but there are no finite values");
    return;
  }
  const auto n_prompts = static_cast<int64_t>(run.prompt_ids.size());
  if (w.pass < 1 || w.pass > run.n_passes || w.prompt < 0 || w.prompt >= n_prompts || w.token < 0 || w.position < 0 ||
      w.head != static_cast<int64_t>(index) || w.channel < 0 || w.channel >= state.layout.head_size())
    fail("absmax is placed outside of the run");
  const auto bucket = static_cast<size_t>(position_bucket(w.position));
  const std::vector<uint16_t>& positions = state.counts.position_absmax;
  if (bucket >= positions.size() || positions[bucket] < head.absmax)
    fail("absmax lies at position " + std::to_string(w.position) + ", but the maxima by position do not reach it");
  if (state.counts.prompt_absmax[static_cast<size_t>((w.pass - 1) * n_prompts + w.prompt)] < head.absmax)
    fail("absmax lies in prompt " + quoted(run.prompt_ids[static_cast<size_t>(w.prompt)]) +
         ", but the maxima by prompt do not reach it");
}

/// No maximum by position or by prompt is beyond all heads.
void check_maxima(const SiteStatistics& counts, const RunRecord& run) {
  if (counts.position_absmax.size() > kMaxBuckets) fail("there are maxima of too many positions");
  if (counts.prompt_absmax.size() != static_cast<size_t>(run.n_passes) * run.prompt_ids.size())
    fail(std::to_string(counts.prompt_absmax.size()) + " maxima by pass and prompt, expected " +
         std::to_string(static_cast<size_t>(run.n_passes) * run.prompt_ids.size()));
  uint16_t largest = 0;
  for (const HeadStatistics& head : counts.heads) largest = std::max(largest, head.absmax);
  for (const auto* maxima : {&counts.position_absmax, &counts.prompt_absmax})
    for (const uint16_t code : *maxima)
      if (code > largest) fail("a maximum by position or prompt is larger than that of all heads");
}

}  // namespace

void check_states(const Statistics& statistics) {
  const StateLayout* before = nullptr;
  for (const StateStatistics& state : statistics.states) {
    while_doing("layer " + std::to_string(state.layout.layer) + ", state", [&] {
      const StateLayout& layout = state.layout;
      if (before && before->layer >= layout.layer) fail("layers do not ascend");
      const auto size = static_cast<uint64_t>(layout.head_size());
      if (state.counts.n_tokens > kMaxObservationsPerHead / size) fail("more than 2^46 values of a head");
      check_maxima(state.counts, statistics.run);
      for (size_t h = 0; h < state.counts.heads.size(); ++h)
        while_doing("head " + std::to_string(h), [&] {
          check_histogram(state.counts.heads[h], state.counts.n_tokens * size);
          check_place(state, h, statistics.run);
        });
      before = &layout;
    });
  }
}

}  // namespace kvcal
