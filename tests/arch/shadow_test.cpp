// Every op that an architecture calls, on the CPU backend and on the CUDA backend in the emulator, with the same
// inputs.
#include <gtest/gtest.h>

#include "arch/backend.h"
#include "arch/golden.h"
#include "harness/loaded_model.h"
#include "harness/shadow_ops.h"

namespace kvcal {
namespace {

/// Samples every third row.
class SamplingTap final : public KvTap {
 public:
  Tensor query(int, const Tensor& q, const Batch&) override { return q; }
  Tensor key(int, const Tensor& k, const Batch&) override { return k; }
  Tensor value(int, const Tensor& v, const Batch&) override { return v; }
  Tensor latent(int, const Tensor& row, const Batch&) override { return row; }
  bool samples() const override { return true; }
  void attention(Ops& op, int, const TappedAttention& a, const Batch& batch) override {
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < batch.n_tokens(); i += 3) rows.push_back(static_cast<int32_t>(i));
    op.sample_attention(a.q, a.k, a.v, batch.spans, a.rows, a.spec, {rows, a.column_norms.values, a.one_scale});
    ++sampled;
  }
  void layer_done(int) override {}

  int sampled = 0;
};

class ShadowTest : public ::testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  Golden golden_{std::get<0>(GetParam())};
  Precision precision_ = std::get<1>(GetParam());
};

TEST_P(ShadowTest, both_backends_agree_op_by_op) {
  LoadedModel m(golden_.folder, {precision_, 2, true});
  const auto cuda = backend(precision_);
  ShadowOps shadow(*m.ops, *cuda);
  SamplingTap tap;

  // A sequence in pieces: what is kept of it is compared, too.
  Generator generator(*m.model, shadow, m.weights, 4096);
  std::vector<int32_t> ids = golden_.sequences().back();
  constexpr int64_t n = 128;
  ids.reserve(n);
  for (size_t i = 0; ids.size() < n; ++i) ids.push_back(ids[i]);  // short ones again from the beginning
  ids.resize(n);
  generator.last_logits({"", ids}, {70, 1, n - 71}, tap);

  // Whole sequences, side by side.
  std::vector<PromptTokens> prompts;
  std::vector<Sequence> sequences;
  for (const int64_t length : {3, 40}) {
    const auto i = static_cast<int64_t>(prompts.size());
    prompts.push_back({std::to_string(i), std::vector<int32_t>(ids.begin() + i, ids.begin() + i + length), 1});
    sequences.push_back({i, 1, {{i, 0, length}}, length});
  }
  Runner(*m.model, shadow, m.weights, 256).run({{&sequences, &tap, Until::LastKv, nullptr}}, prompts);
  EXPECT_GE(tap.sampled, 4 * static_cast<int>(m.model->spec().caches.size()));  // three pieces, and the whole sequences
  EXPECT_GT(shadow.compared, 20 * static_cast<int64_t>(m.model->spec().layers.size()));
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<std::string, Precision>>& info) {
  return std::get<0>(info.param) + (std::get<1>(info.param) == Precision::F32 ? "_f32" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(Golden, ShadowTest,
                         ::testing::Combine(::testing::ValuesIn(golden_cases()),
                                            ::testing::Values(Precision::F32, Precision::BF16)),
                         case_name);

}  // namespace
}  // namespace kvcal
