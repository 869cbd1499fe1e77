// Every architecture against the reference framework: Q, K, V per head, whole tensors of one layer, the residual stream
// after every layer, last-position logits; in f32 and in bf16. On the backend of arch/backend.h.
#include <gtest/gtest.h>

#include <numeric>

#include "arch/backend.h"
#include "arch/golden.h"
#include "capacity/weight_bytes.h"
#include "harness/compare.h"
#include "harness/tolerances.h"
#include "harness/whole_run.h"

namespace kvcal {
namespace {

struct Site3 {
  const char* name;
  Site site;
};
constexpr Site3 kGqaSites[] = {{"key", Site::Key}, {"value", Site::Value}, {"query", Site::Query}};
constexpr Site3 kMlaSites[] = {{"latent", Site::Latent}, {"query", Site::Query}};

std::span<const Site3> sites_of(const KvLayout& c) {
  return c.is_mla() ? std::span<const Site3>(kMlaSites) : std::span<const Site3>(kGqaSites);
}

float head_absmax(const Recorded& r, int64_t heads, int64_t head) {
  const int64_t dim = static_cast<int64_t>(r.values.size()) / (r.n_tokens * heads);
  float m = 0;
  for (int64_t t = 0; t < r.n_tokens; ++t)
    for (int64_t c = 0; c < dim; ++c)
      m = std::max(m, std::fabs(r.values[static_cast<size_t>((t * heads + head) * dim + c)]));
  return m;
}

class ArchTest : public ::testing::TestWithParam<std::string> {
 protected:
  void run(Precision precision, WholeRun& result) {
    LoadedModel m(golden_.folder, backend(precision));
    result.run(m, golden_.sequences());
    EXPECT_EQ(m.weights.report().unclaimed, std::vector<std::string>{}) << "tensors that nobody asked for";
    caches_ = m.model->spec().caches;
    for (const KvLayout& c : caches_) n_sharing_.push_back(m.model->spec().n_sharing(c.cache));
  }

  void check(const std::string& precision, WholeRun& result, double absmax_bound, double rms_bound) {
    for (const KvLayout& c : caches_) check_absmax(c, result.tap, absmax_bound);
    const int layer = golden_.json.at("full_layer");
    const int64_t sequence = golden_.json.at("full_sequence");
    for (const KvLayout& c : caches_) {
      if (c.layer != layer) continue;
      for (const Site3& s : sites_of(c)) {
        std::vector<float> rows = result.tap.seen[{sequence, c.cache, s.site}].values;
        const std::vector<float> expected = golden_.tensor(precision + "." + s.name);
        if (expected.size() < rows.size())
          rows = kept_tokens(rows, golden_.sequences().at(static_cast<size_t>(sequence)).size());
        EXPECT_TRUE(close(rows, expected, rms_bound)) << precision << " " << s.name << " of layer " << layer;
      }
    }
  }

  // Per head over all sequences, against the f32 reference also in bf16.
  void check_absmax(const KvLayout& c, RecordingTap& tap, double bound) {
    const Json& layer = golden_.json.at("absmax").at("f32").at(std::to_string(c.layer));
    for (const Site3& s : sites_of(c)) {
      const Json& table = layer.at(s.name);  // [sequence][head]
      const int64_t heads = s.site == Site::Query ? c.n_heads : c.n_kv_heads;
      for (int64_t h = 0; h < heads; ++h) {
        double expected = 0, actual = 0;
        for (size_t i = 0; i < table.size(); ++i) {
          expected = std::max(expected, table[i].at(static_cast<size_t>(h)).get<double>());
          const auto sequence = static_cast<int64_t>(i);
          const auto look = [&](Site site) {
            actual = std::max(actual, static_cast<double>(head_absmax(tap.seen[{sequence, c.cache, site}], heads, h)));
          };
          look(s.site);
          for (int n = 1; s.site == Site::Query && n <= n_sharing_[static_cast<size_t>(c.cache)]; ++n)
            look(query_of_reader(n));
        }
        EXPECT_NEAR(actual, expected, bound * expected)
            << "absmax of " << s.name << ", layer " << c.layer << ", head " << h;
      }
    }
  }

  Golden golden_{GetParam()};
  std::vector<KvLayout> caches_;
  std::vector<int> n_sharing_;  // by cache
};

TEST_P(ArchTest, f32_matches_the_reference) {
  WholeRun result;
  run(Precision::F32, result);
  check("f32", result, tolerance::kF32Absmax, tolerance::kF32Rms);
  const std::vector<float> expected = golden_.tensor("f32.logits");
  const size_t vocab = expected.size() / result.logits.logits.size();
  for (const auto& [sequence, logits] : result.logits.logits)
    EXPECT_TRUE(
        close(logits, std::span(expected).subspan(static_cast<size_t>(sequence) * vocab, vocab), tolerance::kF32Rms))
        << "logits of sequence " << sequence;
}

TEST_P(ArchTest, bf16_matches_the_reference) {
  WholeRun result;
  run(Precision::BF16, result);
  check("bf16", result, tolerance::kBf16Absmax, tolerance::kBf16Rms);
  const std::vector<float> expected = golden_.tensor("bf16.logits");
  const size_t vocab = expected.size() / result.logits.logits.size();
  for (const auto& [sequence, logits] : result.logits.logits)
    EXPECT_GE(compare(logits, std::span(expected).subspan(static_cast<size_t>(sequence) * vocab, vocab)).cosine,
              tolerance::kBf16LogitsCosine)
        << "logits of sequence " << sequence;
}

TEST_P(ArchTest, parameters_are_counted_once) {
  if (!golden_.json.contains("parameters")) GTEST_SKIP() << "the files depart from what the reference read";
  EXPECT_EQ(parameters_of(parse_model(Checkpoint::open(golden_.folder).config())->spec()),
            golden_.json.at("parameters").get<int64_t>());
}

// Of goldens that say so: heads, widths, windows and scales of every cache, and who shares one.
TEST_P(ArchTest, layouts_match_the_reference) {
  const auto model = parse_model(Checkpoint::open(golden_.folder).config());
  const ModelSpec& spec = model->spec();
  EXPECT_EQ(static_cast<int>(spec.layers.size()), golden_.json.at("n_layers").get<int>());
  std::vector<int> layers;
  for (const KvLayout& c : spec.caches) layers.push_back(c.layer);
  EXPECT_EQ(layers, golden_.json.at("layers_with_cache").get<std::vector<int>>());
  if (!golden_.json.contains("layouts")) return;
  const int64_t longest = static_cast<int64_t>(golden_.sequences().back().size());
  for (const KvLayout& c : spec.caches) {
    const Json& l = golden_.json.at("layouts").at(std::to_string(c.layer));
    EXPECT_EQ(c.n_heads, l.at("n_heads").get<int64_t>()) << "layer " << c.layer;
    EXPECT_EQ(c.n_kv_heads, l.at("n_kv_heads").get<int64_t>()) << "layer " << c.layer;
    EXPECT_EQ(c.head_dim_k, l.at("head_dim_k").get<int64_t>()) << "layer " << c.layer;
    EXPECT_EQ(c.head_dim_v, l.at("head_dim_v").get<int64_t>()) << "layer " << c.layer;
    EXPECT_NEAR(c.softmax_scale, l.at("softmax_scale").get<double>(), 1e-9) << "layer " << c.layer;
    std::vector<int> sharing;
    for (const LayerSpec& reader : spec.layers)
      if (reader.shares_cache == c.cache) sharing.push_back(reader.index);
    EXPECT_EQ(sharing, l.at("shared_by").get<std::vector<int>>()) << "layer " << c.layer;
    const Json* visible = find_member(golden_.json.at("windows"), std::to_string(c.layer));  // or of a chunk
    if (c.window > 0) {
      EXPECT_EQ(visible ? visible->get<int64_t>() : longest, std::min(c.window, longest)) << "layer " << c.layer;
    }
  }
}

TEST_P(ArchTest, residual_stream_matches_after_every_layer) {
  LoadedModel m(golden_.folder, backend(Precision::F32));
  const auto ids = golden_.sequences().at(golden_.json.at("full_sequence").get<size_t>());
  const auto prompts = prompts_of({ids});
  const auto sequences = singles(prompts);
  NoTap tap;
  const Batch batch = make_batches(sequences, prompts, 4096, m.model->spec().n_position_axes).at(0);
  const auto embedding = m.model->load_embedding(*m.ops, m.weights.text);
  Tensor x = embedding->stream(*m.ops, embedding->forward(*m.ops, batch));
  RunStates states(m.model->spec());
  for (const LayerSpec& layer : m.model->spec().layers) {
    const auto block = m.model->load_block(layer.index, *m.ops, m.weights.text);
    x = block->forward(*m.ops, x, batch, states.begin(layer.index), tap, Tail::Full);
    states.end(layer.index);
    EXPECT_TRUE(close(kept_tokens(values_of(*m.ops, x), ids.size()),
                      golden_.tensor("f32.hidden." + std::to_string(layer.index)), tolerance::kF32Rms))
        << "after layer " << layer.index;
  }
}

std::string case_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Golden, ArchTest, ::testing::ValuesIn(golden_cases()), case_name);

}  // namespace
}  // namespace kvcal
