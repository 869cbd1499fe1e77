// The plan for a device of its own memory, with numbers made by hand.
#include <gtest/gtest.h>

#include "base/error.h"
#include "prefill/device_plan.h"

namespace kvcal {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;

// Hidden 1024, a layer of 100 Mi parameters, 10,000 elements per token; one cache of 4 heads of 128.
ModelSpec some_model() {
  ModelSpec spec;
  spec.hidden = 1024;
  spec.vocab = 1000;
  for (int i = 0; i < 3; ++i) {
    LayerSpec layer;
    layer.index = i;
    layer.cache = i;
    layer.parameters = 100 << 20;
    layer.activations = 10'000;
    spec.layers.push_back(layer);
    KvLayout cache;
    cache.cache = cache.layer = i;
    cache.n_kv_heads = 4;
    cache.head_dim_k = cache.head_dim_v = 128;
    spec.caches.push_back(cache);
  }
  return spec;
}

SequencePlan sequences(int64_t n, int64_t n_tokens) {
  SequencePlan plan;
  for (int64_t i = 0; i < n; ++i) plan.measured.push_back({i, 1, {{i, 0, n_tokens}}, n_tokens});
  return plan;
}

MemoryOptions device(uint64_t free) {
  MemoryOptions options;
  options.device.own = true;
  options.device.free_bytes = free;
  return options;
}

// Layer 2 reads the rows of layer 1: a run keeps those of all its tokens.
TEST(DevicePlan, RowsThatLayersShareCount) {
  ModelSpec spec = some_model();
  spec.layers[2].cache = -1;
  spec.layers[2].shares_cache = 1;
  spec.caches.pop_back();
  EXPECT_EQ(spec.last_counted_layer(), 2);
  const MemoryPlan plan = plan_device_memory(spec, sequences(512, 2048), device(139 * kGiB));
  const uint64_t rows = uint64_t{512} * 2048 * 4 * 256 * 2, padding = 512 * 512;
  EXPECT_EQ(plan.states, rows + padding);
  EXPECT_EQ(plan.reserve().persistent, plan.weights + plan.residual + plan.states);
}

TEST(DevicePlan, NumbersByHand) {
  const MemoryPlan plan = plan_device_memory(some_model(), sequences(512, 2048), device(139 * kGiB));
  EXPECT_EQ(plan.chunk_tokens, 262'144);
  EXPECT_TRUE(plan.on_device);
  EXPECT_EQ(plan.residual_place, ResidualPlace::Device);
  EXPECT_EQ(plan.weights, 2 * (200 * kMiB + kMiB));
  EXPECT_EQ(plan.residual, uint64_t{512} * 2048 * 1024 * 2 + 1024);
  EXPECT_EQ(plan.activations, uint64_t{262'144} * (10'000 * 2 + 64 + 152) + 2048 * 8 + kMiB / 4);
  EXPECT_EQ(plan.states, 0U);  // no sequence is cut
  EXPECT_EQ(plan.program, 384 * kMiB);
  EXPECT_EQ(plan.budget, 139 * kGiB);
  EXPECT_EQ(plan.reserve().temporaries, plan.activations);
  EXPECT_EQ(plan.reserve().persistent, plan.weights + plan.residual);
}

// Where the host's memory is the device's, too, both draw on one budget, and nothing is gained by going to the host.
TEST(DevicePlan, OfOneMemoryTheHostsPartCounts) {
  MemoryOptions options = device(139 * kGiB);
  options.device.is_hosts = true;
  const SequencePlan run = sequences(512, 2048);
  const MemoryPlan apart = plan_device_memory(some_model(), run, device(139 * kGiB)),
                   plan = plan_device_memory(some_model(), run, options);
  EXPECT_GT(apart.host, 0U);
  EXPECT_EQ(plan.host, apart.host);
  EXPECT_EQ(plan.total(), apart.total() + apart.host);
  EXPECT_EQ(plan.reserve().persistent, apart.reserve().persistent);
  options.device.free_bytes = 4 * kGiB;
  EXPECT_EQ(plan_device_memory(some_model(), run, options).residual_place, ResidualPlace::Device);
  options.device.free_bytes = 3 * kGiB;  // the stream has 2 GiB, wherever it lies
  EXPECT_NO_THROW(plan_device_memory(some_model(), run, device(3 * kGiB)));
  EXPECT_THROW(plan_device_memory(some_model(), run, options), Error);
}

// Weights that are decoded on the device come in as many bytes as the reader's ring has; the host needs no more.
TEST(DevicePlan, WeightsThatAreDecodedThereCount) {
  const MemoryPlan plain = plan_device_memory(some_model(), sequences(512, 2048), device(139 * kGiB)),
                   plan =
                       plan_device_memory(some_model(), sequences(512, 2048), device(139 * kGiB), WeightForm::Encoded);
  EXPECT_EQ(plan.program, plain.program + 128 * kMiB);
  EXPECT_EQ(plan.host, plain.host);
  EXPECT_EQ(plan.reserve().persistent, plain.reserve().persistent);
}

// What pass 1 samples: norms of the output projection beside the weights of two layers, magnitudes by position of the
// longest sequence beside those of a batch.
TEST(DevicePlan, SampledAttentionCounts) {
  ModelSpec spec = some_model();
  for (KvLayout& c : spec.caches) c.n_heads = 32;
  MemoryOptions options = device(139 * kGiB);
  options.chunk_tokens = 1024;
  const MemoryPlan plan = plan_device_memory(spec, sequences(1, 100'000), options);
  EXPECT_EQ(plan.weights, 2 * (200 * kMiB + 32 * 128 * 4 + kMiB));
  EXPECT_EQ(plan.activations, uint64_t{1024} * (10'000 * 2 + 64 + 152) + 100'000 * 8 + kMiB / 4);
  options.sampled_rows = 500;  // of which keys and values are gathered, of 4 heads of 128 channels each
  EXPECT_EQ(plan_device_memory(spec, sequences(1, 100'000), options).activations, plan.activations + 500 * 4 * 256 * 2);
  options.sampled_rows = 50'000;  // no more than a batch has
  EXPECT_EQ(plan_device_memory(spec, sequences(1, 100'000), options).activations,
            plan.activations + 1024 * 4 * 256 * 2);
  spec.layers[2].cache = -1;  // no attention, or that of an earlier layer's cache
  spec.layers[1].cache = -1;
  spec.layers[1].shares_cache = 0;
  spec.caches.resize(1);
  EXPECT_EQ(plan_device_memory(spec, sequences(1, 100'000), options).weights, plan.weights);
}

TEST(DevicePlan, SmallerBatchesBeforeTheResidualStreamLeavesTheDeviceAndLargerOnesAfter) {
  const ModelSpec spec = some_model();
  const SequencePlan run = sequences(512, 2048);  // residual stream: 2 GiB; 64 Ki rows: 1.22 GiB
  MemoryPlan plan = plan_device_memory(spec, run, device(4 * kGiB + 100 * kMiB));
  EXPECT_EQ(plan.chunk_tokens, 65'536);
  EXPECT_EQ(plan.residual_place, ResidualPlace::Device);
  plan = plan_device_memory(spec, run, device(3 * kGiB - 100 * kMiB));  // not even 16 Ki rows beside the stream
  EXPECT_EQ(plan.residual_place, ResidualPlace::Host);
  EXPECT_EQ(plan.chunk_tokens, 65'536);
  EXPECT_EQ(plan.residual, uint64_t{2} * 65'536 * 2048 + 1024);
  EXPECT_GE(plan.host, 2 * kGiB);
}

TEST(DevicePlan, TheBudgetBoundsTheDeviceAndALongSequenceHasStates) {
  MemoryOptions options = device(139 * kGiB);
  options.budget = 4 * kGiB + 100 * kMiB;
  EXPECT_EQ(plan_device_memory(some_model(), sequences(512, 2048), options).chunk_tokens, 65'536);
  options = device(139 * kGiB);
  options.chunk_tokens = 1000;
  const MemoryPlan plan = plan_device_memory(some_model(), sequences(2, 5000), options);
  EXPECT_EQ(plan.chunk_tokens, 768);
  EXPECT_EQ(plan.states, uint64_t{5000} * 4 * 256 * 2 + kMiB);
}

TEST(DevicePlan, ARefusalHasTheNumbers) {
  try {
    plan_device_memory(some_model(), sequences(512, 2048), device(700 * kMiB));
    FAIL() << "fits";
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "the run needs 797.2 MiB of the device's memory, the budget is 700.0 MiB (two layers 402.0 MiB, residual "
        "stream 1.0 MiB for two batches, one batch of 256 tokens 5.2 MiB, states 5.0 MiB, statistics 0 bytes, "
        "libraries 384.0 MiB); reduce --chunk-tokens or use shorter sequences");
  }
}

TEST(DevicePlan, EverySequenceOfABatchHasAStateWhereItIsRounded) {
  ModelSpec spec = some_model();
  spec.layers[1].state_bytes = 3 << 20;
  SequencePlan plan = sequences(5, 100);
  for (int i = 0; i < 5; ++i) plan.prompts.push_back({std::to_string(i), std::vector<int32_t>(100), 1});
  MemoryOptions options = device(139 * kGiB);
  options.chunk_tokens = 256;  // two of them
  EXPECT_EQ(plan_device_memory(spec, plan, options).states, 0U);
  options.keeps_states = true;
  EXPECT_GE(plan_device_memory(spec, plan, options).states, uint64_t{2} * (3 << 20));
}

// Two devices are dealt every second sequence: one may get all that are short.
TEST(DevicePlan, AShareOfTheSequencesMayHaveMoreInABatch) {
  ModelSpec spec = some_model();
  spec.layers[1].state_bytes = 3 << 20;
  SequencePlan plan;
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t n = i % 2 == 0 ? 230 : 60;
    plan.prompts.push_back({std::to_string(i), std::vector<int32_t>(static_cast<size_t>(n)), 1});
    plan.measured.push_back({i, 1, {{i, 0, n}}, n});
  }
  MemoryOptions options = device(139 * kGiB);
  options.chunk_tokens = 256;
  options.keeps_states = true;
  EXPECT_GE(plan_device_memory(spec, plan, options).states, uint64_t{4} * (3 << 20));
}

TEST(DevicePlan, SequencesLongerThanABlockHaveRows) {
  SequencePlan plan = sequences(1, 200);
  plan.prompts.push_back({"a", std::vector<int32_t>(200), 1});
  MemoryOptions options = device(139 * kGiB);
  EXPECT_EQ(plan_device_memory(some_model(), plan, options).states, 0U);
  options.block = 64;
  const MemoryPlan cut = plan_device_memory(some_model(), plan, options);
  EXPECT_EQ(cut.block, 64);
  EXPECT_GE(cut.states, uint64_t{200} * 4 * 256 * 2);
}

TEST(DevicePlan, OnlySequencesThatNoBatchHoldsAreCut) {
  std::vector<PromptTokens> prompts;
  std::vector<Sequence> list;
  for (const int64_t n : {300, 300, 700, 100}) {
    const auto i = static_cast<int64_t>(prompts.size());
    prompts.push_back({std::to_string(i), std::vector<int32_t>(static_cast<size_t>(n)), 1});
    list.push_back({i, 1, {{i, 0, n}}, n});
  }
  std::vector<std::vector<int64_t>> rows;  // of each batch's sequences
  for (const Batch& b : make_batches(list, prompts, 512, 1, Cut::LongOnly)) {
    rows.emplace_back();
    for (const SequenceSpan& s : b.sequences) rows.back().push_back(s.span.n_tokens);
  }
  EXPECT_EQ(rows, (std::vector<std::vector<int64_t>>{{300}, {300}, {512}, {188, 100}}));
}

}  // namespace
}  // namespace kvcal
