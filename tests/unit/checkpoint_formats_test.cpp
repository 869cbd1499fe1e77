// Quantized weight formats: the weights of the goldens bit for bit, and what is said of malformed ones.
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/formats/stored_weight.h"
#include "checkpoint/weight_binder.h"
#include "tensor/small_floats.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

fs::path goldens() { return fs::path(KVCAL_SOURCE_DIR) / "tests/unit/data/formats"; }

std::vector<std::string> golden_cases() {
  std::vector<std::string> cases;
  for (const auto& entry : fs::directory_iterator(goldens())) cases.push_back(entry.path().filename().string());
  std::sort(cases.begin(), cases.end());
  return cases;
}

class Format : public testing::TestWithParam<std::string> {};

TEST_P(Format, GivesTheGoldenWeights) {
  const Checkpoint checkpoint = Checkpoint::open(goldens() / GetParam());
  const SafetensorsFile expected(goldens() / GetParam() / "expected.safetensors");
  const WeightBinder weights(checkpoint);
  for (const TensorInfo& info : expected.tensors()) {
    const Tensor actual = weights(info.name, info.shape), golden = expected.tensor(info);
    ASSERT_EQ(str(actual), str(golden));
    for (int64_t i = 0; i < golden.elements(); ++i)
      ASSERT_EQ(actual.as<bf16>()[i].bits, golden.as<bf16>()[i].bits)
          << "element " << i << ": " << to_float(actual.as<bf16>()[i]) << ", expected "
          << to_float(golden.as<bf16>()[i]);
  }
  const SkipReport report = weights.report(SkipRules("model.layers.", 1));
  EXPECT_TRUE(report.unclaimed.empty()) << report.unclaimed.front() << " was not used";
}

TEST_P(Format, RowsMayBeDecodedInAnyPieces) {
  const Checkpoint checkpoint = Checkpoint::open(goldens() / GetParam());
  const SafetensorsFile expected(goldens() / GetParam() / "expected.safetensors");
  const QuantizationFacts facts = read_quantization_facts(checkpoint);
  const TensorInfo& info = expected.tensors().front();
  const WeightRequest request{checkpoint, facts, info.name, info.shape};
  const auto stored = find_stored_weight(request);
  ASSERT_TRUE(stored);
  const int64_t rows = request.experts() * request.out(), in = request.in();
  const DecodeRows decode = stored->open();
  std::vector<bf16> pieces(static_cast<size_t>(rows * in));
  for (int64_t first = 0; first < rows; first += 5)
    decode({first, std::min<int64_t>(5, rows - first)}, pieces.data() + first * in);
  EXPECT_EQ(std::memcmp(pieces.data(), expected.tensor(info).data, pieces.size() * sizeof(bf16)), 0);
}

INSTANTIATE_TEST_SUITE_P(Golden, Format, testing::ValuesIn(golden_cases()),
                         [](const auto& golden) { return golden.param; });

TEST(Formats, SquareExpertsOfModelOptAreNotItsInt4) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  write_tensors(folder / "model.safetensors", {{"experts.down_proj", DType::U8, {3, 32, 64}},
                                               {"experts.down_proj_weight_scale", DType::F8E4M3, {3, 4, 64}},
                                               {"experts.down_proj_weight_scale_2", DType::F32, {}}});
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const WeightBinder weights(checkpoint);
  EXPECT_EQ(str(weights.shapes_only()("experts.down_proj", {3, 64, 64})), "BF16 [3, 64, 64]");
}

TEST(Formats, BlocksOfASingleRowAreNoGroups) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  SafetensorsWriter writer(folder / "model.safetensors", Existing::Replace);
  const std::vector<uint8_t> ones(192, 0x38);
  const std::vector<float> scales = {2, 3};
  writer.declare("gate.weight", DType::F8E4M3, {1, 192});
  writer.declare("gate.weight_scale_inv", DType::F32, {1, 2});
  writer.write("gate.weight", std::as_bytes(std::span(ones)));
  writer.write("gate.weight_scale_inv", std::as_bytes(std::span(scales)));
  writer.commit();
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const WeightBinder weights(checkpoint);  // owns what it decodes
  const Tensor gate = weights("gate.weight", {1, 192});
  EXPECT_EQ(to_float(gate.as<bf16>()[127]), 2);
  EXPECT_EQ(to_float(gate.as<bf16>()[128]), 3);
}

// ------------------------------------------------------------------------------------------------ malformed

class Malformed : public testing::Test {
 protected:
  /// What is said when up_proj [16, 64] is asked for.
  std::string refusal(const std::vector<TestTensor>& tensors, const std::string& quantization = "{}") {
    folder_.write("config.json", R"({"quantization_config": )" + quantization + "}");
    write_tensors(folder_ / "model.safetensors", tensors);
    const Checkpoint checkpoint = Checkpoint::open(folder_.path());
    const WeightBinder weights(checkpoint);
    return message_of([&] { weights("up_proj.weight", {16, 64}); });
  }
  TempFolder folder_;
};

TEST_F(Malformed, MissingCompanion) {
  expect_contains(refusal({{"up_proj.weight", DType::F8E4M3, {16, 64}}}),
                  "weight 'up_proj.weight' is stored as FP8, but 'up_proj.weight_scale' is missing");
  expect_contains(refusal({{"up_proj.weight_packed", DType::I32, {16, 8}}}), "'up_proj.weight_scale' is missing");
  expect_contains(refusal({{"up_proj.qweight", DType::I32, {64, 2}}}), "as AWQ, but 'up_proj.scales' is missing");
  expect_contains(refusal({{"up_proj.qweight", DType::I32, {8, 16}}, {"up_proj.scales", DType::F16, {1, 16}}}),
                  "as GPTQ, but 'up_proj.qzeros' is missing");
  expect_contains(
      refusal({{"up_proj.weight_packed", DType::U8, {16, 32}}, {"up_proj.weight_global_scale", DType::F32, {1}}}),
      "as NVFP4, but 'up_proj.weight_scale' is missing");
  expect_contains(refusal({{"up_proj.weight_packed", DType::U8, {16, 32}}}),
                  "as MXFP4, but 'up_proj.weight_scale' is missing");
  expect_contains(refusal({{"up_proj.weight", DType::U8, {16, 32}}, {"up_proj.weight_scale", DType::F8E4M3, {16, 4}}}),
                  "as NVFP4, but 'up_proj.weight_scale_2' is missing");
}

TEST_F(Malformed, IntegersThatAreNotAsConfigSays) {
  const auto config = [](const std::string& weights) {
    return R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {)" + weights + "}}}}";
  };
  std::vector<TestTensor> tensors = {{"up_proj.weight_packed", DType::I32, {16, 8}},
                                     {"up_proj.weight_scale", DType::F32, {16, 2}}};
  EXPECT_EQ(refusal(tensors, config(R"("num_bits": 4, "group_size": 32, "symmetric": true)")), "no error");
  expect_contains(refusal(tensors, config(R"("symmetric": false)")), "but 'up_proj.weight_zero_point' is missing");
  expect_contains(refusal(tensors, config(R"("actorder": "group")")), "but 'up_proj.weight_g_idx' is missing");
  expect_contains(refusal(tensors, config(R"("group_size": 16)")),
                  "'up_proj.weight_scale' F32 [16, 2] in groups of 32 columns, but config.json says group_size 16");
  expect_contains(refusal(tensors, config(R"("num_bits": 8)")), "expected the shape [16, 16]");
  tensors.push_back({"up_proj.weight_zero_point", DType::I8, {16, 2}});
  expect_contains(refusal(tensors), "'up_proj.weight_zero_point' is I8 [16, 2], expected I32");
}

TEST_F(Malformed, AwqAndGptqThatAreNotAsConfigSays) {
  const std::vector<TestTensor> awq = {{"up_proj.qweight", DType::I32, {64, 2}},
                                       {"up_proj.scales", DType::F32, {2, 16}},
                                       {"up_proj.qzeros", DType::I32, {2, 2}}};
  std::vector<TestTensor> gptq = awq;
  gptq[0].shape = {8, 16};
  for (const auto& tensors : {awq, gptq}) {
    EXPECT_EQ(refusal(tensors, R"({"group_size": 32})"), "no error");
    expect_contains(refusal(tensors, R"({"group_size": 16})"), "in groups of 32 columns, but config.json says");
    auto wrong = tensors;
    wrong[2].dtype = DType::F32;
    expect_contains(refusal(wrong), "'up_proj.qzeros' is F32 [2, 2], expected I32");
  }
  expect_contains(refusal(gptq, R"({"desc_act": true})"), "but 'up_proj.g_idx' is missing");
  EXPECT_EQ(refusal(gptq, R"({"desc_act": true, "dynamic": {"+:up": {"desc_act": false}}})"), "no error");
}

TEST_F(Malformed, OneScaleWhereConfigHasBlocks) {
  const std::vector<TestTensor> tensors = {{"up_proj.weight", DType::F8E4M3, {16, 64}},
                                           {"up_proj.weight_scale_inv", DType::BF16, {1, 1}}};
  EXPECT_EQ(refusal(tensors, R"({"weight_block_size": [128, 128]})"), "no error");
  expect_contains(refusal(tensors, R"({"weight_block_size": [16, 32]})"),
                  "its scales 'up_proj.weight_scale_inv' are BF16 [1, 1]: neither one");
}

TEST_F(Malformed, WrongShapes) {
  expect_contains(refusal({{"up_proj.weight", DType::F8E4M3, {16, 60}}}),
                  "'up_proj.weight' is F8_E4M3 [16, 60], expected the shape [16, 64]");
  expect_contains(refusal({{"up_proj.weight", DType::F8E4M3, {16, 64}}, {"up_proj.weight_scale", DType::F32, {3, 5}}}),
                  "its scales 'up_proj.weight_scale' are F32 [3, 5]: neither one, nor one a row");
  expect_contains(refusal({{"up_proj.weight_packed", DType::I32, {16, 11}}}),
                  "'up_proj.weight_packed' is I32 [16, 11], expected the shape [16, 8]");
  expect_contains(refusal({{"up_proj.qweight", DType::I32, {7, 16}}}), "expected the shape [8, 16]");
  expect_contains(refusal({{"up_proj.qweight", DType::I32, {8, 16}},
                           {"up_proj.scales", DType::F16, {2, 16}},
                           {"up_proj.qzeros", DType::I32, {2, 3}}}),
                  "'up_proj.qzeros' is I32 [2, 3], expected the shape [2, 2]");
  expect_contains(refusal({{"up_proj.weight_packed", DType::I32, {16, 8}},
                           {"up_proj.weight_scale", DType::F32, {16, 2}},
                           {"up_proj.weight_g_idx", DType::I32, {63}}}),
                  "'up_proj.weight_g_idx' is I32 [63], expected the shape [64]");
  std::vector<TestTensor> nvfp4 = {{"up_proj.weight", DType::U8, {16, 32}},
                                   {"up_proj.weight_scale", DType::F8E4M3, {16, 2}},
                                   {"up_proj.weight_scale_2", DType::F32, {}}};
  expect_contains(refusal(nvfp4, R"({"group_size": 16})"),
                  "in groups of 32 columns, but config.json says group_size 16");
  nvfp4[1].shape = {16, 1};
  expect_contains(refusal(nvfp4), "'up_proj.weight_scale' is F8_E4M3 [16, 1], expected the shape [16, 4]");
  expect_contains(
      refusal({{"up_proj.weight_packed", DType::U8, {16, 32}}, {"up_proj.weight_scale", DType::U8, {16, 3}}}),
      "'up_proj.weight_scale' is U8 [16, 3], expected the shape [16, 2]");
}

TEST_F(Malformed, GroupsOfAwqThatDoNotDivideTheInputs) {
  expect_contains(refusal({{"up_proj.qweight", DType::I32, {64, 2}},
                           {"up_proj.scales", DType::F16, {3, 16}},
                           {"up_proj.qzeros", DType::I32, {3, 2}}}),
                  "its scales 'up_proj.scales' are F16 [3, 16]: no groups of equal size");
}

TEST_F(Malformed, GroupsOfGptqThatNothingSays) {
  const std::vector<TestTensor> tensors = {{"up_proj.qweight", DType::I32, {8, 16}},
                                           {"up_proj.scales", DType::F32, {3, 16}},
                                           {"up_proj.qzeros", DType::I32, {3, 2}}};
  expect_contains(refusal(tensors, R"({"quant_method": "gptq", "group_size": 32})"),
                  "its scales 'up_proj.scales' are F32 [3, 16]: no groups of equal size along the inputs, nor of the");
  EXPECT_EQ(refusal(tensors, R"({"quant_method": "gptq", "group_size": 24})"), "no error");
  EXPECT_EQ(refusal(tensors, R"({"quant_method": "gptq", "group_size": 32, "dynamic": {"+:up": {"group_size": 30}}})"),
            "no error");
}

TEST_F(Malformed, Int4OfModelOptIsNamed) {
  const std::string way_out = "use the BF16 checkpoint that it was made from, or an AWQ, GPTQ or compressed-tensors";
  const TestTensor weight{"up_proj.weight", DType::U8, {8, 64}}, scales{"up_proj.weight_scale", DType::F32, {16, 2}};
  const std::string plain = refusal({weight, scales});
  expect_contains(plain,
                  "weight 'up_proj.weight' [16, 64] is stored as U8 [8, 64]: INT4 of ModelOpt (INT4_AWQ, W4A16_AWQ)");
  expect_contains(plain, way_out);
  const std::string a8 = refusal({weight, scales, {"up_proj.weight_scale_2", DType::F32, {}}});
  expect_contains(a8, "INT4 of ModelOpt (W4A8_AWQ)");
  expect_contains(a8, way_out);
}

TEST_F(Malformed, FormatsThatAreNotReadAreNamed) {
  const TestTensor bytes{"up_proj.weight", DType::I8, {16, 64}}, scales{"up_proj.weight_scale", DType::F32, {16}};
  const std::vector<TestTensor> awq = {{"up_proj.qweight", DType::I32, {64, 2}},
                                       {"up_proj.scales", DType::F16, {1, 16}},
                                       {"up_proj.qzeros", DType::I32, {1, 2}}};
  const struct {
    const char *quantization, *named;
    std::vector<TestTensor> tensors;
  } kCases[] = {
      {R"({"quant_method": "bitsandbytes"})", "bitsandbytes", {bytes, {"up_proj.SCB", DType::F32, {16}}}},
      {R"({"quant_method": "hqq"})", "hqq", {{"up_proj.W_q", DType::U8, {8, 64}}}},
      {R"({"quant_method": "quanto"})", "quanto", {{"up_proj.weight._data", DType::I8, {16, 64}}}},
      {R"({"quant_method": "torchao"})", "torchao", {bytes, scales}},
      {R"({"quant_method": "awq", "version": "gemv"})", "AWQ gemv", awq},
      {R"({"quant_method": "awq", "w_bit": 8})", "AWQ with 8 bits", awq},
      {R"({"quant_method": "auto-round", "bits": 3, "packing_format": "auto_round:auto_awq"})", "AWQ with 3 bits", awq},
      {R"({"quant_method": "gptq", "checkpoint_format": "marlin"})", "GPTQ marlin", {{"up_proj.B", DType::I32, {8}}}},
      {R"({"quant_method": "compressed-tensors", "format": "dense", "sparsity_config": {"format": "sparse-bitmask"}})",
       "compressed-tensors sparse-bitmask",
       {{"up_proj.weight.compressed", DType::BF16, {99}}}},
      {R"({"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {"g": {"weights": {}}}})",
       "compressed-tensors marlin-24",
       {{"up_proj.weight_packed", DType::I32, {2, 32}}}},
      {R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"g": {"weights": {}}},
           "sparsity_config": {"format": "sparse-24-bitmask"}})",
       "compressed-tensors sparse-24-bitmask",
       {{"up_proj.weight.bitmask", DType::U8, {16, 8}}}},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})",
       "SVDQuant",
       {bytes, {"up_proj.svdquant_lora_a", DType::BF16, {4, 64}}}},
  };
  for (const auto& c : kCases) {
    const std::string message = refusal(c.tensors, c.quantization);
    expect_contains(message, "weight 'up_proj.weight' is stored as ");
    expect_contains(message, c.named);
    expect_contains(message, "which is not read; use the BF16 checkpoint that it was made from, or an FP8, AWQ, GPTQ");
  }
  EXPECT_EQ(refusal({{"up_proj.weight", DType::BF16, {16, 64}}}, kCases[0].quantization), "no error");
  expect_contains(refusal({{"up_proj.bias", DType::BF16, {16}}}, kCases[0].quantization), "is missing");
  EXPECT_EQ(refusal({bytes, scales}, R"({"quant_method": "some_int8"})"), "no error") << "tensors decide";
}

TEST_F(Malformed, ColumnsOfInt8InAnOrder) {
  expect_contains(refusal({{"up_proj.weight", DType::I8, {16, 64}},
                           {"up_proj.weight_scale", DType::F32, {16, 2}},
                           {"up_proj.weight_g_idx", DType::I32, {64}}}),
                  "INT8 with groups of columns in an order, 'up_proj.weight_g_idx', which is not read");
}

TEST_F(Malformed, FactorsOfInputsThatDoNotFit) {
  expect_contains(refusal({{"up_proj.weight", DType::F8E4M3, {16, 64}},
                           {"up_proj.weight_scale", DType::F32, {}},
                           {"up_proj.pre_quant_scale", DType::F32, {16}}}),
                  "'up_proj.pre_quant_scale' is F32 [16], expected the shape [64]");
}

TEST_F(Malformed, UnknownFormatIsNamed) {
  expect_contains(refusal({{"up_proj.weight", DType::U8, {512, 1}}}, R"({"quant_method": "new", "bits": 4})"),
                  "a quantized weight; its format, new (4 bits), is not supported");
}

TEST_F(Malformed, ScalesAndGroupsOutOfRange) {
  /// One word of one tensor is `word`, all others are zero.
  const auto with = [&](const std::string& name, uint32_t word) {
    const std::vector<TestTensor> tensors = {{"up_proj.weight_packed", DType::I32, {16, 8}},
                                             {"up_proj.weight_scale", DType::F32, {16, 2}},
                                             {"up_proj.weight_g_idx", DType::I32, {64}}};
    folder_.write("config.json", "{}");
    SafetensorsWriter writer(folder_ / "model.safetensors", Existing::Replace);
    for (const TestTensor& t : tensors) writer.declare(t.name, t.dtype, t.shape);
    for (const TestTensor& t : {tensors[2], tensors[0], tensors[1]}) {
      std::vector<uint32_t> words(static_cast<size_t>(t.shape.elements()));
      if (t.name == name) words[5] = word;
      writer.write(t.name, std::as_bytes(std::span(words)));
    }
    writer.commit();
    const Checkpoint checkpoint = Checkpoint::open(folder_.path());
    const WeightBinder weights(checkpoint);
    return message_of([&] { weights("up_proj.weight", {16, 64}); });
  };
  EXPECT_EQ(with("", 0), "no error");
  expect_contains(with("up_proj.weight_scale", 0x7FC00000),
                  "scale 5 of 'up_proj.weight_scale' is nan, expected a finite number");
  expect_contains(with("up_proj.weight_g_idx", 2),
                  "column 5 is in group 2 by 'up_proj.weight_g_idx', but there are 2 groups of scales");
  expect_contains(with("up_proj.weight_g_idx", 0xFFFFFFFF), "column 5 is in group -1");
}

TEST(SmallFloats, Corners) {
  EXPECT_EQ(e4m3_values()[0x7E], 448.0f);
  EXPECT_EQ(e4m3_values()[0x01], 0x1p-9f);
  EXPECT_EQ(e4m3_values()[0x08], 0x1p-6f);
  EXPECT_TRUE(std::isnan(e4m3_values()[0x7F]) && std::isnan(e4m3_values()[0xFF]));
  EXPECT_EQ(e4m3_values()[0xB8], -1.0f);
  EXPECT_EQ(e5m2_values()[0x7B], 57344.0f);
  EXPECT_TRUE(std::isinf(e5m2_values()[0xFC]) && e5m2_values()[0xFC] < 0);
  EXPECT_EQ(e5m2_values()[0x01], 0x1p-16f);
  // 0x3A, low half first: -1 and 1.5; scale byte 125 is a quarter.
  EXPECT_EQ(e2m1_values()[0xA] * e8m0_value(125), -0.25f);
  EXPECT_EQ(e2m1_values()[0x3] * e8m0_value(125), 0.375f);
  EXPECT_EQ(e8m0_value(0), 0x1p-127f);
  EXPECT_TRUE(std::isnan(e8m0_value(255)));
}

}  // namespace
}  // namespace kvcal
