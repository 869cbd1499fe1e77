// Latent attention: what prefill computes with keys and values of every head is what a server computes while decoding
// with the tapped rows and absorbed queries. The latter is written out here, in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "arch/backend.h"
#include "arch/golden.h"
#include "harness/compare.h"
#include "harness/loaded_model.h"
#include "harness/recording_tap.h"
#include "model/layers/latent_attention.h"

namespace kvcal {
namespace {

using Matrix = std::vector<double>;  // [rows, columns]

std::vector<float> floats_of(const Tensor& t) {
  std::vector<float> values(static_cast<size_t>(t.elements()));
  convert_to_float(t.dtype, t.data, values.data(), values.size());
  return values;
}

/// y[rows] = W [rows, columns] x
Matrix times(std::span<const float> w, const Matrix& x) {
  Matrix y(w.size() / x.size());
  for (size_t i = 0; i < y.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j) y[i] += double{w[i * x.size() + j]} * x[j];
  return y;
}

/// Softmax attention of one absorbed query over the rows up to its own -> the mean latent.
Matrix mean_latent(std::span<const float> query, std::span<const float> rows, size_t n_rows, size_t rank,
                   double scale) {
  const size_t width = query.size();
  Matrix p(n_rows);
  for (size_t j = 0; j < n_rows; ++j)
    for (size_t c = 0; c < width; ++c) p[j] += double{query[c]} * double{rows[j * width + c]} * scale;
  const double largest = *std::ranges::max_element(p);
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - largest);
  Matrix mean(rank);
  for (size_t j = 0; j < n_rows; ++j)
    for (size_t c = 0; c < rank; ++c) mean[c] += p[j] / sum * double{rows[j * width + c]};
  return mean;
}

class LatentAttentionTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LatentAttentionTest, AbsorbedDecodingGivesWhatPrefillGives) {
  const Golden golden(GetParam());
  LoadedModel m(golden.folder, {Precision::F32, 1, true});
  const KvLayout& layout = m.model->spec().caches.at(1);
  const Json& config = m.checkpoint.config();
  DecoderDims dims{};
  dims.hidden = m.model->spec().hidden;
  dims.n_heads = layout.n_heads;
  dims.eps = static_cast<float>(get_number(config, "rms_norm_eps"));
  const LatentDims d = read_latent_dims(config, dims, {});
  const LatentRope rope = read_latent_rope(config, d.rope);
  WeightBinder w = m.weights.text.at("layers.1.self_attn.");
  const LatentAttention attention(d, layout, rope.spec, *m.ops, w);

  constexpr int64_t kTokens = 70;
  const std::vector<PromptTokens> prompts = {{"p", std::vector<int32_t>(kTokens, 3), 1}};
  const std::vector<Sequence> sequences = {{0, 1, {{0, 0, kTokens}}, kTokens}};
  const Batch batch = make_batches(sequences, prompts, 4096, 1).at(0);
  const Storage h({kTokens, d.hidden}, DType::F32);
  for (int64_t i = 0; i < kTokens * d.hidden; ++i)
    h.tensor().as<float>()[i] = std::sin(static_cast<float>(i * i % 1009));
  LayerStates states;
  RecordingTap tap;
  const Tensor prefill = attention.forward(*m.ops, m.ops->upload(h.tensor()), batch, states, tap, Tail::Full);
  const std::vector<float> expected = floats_of(prefill);

  const std::vector<float>&rows = tap.seen.at({0, 1, Site::Latent}).values,
        &queries = tap.seen.at({0, 1, Site::Query}).values;
  const auto rank = static_cast<size_t>(d.kv_rank), width = static_cast<size_t>(layout.head_dim_k);
  ASSERT_EQ(rows.size(), kTokens * width);
  ASSERT_EQ(queries.size(), kTokens * width * static_cast<size_t>(d.n_heads));
  const std::vector<float> kv_b = floats_of(w("kv_b_proj.weight", {d.n_heads * (d.nope + d.value), d.kv_rank}));
  const std::vector<float> o_proj = floats_of(w("o_proj.weight", {d.hidden, d.n_heads * d.value}));
  const std::vector<float> o_bias = d.bias == Bias::Present ? floats_of(w("o_proj.bias", {d.hidden}))
                                                            : std::vector<float>(static_cast<size_t>(d.hidden));
  std::vector<float> decoded;
  for (size_t t = 0; t < kTokens; ++t) {
    Matrix heads;
    for (size_t head = 0; head < static_cast<size_t>(d.n_heads); ++head) {
      const auto query = std::span(queries).subspan((t * static_cast<size_t>(d.n_heads) + head) * width, width);
      const Matrix mean = mean_latent(query, rows, t + 1, rank, layout.softmax_scale);
      const auto first = (head * static_cast<size_t>(d.nope + d.value) + static_cast<size_t>(d.nope)) * rank;
      const Matrix value = times(std::span(kv_b).subspan(first, static_cast<size_t>(d.value) * rank), mean);
      heads.insert(heads.end(), value.begin(), value.end());
    }
    const Matrix out = times(o_proj, heads);
    for (size_t i = 0; i < out.size(); ++i) decoded.push_back(static_cast<float>(out[i] + double{o_bias[i]}));
  }
  EXPECT_TRUE(close(decoded, expected, 1e-5));
}

INSTANTIATE_TEST_SUITE_P(Golden, LatentAttentionTest,
                         ::testing::Values("deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "glm4_moe_lite"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace kvcal
