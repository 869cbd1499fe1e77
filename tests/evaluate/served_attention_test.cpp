// Attention with what servers round in it, of goldens' queries, keys and values: against numpy, and against itself in
// other batches. tests/reference/make_served_attention_goldens.py.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "arch/backend.h"
#include "arch/golden.h"
#include "evaluate/attention_paths.h"
#include "evaluate/make_variants.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

/// Of the outputs' root mean square: a probability that falls to the other side changes 1e-5 of it, a wrong form 4e-4.
constexpr double kMost = 1e-5, kLeastWrong = 4e-4;

struct Rows {
  std::vector<float> values;
  Shape shape;
  Tensor tensor() {
    Tensor t;
    t.data = values.data();
    t.shape = shape;
    t.dtype = DType::F32;
    return t;
  }
};

/// [tokens, heads, channels] by a number for each place, the last channel first.
Rows drawn(const Shape& shape, const std::function<float(int64_t)>& number) {
  Rows rows{{}, shape};
  for (int64_t i = 0; i < shape.elements(); ++i) rows.values.push_back(number(i));
  return rows;
}

struct Inputs {
  Rows q, k, v;
};

/// The script's loud_rows().
Inputs loud_first_key() {
  constexpr int64_t kTokens = 2049, kWidth = 16;
  const auto draw = [](int64_t a, int64_t b) {
    return [=](int64_t i) { return static_cast<float>((i * a + b) % 251 - 125) / 64; };
  };
  Inputs in{drawn({kTokens, 4, kWidth}, [](int64_t i) { return static_cast<float>(i * 4099 % 241 - 120) / 256; }),
            drawn({kTokens, 2, kWidth}, draw(7919, 3)),
            drawn({kTokens, 2, kWidth}, [&](int64_t i) { return draw(6007, 11)(i) + 1; })};
  for (size_t i = 0; i < in.q.values.size(); i += kWidth) in.q.values[i] = 4;
  for (size_t i = 0; i < in.k.values.size(); ++i)
    if (i % kWidth == 0 || i < 2 * kWidth) in.k.values[i] = i % kWidth == 0 && i < 2 * kWidth ? 8.0f : 0.0f;
  return in;
}

Inputs inputs_of(const std::string& name) {
  if (name == "loud") return loud_first_key();
  const Golden golden(name.substr(0, name.find(' ')));
  const auto rows = [&](const char* site) {
    const std::vector<float> values = golden.tensor(std::string("f32.") + site);
    const Json& g = golden.json;
    const int64_t heads = g.at(site == std::string("query") ? "n_heads" : "n_kv_heads"), dim = g.at("head_dim");
    return Rows{values, {static_cast<int64_t>(values.size()) / heads / dim, heads, dim}};
  };
  return {rows("query"), rows("key"), rows("value")};
}

/// What a case computes with, some of it perhaps wrong.
struct Form {
  std::vector<float> scales;  // of queries, keys, values; 0: as they are
  ProbabilityRounding probabilities;
};

class Case {
 public:
  explicit Case(const Json& json) : json_(json), in_(inputs_of(json.at("name"))), op_(backend(Precision::F32)) {}

  Form form_of(const AttentionPath& path) const {
    Form form{json_.at("scales").get<std::vector<float>>(), path.probabilities};
    if (path.query == QueryScale::One) form.scales[0] = 1;
    return form;
  }

  /// Of all tokens; cuts: where batches begin.
  std::vector<float> outputs(const Form& form, const std::vector<int64_t>& cuts = {}) {
    const Tensor q = rounded(in_.q, form.scales[0]), k = rounded(in_.k, form.scales[1]),
                 v = rounded(in_.v, form.scales[2]);
    std::vector<float> sinks = json_.at("sinks").get<std::vector<float>>();
    Rows sink_rows{sinks, {static_cast<int64_t>(sinks.size())}};
    AttentionSpec spec{.scale = json_.at("softmax_scale"), .window = json_.at("window")};
    if (!sinks.empty()) spec.sinks = sink_rows.tensor();
    spec.probabilities = form.probabilities;
    std::vector<float> all;
    KvRows kept;
    KvRows* const rows = cuts.empty() ? nullptr : &kept;
    std::vector<int64_t> ends = cuts;
    ends.push_back(q.dim(0));
    int64_t first = 0;
    for (const int64_t end : ends) {
      const Span span{0, end - first, first};
      const auto part = [&](const Tensor& x) { return x.rows(first, end - first); };
      const Tensor y = op_->attention(part(q), part(k), part(v), {&span, 1}, {&rows, 1}, spec);
      all.insert(all.end(), y.as<float>(), y.as<float>() + y.elements());
      first = end;
    }
    return all;
  }

  /// How far the outputs at the golden's positions are from it.
  double away(const Form& form, const std::string& server) {
    const auto expected = json_.at("paths").at(server).get<std::vector<float>>();
    const std::vector<float> all = outputs(form);
    const size_t width = all.size() / static_cast<size_t>(in_.q.shape[0]);
    double difference = 0, square = 0;
    size_t at = 0;
    for (const int64_t end : json_.at("ends").get<std::vector<int64_t>>())
      for (size_t c = 0; c < width; ++c, ++at) {
        const double y = expected[at], d = all[(static_cast<size_t>(end) - 1) * width + c] - y;
        difference += d * d;
        square += y * y;
      }
    EXPECT_EQ(at, expected.size());
    return std::sqrt(difference / square);
  }

  bool has_sinks() const { return !json_.at("sinks").empty(); }

 private:
  Tensor rounded(Rows& rows, float scale) {
    if (scale == 0) return rows.tensor();
    Rows one{{scale}, {1}};
    return op_->round_cache(rows.tensor(), {CacheFormat::E4m3, one.tensor(), one.tensor()});
  }

  Json json_;
  Inputs in_;
  std::unique_ptr<Ops> op_;
};

/// {name of the file's server: its line for heads that share key heads}
std::vector<std::pair<std::string, AttentionPath>> paths() {
  std::vector<std::pair<std::string, AttentionPath>> all;
  for (const AttentionPath& path : attention_paths())
    if (path.heads == CacheHeads::Shared) all.emplace_back(path.name.substr(0, path.name.find('@')), path);
  return all;
}

std::vector<Json> cases() {
  return read_json_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/evaluate/served_attention.json").at("cases");
}

TEST(ServedAttention, IsWhatNumpyComputes) {
  ASSERT_EQ(paths().size(), 2U);
  for (const Json& json : cases()) {
    Case c(json);
    for (const auto& [server, path] : paths()) {
      SCOPED_TRACE(json.at("name").get<std::string>() + ", " + server);
      EXPECT_LE(c.away(c.form_of(path), server), kMost);
    }
  }
}

// Each of them is the other server's, or none's.
TEST(ServedAttention, IsNoOther) {
  for (const Json& json : cases()) {
    Case c(json);
    for (const auto& [server, path] : paths()) {
      const Form right = c.form_of(path);
      Form plain = right, other_factor = right, unrounded_queries = right, other_sinks = right;
      plain.probabilities.factor = 0;
      other_factor.probabilities.factor = right.probabilities.factor == 1 ? 256 : 1;
      unrounded_queries.scales[0] = 0;
      other_sinks.probabilities.sinks_last = !right.probabilities.sinks_last;
      SCOPED_TRACE(json.at("name").get<std::string>() + ", " + server);
      EXPECT_GT(c.away(plain, server), kLeastWrong) << "probabilities as they are";
      if (json.at("name") != "loud") {  // whose queries differ little in one channel alone
        EXPECT_GT(c.away(unrounded_queries, server), kLeastWrong) << "queries as they are";
      } else {
        EXPECT_GT(c.away(other_factor, server), 0.1) << "the other factor";
      }
      if (c.has_sinks()) {
        EXPECT_GT(c.away(other_sinks, server), kLeastWrong) << "sinks elsewhere";
      }
    }
  }
}

TEST(ServedAttention, DoesNotDependOnBatches) {
  for (const Json& json : cases()) {
    if (json.at("name") == "loud") continue;
    Case c(json);
    for (const auto& [server, path] : paths())
      EXPECT_EQ(c.outputs(c.form_of(path)), c.outputs(c.form_of(path), {7, 33, 64})) << json.at("name") << server;
  }
}

ModelSpec spec_with(int64_t n_heads, int64_t n_kv_heads, const char* kind) {
  ModelSpec spec;
  KvLayout layout;
  layout.n_heads = n_heads;
  layout.n_kv_heads = n_kv_heads;
  layout.kind = kind;
  spec.caches.push_back(layout);
  return spec;
}

std::string refusal(const ModelSpec& spec, const char* format, const char* path) {
  return message_of([&] {
    check_attention(path);
    Variant variant = at_one(spec, stored_format(format));
    attend_as(variant, spec, path, nullptr);
  });
}

TEST(ServedAttention, IsRefusedWhereItIsNotModelled) {
  const ModelSpec shared = spec_with(4, 2, "full"), own = spec_with(4, 4, "full"), latent = spec_with(4, 1, "mla");
  EXPECT_EQ(refusal(shared, "fp8_e4m3", "vllm@0.33.0:TRITON_ATTN"), "no error");
  EXPECT_EQ(refusal(own, "fp8_e4m3", "sglang@0.5.23:triton"), "no error");
  EXPECT_EQ(refusal(latent, "fp8_e4m3", "vllm@0.33.0:TRITON_MLA"), "no error");
  EXPECT_EQ(refusal(latent, "fp8_e4m3", "sglang@0.5.23:triton"),
            "--attention sglang@0.5.23:triton: not modelled for layer 0, which has latent rows (MLA)");
  EXPECT_EQ(refusal(shared, "fp8_e4m3", "vllm@0.33.0:TRITON_MLA"),
            "--attention vllm@0.33.0:TRITON_MLA: not modelled for layer 0, which has query heads that share key heads");
  EXPECT_EQ(refusal(shared, "fp8_e5m2", "vllm@0.33.0:TRITON_ATTN"),
            "--attention vllm@0.33.0:TRITON_ATTN: not modelled for 'fp8_e5m2', only for fp8_e4m3 with a scale for each "
            "layer's keys and values");
  const std::string modelled = "modelled: vllm@0.33.0:TRITON_ATTN, vllm@0.33.0:TRITON_MLA, sglang@0.5.23:triton";
  EXPECT_EQ(refusal(shared, "fp8_e4m3", "vllm@0.32.0:TRITON_ATTN"),
            "--attention vllm@0.32.0:TRITON_ATTN: not modelled; " + modelled);
  for (const UnmodelledPath& path : unmodelled_paths())
    EXPECT_EQ(refusal(shared, "fp8_e4m3", std::string(path.name).c_str()),
              "--attention " + std::string(path.name) +
                  ": not modelled, as it is not known what its compiled kernels do to probabilities; " + modelled);
}

}  // namespace
}  // namespace kvcal
