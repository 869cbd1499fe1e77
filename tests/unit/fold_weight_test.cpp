#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint_folder.h"
#include "fold/site_fold.h"
#include "fold/weight_fold.h"

namespace kvcal {
namespace {

/// n lines; from `first` on `n_lines` have the exponent, others 0.
std::vector<int> lines(int64_t n, int64_t first, int64_t n_lines, int exponent) {
  std::vector<int> all(static_cast<size_t>(n), 0);
  for (int64_t i = first; i < first + n_lines; ++i) all[static_cast<size_t>(i)] = exponent;
  return all;
}

class Weight : public testing::Test {
 protected:
  void store(const std::vector<TestTensor>& tensors, const std::string& quantization = "{}") {
    folder_.write("config.json", R"({"quantization_config": )" + quantization + "}");
    write_tensors(folder_ / "model.safetensors", tensors);
    checkpoint_.emplace(Checkpoint::open(folder_.path()));
  }
  Folded rows(const std::string& module, int64_t out, int64_t in, const std::vector<int>& exponents) {
    return WeightFolder(*checkpoint_).fold({module, out, in, Axis::Rows, exponents});
  }
  Folded columns(const std::string& module, int64_t out, int64_t in, const std::vector<int>& exponents) {
    return WeightFolder(*checkpoint_).fold({module, out, in, Axis::Columns, exponents});
  }

  TempFolder folder_;
  std::optional<Checkpoint> checkpoint_;
};

TEST_F(Weight, PlainTakesAnyRowWithItsBias) {
  store({{"v.weight", DType::BF16, {8, 16}}, {"v.bias", DType::F32, {8}}});
  const std::vector<int> e = lines(8, 3, 2, -4);
  const Folded folded = rows("v", 8, 16, e);
  EXPECT_EQ(folded.obstacle, "");
  EXPECT_EQ(folded.tensors, (std::vector<TensorFold>{{"v.weight", Axis::Rows, e}, {"v.bias", Axis::Rows, e}}));
  EXPECT_EQ(columns("v", 8, 16, lines(16, 0, 4, 1)).tensors.size(), 1U) << "a bias has no columns";
}

TEST_F(Weight, OfAnotherShapeIsAnObstacle) {
  store({{"v.weight", DType::BF16, {8, 16}}});
  expect_contains(rows("v", 16, 16, lines(16, 0, 4, 1)).obstacle, "expected the shape [16, 16]");
  expect_contains(rows("w", 8, 16, lines(8, 0, 4, 1)).obstacle, "'w.weight' is not there");
}

TEST_F(Weight, OfBlocksTakesWholeBlocks) {
  store({{"k.weight", DType::F8E4M3, {256, 256}}, {"k.weight_scale_inv", DType::F32, {2, 2}}},
        R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})");
  EXPECT_EQ(rows("k", 256, 256, lines(256, 128, 128, 3)).tensors,
            (std::vector<TensorFold>{{"k.weight_scale_inv", Axis::Rows, {0, 3}}}));
  EXPECT_EQ(columns("k", 256, 256, lines(256, 0, 128, -2)).tensors,
            (std::vector<TensorFold>{{"k.weight_scale_inv", Axis::Columns, {-2, 0}}}));
  expect_contains(rows("k", 256, 256, lines(256, 64, 64, 3)).obstacle, "inside of a block of 128 rows");
  expect_contains(columns("k", 256, 256, lines(256, 64, 64, 3)).obstacle, "are rounded together");
}

TEST_F(Weight, WhoseInputsAreRoundedByTokenTakesOneFactorForAllColumns) {
  store({{"o.weight", DType::F8E4M3, {64, 64}}, {"o.weight_scale", DType::F32, {64, 1}}},
        R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "weights": {"type": "float", "num_bits": 8, "strategy": "channel"},
            "input_activations": {"type": "float", "num_bits": 8, "strategy": "token", "dynamic": true}}}})");
  expect_contains(columns("o", 64, 64, lines(64, 0, 32, 1)).obstacle, "are rounded together");
  EXPECT_EQ(columns("o", 64, 64, lines(64, 0, 64, 1)).tensors,
            (std::vector<TensorFold>{{"o.weight_scale", Axis::Columns, {1}}}));
  EXPECT_EQ(rows("o", 64, 64, lines(64, 5, 1, 1)).tensors,
            (std::vector<TensorFold>{{"o.weight_scale", Axis::Rows, lines(64, 5, 1, 1)}}));
}

TEST_F(Weight, OfOneScaleIsRefused) {
  store({{"k.weight", DType::F8E4M3, {64, 64}}, {"k.weight_scale", DType::F32, {1}}}, R"({"quant_method": "fp8"})");
  expect_contains(rows("k", 64, 64, lines(64, 0, 64, 1)).obstacle, "one scale for all of it");
}

TEST_F(Weight, WithAScaleOfItsInputsKeepsItsColumns) {
  store({{"o.weight", DType::F8E4M3, {64, 64}},
         {"o.weight_scale", DType::F32, {64, 1}},
         {"o.input_scale", DType::F32, {1}}},
        R"({"quant_method": "fp8", "activation_scheme": "static"})");
  expect_contains(columns("o", 64, 64, lines(64, 0, 64, 1)).obstacle, "rounded with a scale of the checkpoint");
}

TEST_F(Weight, OfAwqHasItsScalesByGroupFirst) {
  store({{"o.qweight", DType::I32, {64, 16}}, {"o.qzeros", DType::I32, {2, 16}}, {"o.scales", DType::F16, {2, 128}}},
        R"({"quant_method": "awq", "bits": 4, "group_size": 32})");
  EXPECT_EQ(rows("o", 128, 64, lines(128, 7, 1, 2)).tensors,
            (std::vector<TensorFold>{{"o.scales", Axis::Columns, lines(128, 7, 1, 2)}}));
  EXPECT_EQ(columns("o", 128, 64, lines(64, 32, 32, 2)).tensors,
            (std::vector<TensorFold>{{"o.scales", Axis::Rows, {0, 2}}}));
  expect_contains(columns("o", 128, 64, lines(64, 0, 16, 2)).obstacle, "inside of a block of 32 columns");
}

TEST_F(Weight, OfGptqWithAnOrderTakesRowsOnly) {
  store({{"o.qweight", DType::I32, {8, 128}},
         {"o.qzeros", DType::I32, {2, 16}},
         {"o.scales", DType::F16, {2, 128}},
         {"o.g_idx", DType::I32, {64}}},
        R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true})");
  EXPECT_EQ(rows("o", 128, 64, lines(128, 7, 1, 2)).tensors,
            (std::vector<TensorFold>{{"o.scales", Axis::Columns, lines(128, 7, 1, 2)}}));
}

/// A weight [128, 64] of n groups, whose columns are in them as `order` says.
class Ordered : public Weight {
 protected:
  Folded columns_of(const std::string& format, const std::vector<int32_t>& order, int64_t n,
                    const std::vector<int>& exponents) {
    const bool gptq = format == "gptq";
    const std::string name = gptq ? "o.g_idx" : "o.weight_g_idx";
    std::vector<TestTensor> tensors = {{"o.weight_packed", DType::I32, {128, 8}},
                                       {"o.weight_scale", DType::BF16, {128, n}}};
    if (gptq)
      tensors = {
          {"o.qweight", DType::I32, {8, 128}}, {"o.qzeros", DType::I32, {n, 16}}, {"o.scales", DType::F16, {n, 128}}};
    folder_.write("config.json", R"({"quantization_config": {"quant_method": ")" + format + R"("}})");
    tensors.push_back({name, DType::I32, {64}});
    std::ranges::sort(tensors, {}, &TestTensor::name);
    SafetensorsWriter writer(folder_ / "model.safetensors", Existing::Replace);
    for (const TestTensor& t : tensors) writer.declare(t.name, t.dtype, t.shape);
    for (const TestTensor& t : tensors) {
      const std::vector<std::byte> zeros(static_cast<size_t>(t.shape.elements() * bits_of(t.dtype) / 8));
      writer.write(t.name, t.name == name ? std::as_bytes(std::span(order)) : std::span(zeros));
    }
    writer.commit();
    checkpoint_.emplace(Checkpoint::open(folder_.path()));
    return columns("o", 128, 64, exponents);
  }
  static std::vector<int32_t> order(int (*group)(int)) {
    std::vector<int32_t> all(64);
    for (int i = 0; i < 64; ++i) all[static_cast<size_t>(i)] = group(i);
    return all;
  }
  static std::vector<TensorFold> folds(const std::string& format, const std::vector<int>& exponents) {
    if (format == "gptq") return {{"o.scales", Axis::Rows, exponents}};
    return {{"o.weight_scale", Axis::Columns, exponents}};
  }
};

TEST_F(Ordered, ByRunsTakesThemAsWithoutAnOrder) {
  for (const std::string format : {"gptq", "compressed-tensors"}) {
    const Folded folded = columns_of(format, order([](int k) { return k / 32; }), 2, lines(64, 32, 32, 2));
    EXPECT_EQ(folded.obstacle, "") << format;
    EXPECT_EQ(folded.tensors, folds(format, {0, 2}));
    expect_contains(columns("o", 128, 64, lines(64, 0, 16, 2)).obstacle, "change inside of a group of columns");
  }
}

TEST_F(Ordered, ByAnyOrderTakesWhatEveryGroupHasInCommon) {
  for (const std::string format : {"gptq", "compressed-tensors"}) {
    // Groups of 16, the later first, and columns of the first half taken in turns by two of them.
    const auto turns = order([](int k) { return k < 32 ? 3 - k % 2 : 1 - (k - 32) / 16; });
    EXPECT_EQ(columns_of(format, turns, 4, lines(64, 0, 32, -1)).tensors, folds(format, {0, 0, -1, -1}));
    EXPECT_EQ(columns_of(format, turns, 4, lines(64, 32, 16, 2)).tensors, folds(format, {0, 2, 0, 0}));
    expect_contains(columns_of(format, turns, 4, lines(64, 0, 16, 2)).obstacle,
                    std::string("factors of 'o' change inside of a group of columns that ") +
                        (format == "gptq" ? "'o.g_idx'" : "'o.weight_g_idx'") + " puts together");
  }
}

TEST_F(Ordered, OfOneGroupTakesOneFactor) {
  for (const std::string format : {"gptq", "compressed-tensors"}) {
    const auto zeros = order([](int) { return 0; });
    EXPECT_EQ(columns_of(format, zeros, 1, lines(64, 0, 64, 3)).tensors, folds(format, {3}));
    expect_contains(columns_of(format, zeros, 1, lines(64, 0, 32, 3)).obstacle, "change inside of a group of columns");
  }
}

TEST_F(Ordered, ByAGroupThatDoesNotExistIsAnError) {
  const auto broken = order([](int k) { return k == 5 ? 2 : k / 32; });
  expect_contains(message_of([&] { columns_of("gptq", broken, 2, lines(64, 0, 64, 1)); }),
                  "column 5 is in group 2 by 'o.g_idx'");
}

TEST_F(Weight, OfPackedGroupsTakesGroups) {
  store({{"o.weight_packed", DType::I32, {128, 8}}, {"o.weight_scale", DType::BF16, {128, 2}}},
        R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "weights": {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32}}}})");
  EXPECT_EQ(columns("o", 128, 64, lines(64, 32, 32, 2)).tensors,
            (std::vector<TensorFold>{{"o.weight_scale", Axis::Columns, {0, 2}}}));
}

// Heads of 128 + 64 rows over blocks of 128, as DeepSeek-V3 is published: rows of the rope part share blocks with those
// of the next head, so all of the queries take the factor, and the other part of the keys its inverse.
class Latent : public Weight {
 protected:
  static constexpr int64_t kHidden = 256, kRank = 128, kHeads = 2, kNope = 128, kRope = 64, kValue = 128;

  Latent() {
    const std::string a = "model.layers.0.self_attn.";
    const auto fp8 = [&](const std::string& name, int64_t out, int64_t in) {
      tensors_.push_back({a + name + ".weight", DType::F8E4M3, {out, in}});
      tensors_.push_back({a + name + ".weight_scale_inv", DType::F32, {(out + 127) / 128, (in + 127) / 128}});
    };
    fp8("q_proj", kHeads * (kNope + kRope), kHidden);
    fp8("kv_a_proj_with_mqa", kRank + kRope, kHidden);
    fp8("kv_b_proj", kHeads * (kNope + kValue), kRank);
    tensors_.push_back({a + "kv_a_layernorm.weight", DType::BF16, {kRank}});
    store(tensors_, R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})");
    spec_.hidden = kHidden;
    LayerSpec layer;
    layer.cache = 0;
    layer.attention.module = "layers.0.self_attn.";
    layer.attention.nope = kNope;
    layer.attention.value_dim = kValue;
    spec_.layers = {layer};
    KvLayout layout;
    layout.kind = "mla";
    layout.n_heads = kHeads;
    layout.n_kv_heads = 1;
    layout.head_dim_k = kRank + kRope;
    layout.latent_dim = layout.head_dim_v = kRank;
    layout.rotary_dim = kRope;
    spec_.caches = {layout};
  }

  std::vector<TestTensor> tensors_;
  ModelSpec spec_;
};

TEST_F(Latent, RopePartTakesTheWholeQueriesWithIt) {
  const WeightFolder folder(*checkpoint_);
  const FoldedCache cache{spec_, spec_.caches[0], folder, "model."};
  const Folded folded = rope_weights(cache).fold(std::vector<int>(kRope, 2));
  EXPECT_EQ(folded.obstacle, "");
  const std::string a = "model.layers.0.self_attn.";
  EXPECT_EQ(folded.tensors, (std::vector<TensorFold>{{a + "kv_a_proj_with_mqa.weight_scale_inv", Axis::Rows, {0, 2}},
                                                     {a + "q_proj.weight_scale_inv", Axis::Rows, {-2, -2, -2}},
                                                     {a + "kv_b_proj.weight_scale_inv", Axis::Rows, {2, 0, 2, 0}}}));
}

TEST_F(Latent, PairsOfTheRopePartCannotDiffer) {
  const WeightFolder folder(*checkpoint_);
  const FoldedCache cache{spec_, spec_.caches[0], folder, "model."};
  expect_contains(rope_weights(cache).fold(lines(kRope, 0, 2, 2)).obstacle, "inside of a block");
}

}  // namespace
}  // namespace kvcal
