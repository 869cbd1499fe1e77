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
#include "stats/state_observer.h"
#include "stats/statistics_metadata.h"

namespace kvcal {
namespace {

bool exists(const KvLayout& layout, CacheSite site) { return heads_of(layout, site) > 0 && width_of(layout, site) > 0; }

/// Where a site's channels begin in what the tap is shown, and how many it is shown: parts of a row come together.
int64_t first_column(const KvLayout& layout, CacheSite site) { return site == CacheSite::Rope ? layout.latent_dim : 0; }
int64_t shown_width(const KvLayout& layout, CacheSite site) {
  return site == CacheSite::Latent || site == CacheSite::Rope ? layout.head_dim_k : width_of(layout, site);
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

  struct CacheInProgress {
    SiteInProgress& at(CacheSite site) {
      auto& slot = sites[static_cast<size_t>(site)];
      if (!slot) slot.emplace(SiteInProgress{Coverage(expected->tokens), std::nullopt, std::nullopt});
      return *slot;
    }
    /// Tokens that a site must have seen in the end.
    uint64_t expected_tokens(CacheSite site) const {
      const auto n = static_cast<uint64_t>(expected->tokens.n_tokens());
      return site == CacheSite::Query ? n * readers.size() : n;
    }
    void check_coverage(int layer);
    bool close();

    KvLayout layout;
    std::vector<int> readers;  // layers
    const Expectation* expected;
    AttentionSampler sampler;
    RowFormatSampler row_formats;
    std::array<std::optional<SiteInProgress>, kCacheSites> sites{};
    int32_t current_reader = 0;  // which of the readers reads it now
    bool closed = false;         // its layer is done
    bool waiting = false;        // closed, counted on the device and not yet fetched
    std::optional<CacheStatistics> done{};
  };

  State(const ModelSpec& spec, ObservationPlan p, ThreadPool& threads, Ops* ops, const SampleOptions& sample)
      : plan(std::move(p)),
        all({plan.n_passes, plan.prompt_ids, plan.segments}),
        pool(threads),
        device(ops),
        states(spec, plan, threads, ops) {
    if (spec.n_mtp_layers > 0) mtp.emplace(mtp_plan(plan));
    for (const KvLayout& layout : spec.caches) {
      const Expectation* expected = spec.is_mtp(layout.layer) ? &*mtp : &all;
      caches.push_back({layout, spec.readers_of(layout.cache), expected, AttentionSampler(sample),
                        RowFormatSampler(expected->n_samples)});
    }
  }

  int64_t n_prompts() const { return static_cast<int64_t>(plan.prompt_ids.size()); }

  std::span<const Repeat> repeats_of(int64_t sequence) const {
    const auto found = plan.repeats.find(sequence);
    return found == plan.repeats.end() ? std::span<const Repeat>() : found->second;
  }

  SiteTables& on_host(CacheInProgress& cache, CacheSite site) {
    SiteInProgress& progress = cache.at(site);
    if (!progress.on_host) progress.on_host.emplace(cache.layout, site, plan.n_passes, n_prompts(), plan.kinds);
    return *progress.on_host;
  }

  DeviceTables& on_device(CacheInProgress& cache, CacheSite site) {
    if (!device) fail("got a tensor that is not on the host, without a device that counts it");
    if (!ranks) ranks.emplace(plan);
    SiteInProgress& progress = cache.at(site);
    if (!progress.on_device) progress.on_device.emplace(*device, cache.layout, site, *ranks);
    return *progress.on_device;
  }

  void count(CacheInProgress& cache, CacheSite site, const Tensor& x, const Batch& batch);
  [[noreturn]] void fail_non_finite(const KvLayout& layout, CacheSite site, const NonFinite& first) const;
  void finish(CacheInProgress& cache);
  void finish_waiting();
  Statistics without_caches(RunRecord run) const;

  ObservationPlan plan;
  Expectation all;                 // of plan
  std::optional<Expectation> mtp;  // where there is an MTP layer
  ThreadPool& pool;
  Ops* device;
  StateObserver states;
  std::optional<RowRanks> ranks;  // once a tensor is not on the host
  std::vector<CacheInProgress> caches;
  Tensor layer_input;  // of the layer and the batch that run
};

Observer::Observer(const ModelSpec& spec, ObservationPlan plan, ThreadPool& pool, Ops* device,
                   const SampleOptions& sample)
    : state_(std::make_unique<State>(spec, std::move(plan), pool, device, sample)) {
  const std::vector<std::string>& ids = state_->plan.prompt_ids;
  if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) != ids.end())
    fail("the prompt ids of what to observe are not sorted, or one is there twice");
  check_kinds(state_->plan);
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
  State::CacheInProgress& of = s.caches[static_cast<size_t>(cache)];
  while_doing("observing " + label(of.layout, site), [&] {
    if (of.closed) fail("got tokens after the layer was finished");
    if (!exists(of.layout, site)) fail("a cache of kind " + quoted(of.layout.kind) + " has none");
    check_tensor(of.layout, site, x, batch);
    s.count(of, site, x, batch);
    for (const Segment& segment : batch.segments)
      for (const Repeat& repeat : s.repeats_of(segment.sequence))
        s.count(of, site, x.rows(segment.row, segment.n_tokens), once_more(segment, repeat));
  });
}

void Observer::State::count(CacheInProgress& cache, CacheSite site, const Tensor& x, const Batch& batch) {
  const int64_t from = first_column(cache.layout, site), width = width_of(cache.layout, site);
  cache.at(site).coverage.add(batch);
  if (x.device == Device::Host)
    on_host(cache, site).add(x, batch, pool, from);
  else
    on_device(cache, site).add(width == x.dim(2) ? x : device->columns(x, from, width), batch);
}

void Observer::attention(Ops& op, int cache, const TappedAttention& attention, const Batch& batch) {
  State& s = *state_;
  State::CacheInProgress& of = s.caches[static_cast<size_t>(cache)];
  while_doing("sampling the attention of layer " + std::to_string(of.layout.layer), [&] {
    of.sampler.add(op, attention, batch, {of.current_reader, s.layer_input}, s.pool);
  });
  if (of.current_reader == 0) of.row_formats.add(op, of.layout, attention, batch, s.pool);
}

StateCounter* Observer::state_counter() { return state_->states.empty() ? nullptr : &state_->states; }

void Observer::layer_input(const Tensor& x) { state_->layer_input = x; }

void Observer::State::fail_non_finite(const KvLayout& layout, CacheSite site, const NonFinite& first) const {
  const Provenance& at = first.where;
  fail(label(layout, site) + ", head " + std::to_string(at.head) + ": " + (first.is_nan ? "NaN" : "infinity") +
       " in prompt " + quoted(plan.prompt_ids[static_cast<size_t>(at.prompt)]) + ", token " + std::to_string(at.token) +
       " (pass " + std::to_string(at.pass) + ", position " + std::to_string(at.position) + ", channel " +
       std::to_string(at.channel) + "); expected finite values: is the checkpoint damaged, or its format misread?");
}

void Observer::State::CacheInProgress::check_coverage(int layer) {
  const std::string reader = layer == layout.layer ? "" : " in layer " + std::to_string(layer);
  for (const CacheSite site : sites_of(layout))
    if (const std::string fault = exists(layout, site) ? at(site).coverage.fault() : ""; !fault.empty())
      fail(label(layout, site) + reader + ": " + fault + "; this is a bug of this program, please report it");
  const int64_t sampled = sampler.n_rows(current_reader);
  if (sampled != 0 && sampled != expected->n_samples)
    fail("layer " + std::to_string(layout.layer) + reader + ": attention of " + std::to_string(sampled) +
         " rows was sampled, expected " + std::to_string(expected->n_samples) +
         "; this is a bug of this program, please report it");
}

/// Nothing more comes for this cache. True when the device has counted some of it.
bool Observer::State::CacheInProgress::close() {
  closed = true;
  sampler.close();
  row_formats.close();
  bool counted = false;
  for (const CacheSite site : sites_of(layout))
    if (exists(layout, site) && at(site).on_device) {
      at(site).on_device->close();
      counted = true;
    }
  return counted;
}

/// Its tables become statistics, and are freed.
void Observer::State::finish(CacheInProgress& cache) {
  cache.waiting = false;
  CacheStatistics result;
  result.layout = cache.layout;
  for (const CacheSite site : sites_of(cache.layout)) {
    if (!exists(cache.layout, site)) continue;
    SiteInProgress& progress = cache.at(site);
    SiteTables& tables = on_host(cache, site);
    if (progress.on_device) progress.on_device->fold_into(tables, pool);
    if (const NonFinite* first = tables.first_non_finite()) fail_non_finite(cache.layout, site, *first);
    result.at(site) = tables.encode(pool);
    cache.sites[static_cast<size_t>(site)].reset();
  }
  std::exchange(cache.row_formats, RowFormatSampler()).fold_into(result, pool);
  std::exchange(cache.sampler, AttentionSampler(SampleOptions{})).fold_into(result, pool);
  cache.done = std::move(result);
}

void Observer::State::finish_waiting() {
  for (CacheInProgress& cache : caches)
    if (cache.waiting) finish(cache);
}

void Observer::layer_done(int layer) {
  State& s = *state_;
  s.layer_input = {};
  s.finish_waiting();  // of the layer before, while the device works on this one
  s.states.layer_done(layer);
  for (State::CacheInProgress& cache : s.caches) {
    if (cache.closed || std::ranges::find(cache.readers, layer) == cache.readers.end()) continue;
    cache.check_coverage(layer);  // before what was seen: it is the more basic fault
    ++cache.current_reader;
    if (layer != cache.readers.back())
      cache.at(CacheSite::Query).coverage.reset();
    else if (cache.close())
      cache.waiting = true;
    else
      s.finish(cache);
  }
}

Statistics Observer::State::without_caches(RunRecord run) const {
  Statistics statistics;
  statistics.run = std::move(run);
  statistics.run.prompt_ids = plan.prompt_ids;
  statistics.run.n_passes = plan.n_passes;
  return statistics;
}

Statistics Observer::take(RunRecord run) {
  state_->finish_waiting();
  Statistics statistics = state_->without_caches(std::move(run));
  for (State::CacheInProgress& cache : state_->caches) {
    if (!cache.done) fail("layer " + std::to_string(cache.layout.layer) + " was never finished");
    statistics.caches.push_back(std::move(*cache.done));
  }
  statistics.states = state_->states.take();
  return statistics;
}

Statistics Observer::lend_finished(RunRecord run) {
  state_->finish_waiting();
  Statistics statistics = state_->without_caches(std::move(run));
  for (State::CacheInProgress& cache : state_->caches) {
    if (!cache.done) break;
    statistics.caches.push_back(*std::exchange(cache.done, std::nullopt));
  }
  statistics.states = state_->states.lend_finished();
  return statistics;
}

void Observer::restore(Statistics earlier) {
  State& s = *state_;
  if (earlier.run.prompt_ids != s.plan.prompt_ids || earlier.run.n_passes != s.plan.n_passes)
    fail("the statistics are from other prompts or passes");
  if (earlier.caches.size() > s.caches.size())
    fail("there are " + std::to_string(earlier.caches.size()) + " caches, the model has " +
         std::to_string(s.caches.size()));
  s.states.restore(std::move(earlier.states));
  for (size_t c = 0; c < earlier.caches.size(); ++c) {
    CacheStatistics& cache = earlier.caches[c];
    State::CacheInProgress& to = s.caches[c];
    if (layout_to_json(cache.layout) != layout_to_json(to.layout))
      fail("cache " + std::to_string(c) + " is another than the model's");
    for (const CacheSite site : sites_of(cache.layout))
      if (exists(cache.layout, site) && cache.at(site).n_tokens != to.expected_tokens(site))
        fail(label(cache.layout, site) + " has " + std::to_string(cache.at(site).n_tokens) + " tokens, expected " +
             std::to_string(to.expected_tokens(site)));
    to.closed = true;
    to.done = std::move(cache);
  }
}

}  // namespace kvcal
