// The observer with tensors on the device: the bytes of the statistics file and every message are those of the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "harness/emulated_ops.h"
#include "harness/emulation.h"
#include "harness/forwarding_ops.h"
#include "ops/cpu/cpu_ops.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

const testing::Environment* const kEmulation = testing::AddGlobalTestEnvironment(new test::Emulation);

/// Counts what the observer does with its device.
class WatchedOps final : public ForwardingOps {
 public:
  explicit WatchedOps(Ops& inner) : ForwardingOps(inner) {}

  Owned allocate(const Shape& shape, DType dtype) override {
    const Owned o = inner_.allocate(shape, dtype);
    allocated += static_cast<int64_t>(o.view.bytes());
    held.push_back(o.memory);
    return o;
  }
  void download(const Tensor& from, const Tensor& host) override {
    ++waits;
    inner_.download(from, host);
  }
  void download_at(const Mark& mark, const Tensor& from, const Tensor& host) override {
    ++downloads;
    inner_.download_at(mark, from, host);
  }
  int64_t n_held() const {
    return std::count_if(held.begin(), held.end(), [](const auto& memory) { return !memory.expired(); });
  }

  int64_t allocated = 0, downloads = 0, waits = 0;
  std::vector<std::weak_ptr<void>> held;
};

/// Shows a batch as the device's tensors, which are gone when the batch is.
void show_on_device(Observer& observer, Ops& device, const ModelSpec& spec, int cache, const Batch& batch,
                    const Values& values, DType dtype) {
  const KvLayout& layout = spec.caches[static_cast<size_t>(cache)];
  for (const CacheSite site : sites_of(layout)) {
    if (heads_of(layout, site) == 0 || width_of(layout, site) == 0 || site == CacheSite::Rope) continue;
    if (site == CacheSite::Latent) {  // both parts
      const Tensor rows = device.upload(rows_of(spec, cache, batch, values, dtype).tensor());
      EXPECT_EQ(observer.latent(cache, rows, batch).data, rows.data);
      continue;
    }
    const Tensor x = device.upload(tensor_of(spec, cache, site, batch, values, dtype).tensor());
    const Tensor used = site == CacheSite::Key     ? observer.key(cache, x, batch)
                        : site == CacheSite::Value ? observer.value(cache, x, batch)
                                                   : observer.query(cache, x, batch);
    EXPECT_EQ(used.data, x.data);
  }
  device.end_batch();
}

Statistics device_run(const ModelSpec& spec, const ObservationPlan& plan, const Values& values,
                      const RunOptions& options = {}) {
  const auto device = test::emulated_cuda_ops(Precision::BF16);
  ThreadPool pool(options.threads);
  Observer observer(spec, plan, pool, device.get());
  for (const KvLayout& layout : spec.caches) {
    for (const Batch& batch : batches_of(plan, options))
      show_on_device(observer, *device, spec, layout.cache, batch, values, options.dtype);
    observer.layer_done(layout.layer);
  }
  return observer.take(small_record());
}

/// The same on the host, also for caches without values.
Statistics host_run(const ModelSpec& spec, const ObservationPlan& plan, const Values& values) {
  ThreadPool pool(1);
  const auto host = make_cpu_ops({Precision::BF16, 1, true});
  Observer observer(spec, plan, pool);
  for (const KvLayout& layout : spec.caches) {
    for (const Batch& batch : batches_of(plan, {}))
      show_on_device(observer, *host, spec, layout.cache, batch, values, DType::BF16);
    observer.layer_done(layout.layer);
  }
  return observer.take(small_record());
}

void expect_same_bytes(const ModelSpec& spec, const ObservationPlan& plan, const Values& values,
                       const RunOptions& options = {}) {
  EXPECT_TRUE(file_bytes(device_run(spec, plan, values, options)) == file_bytes(host_run(spec, plan, values)))
      << "chunks of " << options.chunk << (options.reversed ? ", reversed" : "");
}

// ------------------------------------------------------------------ equal bytes

TEST(DeviceObserver, GivesTheBytesOfTheHost) {
  for (const int64_t chunk : {64, 256, 1 << 20})
    for (const bool reversed : {false, true})
      for (const DType dtype : {DType::BF16, DType::F32})
        expect_same_bytes(small_spec(), small_plan(), mixed_value,
                          {.chunk = chunk, .reversed = reversed, .dtype = dtype});
  expect_same_bytes(small_spec(), small_plan(), mixed_value, {.chunk = 7, .reversed = true});
}

TEST(DeviceObserver, PartsOfLatentRows) {
  for (const DType dtype : {DType::BF16, DType::F32})
    expect_same_bytes(latent_spec(), small_plan(), mixed_value, {.chunk = 64, .reversed = true, .dtype = dtype});
}

TEST(DeviceObserver, ValuesFromOneEndToTheOther) {
  const auto extremes = [](const Spot& s) {
    const float x = mixed_value(s);
    return std::ldexp(x, static_cast<int>((s.position * 31 + s.channel * 7 + s.head) % 240) - 118);
  };
  expect_same_bytes(small_spec(), small_plan(), extremes, {.chunk = 64});
}

TEST(DeviceObserver, EqualMagnitudesBelongToTheSmallestPlace) {
  const auto same = [](const Spot& s) { return s.channel % 2 == 1 ? -2.0f : 1.0f; };
  const auto zeros = [](const Spot& s) { return s.channel % 2 == 1 ? -0.0f : 0.0f; };
  for (const bool reversed : {false, true}) {
    expect_same_bytes(small_spec(), small_plan(), same, {.chunk = 64, .reversed = reversed});
    expect_same_bytes(small_spec(), small_plan(), zeros, {.chunk = 64, .reversed = reversed});
  }
}

TEST(DeviceObserver, HeadsOfAllWidths) {
  struct Widths {
    int64_t heads, kv_heads, k, v, rotary;
    PairBound bound;
  };
  const Widths all[] = {{3, 1, 80, 80, 80, PairBound::Neox},
                        {5, 1, 576, 0, 64, PairBound::Gptj},
                        {2, 1, 96, 33, 48, PairBound::None},
                        {9, 3, 20, 136, 10, PairBound::Neox},
                        {1, 1, 256, 192, 64, PairBound::Neox}};
  for (const Widths& w : all) {
    ModelSpec spec = small_spec();
    spec.caches.resize(1);
    KvLayout& l = spec.caches[0];
    l.n_heads = w.heads;
    l.n_kv_heads = w.kv_heads;
    l.head_dim_k = w.k;
    l.head_dim_v = w.v;
    l.rotary_dim = w.rotary;
    l.pair_bound = w.bound;
    const ObservationPlan plan{1, {"a", "b"}, {{0, 1, 0, 0, 0, 0, 40}, {1, 1, 1, 0, 0, 0, 21}}};
    const auto statistics = [&](const Statistics& s) {
      std::vector<Provenance> places;
      for (const HeadStatistics& h : s.caches[0].at(CacheSite::Key).heads) places.push_back(h.where);
      return places;
    };
    EXPECT_EQ(statistics(device_run(spec, plan, mixed_value, {.chunk = 16})),
              statistics(host_run(spec, plan, mixed_value)));
    if (w.v > 0) expect_same_bytes(spec, plan, mixed_value, {.chunk = 16});
  }
}

// A prompt twice in one pass, at other positions and cut elsewhere: places are ordered by token first, then position.
TEST(DeviceObserver, RepeatedPromptsInOnePass) {
  const ObservationPlan plan{2,
                             {"a", "b"},
                             {{0, 1, 1, 0, 0, 0, 30},
                              {0, 1, 0, 0, 30, 0, 50},
                              {1, 1, 0, 50, 0, 0, 25},
                              {1, 1, 0, 0, 25, 0, 60},
                              {2, 1, 0, 60, 0, 0, 15},
                              {3, 2, 0, 0, 0, 0, 75},
                              {3, 2, 1, 0, 75, 0, 30}}};
  const auto by_position = [](const Spot& s) { return s.position % 3 == 1 ? 2.0f : 1.0f; };
  const auto late_tokens = [](const Spot& s) {
    const bool last = (s.sequence == 1 && s.position >= 25) || (s.sequence == 0 && s.position >= 40);
    return last ? -7.0f : mixed_value(s) * 0x1p-9f;
  };
  for (const bool reversed : {false, true})
    for (const Values& values : {Values(by_position), Values(late_tokens), Values(mixed_value)})
      expect_same_bytes(small_spec(), plan, values, {.chunk = 32, .reversed = reversed});
}

// ------------------------------------------------------------------ memory, waiting, faults

TEST(DeviceObserver, FetchesALayerWhenTheNextOneIsDone) {
  const auto device = test::emulated_cuda_ops(Precision::BF16);
  WatchedOps watched(*device);
  const ModelSpec spec = small_spec();
  ThreadPool pool(1);
  Observer observer(spec, small_plan(), pool, &watched);
  const auto show_layer = [&](int cache) {
    for (const Batch& batch : batches_of(small_plan(), {.chunk = 64}))
      show_on_device(observer, watched, spec, cache, batch, mixed_value, DType::BF16);
  };
  show_layer(0);
  observer.layer_done(1);
  EXPECT_EQ(watched.downloads, 0);
  show_layer(1);
  EXPECT_EQ(watched.downloads, 0);
  EXPECT_EQ(watched.n_held(), 6);  // three sites of two layers
  // The need counts 16 kinds of tokens for each prompt; these have fewer.
  EXPECT_LE(watched.allocated, Observer::device_bytes_needed(spec, {0, 3, 2}));
  EXPECT_GT(watched.allocated, Observer::device_bytes_needed(spec, {0, 3, 2}) * 99 / 100);
  observer.layer_done(3);
  EXPECT_GT(watched.downloads, 0);
  EXPECT_EQ(watched.n_held(), 3);
  EXPECT_TRUE(file_bytes(observer.take(small_record())) == file_bytes(host_run(spec, small_plan(), mixed_value)));
  EXPECT_EQ(watched.n_held(), 0);
  EXPECT_EQ(watched.waits, 0);
}

// What a resumable run saves after a layer is complete.
TEST(DeviceObserver, LendsTheLayerThatIsJustDone) {
  const auto device = test::emulated_cuda_ops(Precision::BF16);
  const ModelSpec spec = small_spec();
  ThreadPool pool(1);
  Observer observer(spec, small_plan(), pool, device.get());
  for (const Batch& batch : batches_of(small_plan(), {}))
    show_on_device(observer, *device, spec, 0, batch, mixed_value, DType::BF16);
  observer.layer_done(1);
  EXPECT_EQ(observer.lend_finished(small_record()).caches.size(), 1U);
}

TEST(DeviceObserver, NeedsTheMemoryOfTwoLayers) {
  ModelSpec one = small_spec(), both = small_spec(), apart = small_spec();
  one.caches.resize(1);
  both.caches[1].layer = 1;
  const int64_t a = Observer::device_bytes_needed(one, {100, 3, 2});
  EXPECT_EQ(Observer::device_bytes_needed(one, {100, 5, 2}), a + 8 * 3 * 2 * 2 * 16);  // by kind of token
  const int64_t row =
      one.caches[0].n_kv_heads * (one.caches[0].head_dim_k + one.caches[0].head_dim_v);  // and four heads
  const int64_t each = 3 * 4 + 8 + 768 + 2 * row;
  EXPECT_EQ(Observer::device_bytes_needed(one, {101, 3, 2}), a + 4 * 53 * 4 + each);
  const SampleOptions longer{SampleFormat::Int8, 3};  // of three ladders and the figures they have
  const int64_t b = Observer::device_bytes_needed(one, {100, 3, 2, longer});
  EXPECT_EQ(Observer::device_bytes_needed(one, {101, 3, 2, longer}), b + 4 * 65 * 4 + each);
  const int64_t wide = Observer::device_bytes_needed(one, {100, 3, 2, {}, Precision::F32});
  EXPECT_EQ(wide, a + 100 * 2 * row);
  EXPECT_EQ(Observer::device_bytes_needed(both, {100, 3, 2}), 2 * a);
  EXPECT_EQ(Observer::device_bytes_needed(small_spec(), {100, 3, 2}), 2 * a);
  apart.caches.push_back(apart.caches[0]);
  apart.caches.back().layer = 2;
  EXPECT_EQ(Observer::device_bytes_needed(apart, {100, 3, 2}), 2 * a);
}

std::string fault(Ops* device, const Values& values, const std::function<void(std::vector<Batch>&)>& change) {
  std::vector<Batch> batches = batches_of(small_plan(), {.chunk = 64});
  change(batches);
  return message_of([&] {
    const ModelSpec spec = small_spec();
    ThreadPool pool(1);
    const auto host = make_cpu_ops({Precision::BF16, 1, true});
    Observer observer(spec, small_plan(), pool, device);
    for (const Batch& batch : batches)
      show_on_device(observer, device ? *device : *host, spec, 0, batch, values, DType::BF16);
    observer.layer_done(1);
    observer.take({});
  });
}

TEST(DeviceObserver, InfinityAndNaNNameTheFirstPlace) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinite = std::numeric_limits<float>::infinity();
  const auto values = [](const Spot& s) {
    if (s.site != CacheSite::Value || s.sequence < 3) return mixed_value(s);
    if (s.sequence == 4 && s.position >= 70) return s.channel % 2 ? kInfinite : kNaN;
    if (s.sequence == 3 && s.position == 9) return -kInfinite;
    return mixed_value(s);
  };
  for (const bool reversed : {false, true}) {
    const auto order = [&](std::vector<Batch>& batches) {
      if (reversed) std::reverse(batches.begin(), batches.end());
    };
    const auto device = test::emulated_cuda_ops(Precision::BF16);
    const std::string message = fault(device.get(), values, order);
    EXPECT_EQ(message, fault(nullptr, values, order));
    EXPECT_NE(message.find("NaN in prompt 'a', token 70 (pass 2, position 70, channel 0)"), std::string::npos);
  }
}

TEST(DeviceObserver, MissesNoMissingBatch) {
  const auto device = test::emulated_cuda_ops(Precision::BF16);
  const auto change = [](std::vector<Batch>& batches) { batches.erase(batches.begin() + 1); };
  const std::string message = fault(device.get(), mixed_value, change);
  EXPECT_EQ(message, fault(nullptr, mixed_value, change));
  EXPECT_NE(message.find("saw 686 tokens, expected 750"), std::string::npos);
}

}  // namespace
}  // namespace kvcal::stats_test
