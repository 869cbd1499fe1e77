#include "stats/observer.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "stats/attention_sampler.h"
#include "stats/coverage.h"
#include "stats/device_tables.h"
#include "stats/row_format_sampler.h"
#include "stats/row_ranks.h"
#include "stats/site_tables.h"
#include "stats/statistics_metadata.h"

namespace kvcal {
namespace {

/// Estimates for the memory plan, from normally distributed data: a head of 10^7 values fills about 20 octaves of 128
/// codes, a channel of 10^5 values about 18 octaves.
constexpr int64_t kCodesPerHead = 20 * 128, kOctavesPerChannel = 18;

/// A chat of four turns or more, with a system prompt and tools, has 14 kinds of tokens.
constexpr int64_t kKindsPerPrompt = 16;

bool exists(const KvLayout& layout, CacheSite site) { return heads_of(layout, site) > 0 && width_of(layout, site) > 0; }

/// Where a site's channels begin in what the tap is shown, and how many it is shown: parts of a row come together.
int64_t first_column(const KvLayout& layout, CacheSite site) { return site == CacheSite::Rope ? layout.latent_dim : 0; }
int64_t shown_width(const KvLayout& layout, CacheSite site) {
  return site == CacheSite::Latent || site == CacheSite::Rope ? layout.head_dim_k : width_of(layout, site);
}

/// The layers that read a cache, ascending: its owner and those that share it.
std::vector<int> readers_of(const ModelSpec& spec, int cache) {
  std::vector<int> readers = {spec.caches[static_cast<size_t>(cache)].layer};
  for (const LayerSpec& l : spec.layers)
    if (l.shares_cache == cache) readers.push_back(l.index);
  return readers;
}

std::string label(const KvLayout& layout, CacheSite site) {
  return "layer " + std::to_string(layout.layer) + ", " + std::string(name_of(site));
}

void check_tensor(const KvLayout& layout, CacheSite site, const Tensor& x, const Batch& batch) {
  const Shape expected{batch.n_tokens(), heads_of(layout, site), shown_width(layout, site)};
  if (x.dtype != DType::BF16 && x.dtype != DType::F32) fail("got " + str(x) + ", expected BF16 or F32");
  if (!(x.shape == expected)) fail("got " + str(x) + ", expected " + str(expected));
  int64_t row = 0;
  for (const Segment& s : batch.segments) {
    if (s.row != row || s.n_tokens < 1)
      fail("a segment begins at row " + std::to_string(s.row) + " of a batch, expected " + std::to_string(row));
    row += s.n_tokens;
  }
  if (row != batch.n_tokens())
    fail("the segments of a batch have " + std::to_string(row) + " rows, expected " + std::to_string(batch.n_tokens()));
}

/// The rows of a segment alone, as those of the sequence that is not run.
Batch once_more(Segment segment, const Repeat& repeat) {
  segment.sequence = repeat.sequence;
  segment.pass = repeat.pass;
  segment.row = 0;
  Batch batch;
  batch.ids.resize(static_cast<size_t>(segment.n_tokens));
  batch.segments = {segment};
  return batch;
}

}  // namespace

struct Observer::State {
  /// What the sites of some layers are to see.
  struct Expectation {
    explicit Expectation(ObservationPlan p) : plan(std::move(p)), tokens(plan), n_samples(n_sampled(plan.segments)) {}
    ObservationPlan plan;
    PlannedTokens tokens;  // of plan
    int64_t n_samples;     // rows
  };

  struct SiteInProgress {
    Coverage coverage;
    std::optional<SiteTables> on_host;
    std::optional<DeviceTables> on_device;  // of tensors that are not on the host, until these are added to on_host
  };

  State(const ModelSpec& spec, ObservationPlan p, ThreadPool& threads, Ops* ops, const SampleOptions& sample)
      : caches(spec.caches),
        plan(std::move(p)),
        all({plan.n_passes, plan.prompt_ids, plan.segments}),
        pool(threads),
        device(ops),
        sites(spec.caches.size()) {
    for (const KvLayout& c : caches) readers.push_back(readers_of(spec, c.cache));
    samplers.assign(caches.size(), AttentionSampler(sample));
    if (spec.n_mtp_layers > 0) mtp.emplace(mtp_plan(plan));
    for (const KvLayout& c : caches) {
      expected.push_back(spec.is_mtp(c.layer) ? &*mtp : &all);
      row_formats.emplace_back(expected.back()->n_samples);
    }
    current_reader.resize(caches.size());
  }

  SiteInProgress& at(int cache, CacheSite site) {
    auto& slot = sites[static_cast<size_t>(cache)][static_cast<size_t>(site)];
    if (!slot)
      slot.emplace(SiteInProgress{Coverage(expected[static_cast<size_t>(cache)]->tokens), std::nullopt, std::nullopt});
    return *slot;
  }

  int64_t n_prompts() const { return static_cast<int64_t>(plan.prompt_ids.size()); }

  std::span<const Repeat> repeats_of(int64_t sequence) const {
    const auto found = plan.repeats.find(sequence);
    return found == plan.repeats.end() ? std::span<const Repeat>() : found->second;
  }

  SiteTables& on_host(const KvLayout& layout, CacheSite site) {
    SiteInProgress& progress = at(layout.cache, site);
    if (!progress.on_host) progress.on_host.emplace(layout, site, plan.n_passes, n_prompts(), plan.kinds);
    return *progress.on_host;
  }

  DeviceTables& on_device(const KvLayout& layout, CacheSite site) {
    if (!device) fail("got a tensor that is not on the host, without a device that counts it");
    if (!ranks) ranks.emplace(plan);
    SiteInProgress& progress = at(layout.cache, site);
    if (!progress.on_device) progress.on_device.emplace(*device, layout, site, *ranks);
    return *progress.on_device;
  }

  [[noreturn]] void fail_non_finite(const KvLayout& layout, CacheSite site, const NonFinite& first) const;
  void check_coverage(const KvLayout& layout, int layer);
  bool close(const KvLayout& layout);
  CacheStatistics finish(const KvLayout& layout);
  void finish_closed();

  /// Tokens that a site must have seen in the end.
  uint64_t expected_tokens(size_t cache, CacheSite site) const {
    const auto n = static_cast<uint64_t>(expected[cache]->tokens.n_tokens());
    return site == CacheSite::Query ? n * readers[cache].size() : n;
  }

  std::vector<KvLayout> caches;
  std::vector<std::vector<int>> readers;  // by cache: layers
  ObservationPlan plan;
  Expectation all;                           // of plan
  std::optional<Expectation> mtp;            // where there is an MTP layer
  std::vector<const Expectation*> expected;  // by cache
  ThreadPool& pool;
  Ops* device;
  std::optional<RowRanks> ranks;                                              // once a tensor is not on the host
  std::vector<std::array<std::optional<SiteInProgress>, kCacheSites>> sites;  // by cache and site
  std::vector<AttentionSampler> samplers;                                     // by cache
  std::vector<RowFormatSampler> row_formats;                                  // by cache
  std::vector<int32_t> current_reader;                                        // by cache: which reads it now
  Tensor layer_input;                                                         // of the layer and the batch that run
  std::vector<bool> closed;                                                   // by cache: its layer is done
  std::vector<size_t> waiting;  // closed caches that were counted on the device and not yet fetched
  std::vector<std::optional<CacheStatistics>> done;
};

Observer::Observer(const ModelSpec& spec, ObservationPlan plan, ThreadPool& pool, Ops* device,
                   const SampleOptions& sample)
    : state_(std::make_unique<State>(spec, std::move(plan), pool, device, sample)) {
  const std::vector<std::string>& ids = state_->plan.prompt_ids;
  if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) != ids.end())
    fail("the prompt ids of what to observe are not sorted, or one is there twice");
  check_kinds(state_->plan);
  state_->closed.resize(spec.caches.size());
  state_->done.resize(spec.caches.size());
}

Observer::~Observer() = default;

Tensor Observer::query(int cache, const Tensor& q, const Batch& batch) {
  observe(cache, CacheSite::Query, q, batch);
  return q;
}
Tensor Observer::key(int cache, const Tensor& k, const Batch& batch) {
  observe(cache, CacheSite::Key, k, batch);
  return k;
}
Tensor Observer::value(int cache, const Tensor& v, const Batch& batch) {
  observe(cache, CacheSite::Value, v, batch);
  return v;
}
Tensor Observer::latent(int cache, const Tensor& row, const Batch& batch) {
  observe(cache, CacheSite::Latent, row, batch);
  observe(cache, CacheSite::Rope, row, batch);
  return row;
}

void Observer::observe(int cache, CacheSite site, const Tensor& x, const Batch& batch) {
  State& s = *state_;
  if (cache < 0 || static_cast<size_t>(cache) >= s.caches.size())
    fail("cache " + std::to_string(cache) + " does not exist; the model has " + std::to_string(s.caches.size()));
  const KvLayout& layout = s.caches[static_cast<size_t>(cache)];
  while_doing("observing " + label(layout, site), [&] {
    if (s.closed[static_cast<size_t>(cache)]) fail("got tokens after the layer was finished");
    if (!exists(layout, site)) fail("a cache of kind " + quoted(layout.kind) + " has none");
    check_tensor(layout, site, x, batch);
    count(layout, site, x, batch);
    for (const Segment& segment : batch.segments)
      for (const Repeat& repeat : s.repeats_of(segment.sequence))
        count(layout, site, x.rows(segment.row, segment.n_tokens), once_more(segment, repeat));
  });
}

void Observer::count(const KvLayout& layout, CacheSite site, const Tensor& x, const Batch& batch) {
  State& s = *state_;
  const int64_t from = first_column(layout, site), width = width_of(layout, site);
  s.at(layout.cache, site).coverage.add(batch);
  if (x.device == Device::Host)
    s.on_host(layout, site).add(x, batch, s.pool, from);
  else
    s.on_device(layout, site).add(width == x.dim(2) ? x : s.device->columns(x, from, width), batch);
}

void Observer::attention(Ops& op, int cache, const TappedAttention& attention, const Batch& batch) {
  State& s = *state_;
  const auto c = static_cast<size_t>(cache);
  while_doing("sampling the attention of layer " + std::to_string(s.caches[c].layer), [&] {
    s.samplers[c].add(op, attention, batch, {s.current_reader[c], s.layer_input}, s.pool);
  });
  if (s.current_reader[c] == 0) s.row_formats[c].add(op, s.caches[c], attention, batch, s.pool);
}

void Observer::layer_input(const Tensor& x) { state_->layer_input = x; }

void Observer::State::fail_non_finite(const KvLayout& layout, CacheSite site, const NonFinite& first) const {
  const Provenance& at = first.where;
  fail(label(layout, site) + ", head " + std::to_string(at.head) + ": " + (first.is_nan ? "NaN" : "infinity") +
       " in prompt " + quoted(plan.prompt_ids[static_cast<size_t>(at.prompt)]) + ", token " + std::to_string(at.token) +
       " (pass " + std::to_string(at.pass) + ", position " + std::to_string(at.position) + ", channel " +
       std::to_string(at.channel) + "); expected finite values: is the checkpoint damaged, or its format misread?");
}

void Observer::State::check_coverage(const KvLayout& layout, int layer) {
  const std::string reader = layer == layout.layer ? "" : " in layer " + std::to_string(layer);
  for (const CacheSite site : sites_of(layout))
    if (const std::string fault = exists(layout, site) ? at(layout.cache, site).coverage.fault() : ""; !fault.empty())
      fail(label(layout, site) + reader + ": " + fault + "; this is a bug of this program, please report it");
  const int64_t sampled =
      samplers[static_cast<size_t>(layout.cache)].n_rows(current_reader[static_cast<size_t>(layout.cache)]);
  const int64_t planned = expected[static_cast<size_t>(layout.cache)]->n_samples;
  if (sampled != 0 && sampled != planned)
    fail("layer " + std::to_string(layout.layer) + reader + ": attention of " + std::to_string(sampled) +
         " rows was sampled, expected " + std::to_string(planned) +
         "; this is a bug of this program, please report it");
}

/// Nothing more comes for this cache. True when the device has counted some of it.
bool Observer::State::close(const KvLayout& layout) {
  closed[static_cast<size_t>(layout.cache)] = true;
  samplers[static_cast<size_t>(layout.cache)].close();
  row_formats[static_cast<size_t>(layout.cache)].close();
  bool counted = false;
  for (const CacheSite site : sites_of(layout))
    if (exists(layout, site) && at(layout.cache, site).on_device) {
      at(layout.cache, site).on_device->close();
      counted = true;
    }
  return counted;
}

CacheStatistics Observer::State::finish(const KvLayout& layout) {
  CacheStatistics result;
  result.layout = layout;
  for (const CacheSite site : sites_of(layout)) {
    if (!exists(layout, site)) continue;
    SiteInProgress& progress = at(layout.cache, site);
    SiteTables& tables = on_host(layout, site);
    if (progress.on_device) progress.on_device->fold_into(tables, pool);
    if (const NonFinite* first = tables.first_non_finite()) fail_non_finite(layout, site, *first);
    result.at(site) = tables.encode(pool);
    sites[static_cast<size_t>(layout.cache)][static_cast<size_t>(site)].reset();
  }
  std::exchange(row_formats[static_cast<size_t>(layout.cache)], RowFormatSampler()).fold_into(result, pool);
  AttentionSampler& sampler = samplers[static_cast<size_t>(layout.cache)];
  sampler.fold_into(result, pool);
  sampler = AttentionSampler(SampleOptions{});  // frees its tables
  return result;
}

void Observer::State::finish_closed() {
  for (const size_t c : std::exchange(waiting, {})) done[c] = finish(caches[c]);
}

void Observer::layer_done(int layer) {
  State& s = *state_;
  s.layer_input = {};
  s.finish_closed();  // of the layer before, while the device works on this one
  for (size_t c = 0; c < s.caches.size(); ++c) {
    const std::vector<int>& readers = s.readers[c];
    if (s.closed[c] || std::find(readers.begin(), readers.end(), layer) == readers.end()) continue;
    s.check_coverage(s.caches[c], layer);  // before what was seen: it is the more basic fault
    ++s.current_reader[c];
    if (layer != readers.back()) {
      s.at(static_cast<int>(c), CacheSite::Query).coverage.reset();
      continue;
    }
    if (s.close(s.caches[c]))
      s.waiting.push_back(c);
    else
      s.done[c] = s.finish(s.caches[c]);
  }
}

Statistics Observer::take(RunRecord run) {
  state_->finish_closed();
  Statistics statistics;
  statistics.run = std::move(run);
  statistics.run.prompt_ids = state_->plan.prompt_ids;
  statistics.run.n_passes = state_->plan.n_passes;
  for (size_t c = 0; c < state_->caches.size(); ++c) {
    if (!state_->done[c]) fail("layer " + std::to_string(state_->caches[c].layer) + " was never finished");
    statistics.caches.push_back(std::move(*state_->done[c]));
  }
  return statistics;
}

Statistics Observer::lend_finished(RunRecord run) {
  state_->finish_closed();
  Statistics statistics;
  statistics.run = std::move(run);
  statistics.run.prompt_ids = state_->plan.prompt_ids;
  statistics.run.n_passes = state_->plan.n_passes;
  for (size_t c = 0; c < state_->caches.size() && state_->done[c]; ++c)
    statistics.caches.push_back(*std::exchange(state_->done[c], std::nullopt));
  return statistics;
}

void Observer::restore(Statistics earlier) {
  State& s = *state_;
  if (earlier.run.prompt_ids != s.plan.prompt_ids || earlier.run.n_passes != s.plan.n_passes)
    fail("the statistics are from other prompts or passes");
  if (earlier.caches.size() > s.caches.size())
    fail("there are " + std::to_string(earlier.caches.size()) + " caches, the model has " +
         std::to_string(s.caches.size()));
  for (size_t c = 0; c < earlier.caches.size(); ++c) {
    CacheStatistics& cache = earlier.caches[c];
    if (layout_to_json(cache.layout) != layout_to_json(s.caches[c]))
      fail("cache " + std::to_string(c) + " is another than the model's");
    for (const CacheSite site : sites_of(cache.layout))
      if (exists(cache.layout, site) && cache.at(site).n_tokens != s.expected_tokens(c, site))
        fail(label(cache.layout, site) + " has " + std::to_string(cache.at(site).n_tokens) + " tokens, expected " +
             std::to_string(s.expected_tokens(c, site)));
    s.closed[c] = true;
    s.done[c] = std::move(cache);
  }
}

int64_t Observer::bytes_needed(const ModelSpec& spec, int64_t n_tokens, int64_t n_prompts, int n_passes) {
  std::vector<int64_t> dense(spec.layers.size() + 1);  // a spec read from elsewhere may lack layers: those count last
  int64_t encoded = 0;
  for (const KvLayout& layout : spec.caches) {
    const size_t first = std::min(static_cast<size_t>(layout.layer), spec.layers.size());
    const size_t last = std::max(first, static_cast<size_t>(readers_of(spec, layout.cache).back()));
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
  return *std::max_element(dense.begin(), dense.end()) + encoded;
}

int64_t Observer::device_bytes_needed(const ModelSpec& spec, const ObservedExtent& extent) {
  std::vector<int64_t> dense(spec.layers.size() + 1);
  for (const KvLayout& layout : spec.caches) {
    const size_t first = std::min(static_cast<size_t>(layout.layer), spec.layers.size());
    const size_t last = std::min(static_cast<size_t>(readers_of(spec, layout.cache).back()), spec.layers.size());
    for (const CacheSite site : sites_of(layout))
      for (size_t layer = first; exists(layout, site) && layer <= last; ++layer)
        dense[layer] += DeviceTables::bytes(layout, site, extent.n_passes * extent.n_prompts * kKindsPerPrompt);
    for (size_t layer = first; layer <= last; ++layer)
      dense[layer] += RowFormatSampler::bytes(layout, extent.n_samples, extent.precision);
    for (const int reader : readers_of(spec, layout.cache))  // whose figures stay until the last one is done
      for (size_t layer = std::max(first, std::min(static_cast<size_t>(reader), last)); layer <= last; ++layer)
        dense[layer] += AttentionSampler::bytes(layout.n_heads, extent.n_samples, extent.sample);
  }
  int64_t before = 0, most = 0;  // a layer's tables are fetched when the next one is done
  for (const int64_t bytes : dense) {
    most = std::max(most, before + bytes);
    if (bytes > 0) before = bytes;
  }
  return most;
}

}  // namespace kvcal
