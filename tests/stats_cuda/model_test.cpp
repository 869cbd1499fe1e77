// Whole models: what a run on the CPU taps is observed twice, as it is and as tensors of the device.
#include <gtest/gtest.h>

#include "arch/golden.h"
#include "harness/emulated_ops.h"
#include "harness/loaded_model.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

class TwoObservers final : public KvTap, public StateCounter {
 public:
  TwoObservers(Observer& host, Observer& device, Ops& ops) : host_(host), device_(device), ops_(ops) {}

  Tensor query(int cache, const Tensor& q, const Batch& batch) override {
    device_.query(cache, ops_.upload(q), batch);
    return host_.query(cache, q, batch);
  }
  Tensor key(int cache, const Tensor& k, const Batch& batch) override {
    device_.key(cache, ops_.upload(k), batch);
    return host_.key(cache, k, batch);
  }
  Tensor value(int cache, const Tensor& v, const Batch& batch) override {
    device_.value(cache, ops_.upload(v), batch);
    return host_.value(cache, v, batch);
  }
  Tensor latent(int cache, const Tensor& row, const Batch& batch) override {
    device_.latent(cache, ops_.upload(row), batch);
    return host_.latent(cache, row, batch);
  }
  StateCounter* state_counter() override { return host_.state_counter() ? this : nullptr; }
  void count_states(int layer, std::span<const PassedState> states) override {
    std::vector<PassedState> there(states.begin(), states.end());
    for (PassedState& s : there) s.state = ops_.upload(s.state);
    device_.state_counter()->count_states(layer, there);
    host_.state_counter()->count_states(layer, states);
  }
  void layer_done(int layer) override {
    host_.layer_done(layer);
    device_.layer_done(layer);
    ops_.end_batch();
  }

 private:
  Observer &host_, &device_;
  Ops& ops_;
};

class ObservedModel : public testing::TestWithParam<std::tuple<std::string, Precision>> {};

TEST_P(ObservedModel, GivesEqualStatistics) {
  const auto& [name, precision] = GetParam();
  const Golden golden(name);
  LoadedModel m(golden.folder, {precision, 2, true});
  const auto device = test::emulated_cuda_ops(precision);

  const std::vector<std::string> names = {"a", "b", "c"};
  std::vector<PromptTokens> prompts;
  std::vector<int32_t> ids = golden.sequences().back();
  for (const int64_t n : {31, 1, 12})
    prompts.push_back({names[prompts.size()], std::vector<int32_t>(ids.begin(), ids.begin() + n), 1});
  // Pass 1: each alone; pass 2: packed.
  const std::vector<Sequence> sequences = {{0, 1, {{0, 0, 31}}, 31},
                                           {1, 1, {{1, 0, 1}}, 1},
                                           {2, 1, {{2, 0, 12}}, 12},
                                           {3, 2, {{2, 0, 12}, {0, 0, 31}, {1, 0, 1}}, 44}};
  const ObservationPlan plan{2, names, segments_of(sequences)};

  ThreadPool pool(1);
  Observer host(m.model->spec(), plan, pool), on_device(m.model->spec(), plan, pool, device.get());
  TwoObservers both(host, on_device, *device);
  Runner(*m.model, *m.ops, m.weights, 256).run({{&sequences, &both, Until::LastKv, nullptr}}, prompts);
  EXPECT_TRUE(file_bytes(on_device.take(small_record())) == file_bytes(host.take(small_record())));
}

INSTANTIATE_TEST_SUITE_P(Golden, ObservedModel,
                         testing::Combine(testing::Values("deepseek_v3", "llama", "qwen3", "qwen3_5", "qwen3_next"),
                                          testing::Values(Precision::BF16, Precision::F32)),
                         [](const auto& param) {
                           return std::get<0>(param.param) +
                                  (std::get<1>(param.param) == Precision::F32 ? "_f32" : "_bf16");
                         });

}  // namespace
}  // namespace kvcal::stats_test
