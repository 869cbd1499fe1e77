// How servers round activations, from quantization configs as tools write them and the scales beside weights.
#include <gtest/gtest.h>

#include "checkpoint/activation_scheme.h"
#include "checkpoint/weight_binder.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

class ActivationSchemeTest : public testing::Test {
 protected:
  void config(const std::string& quantization) {
    folder_.write("config.json", quantization.empty() ? "{}" : R"({"quantization_config": )" + quantization + "}");
  }
  /// The name that is recorded, or what is said instead.
  std::string scheme(const std::string& quantization) {
    config(quantization);
    write_tensors(folder_ / "model.safetensors", {{"norm.weight", DType::F32, {4}}});
    std::string name;
    const std::string said = message_of([&] { name = read_activation_scheme(Checkpoint::open(folder_.path())).name; });
    return name.empty() ? said : name;
  }
  static std::string compressed(const std::string& activations) {
    return R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"},
               "input_activations": )" +
           activations + "}}}";
  }
  TempFolder folder_;
};

TEST_F(ActivationSchemeTest, OfFp8) {
  EXPECT_EQ(scheme(R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})"),
            "fp8_group_128");
  EXPECT_EQ(scheme(R"({"quant_method": "fp8", "weight_block_size": [128, 64], "scale_fmt": "ue8m0"})"),
            "fp8_group_64_pow2");
  EXPECT_EQ(scheme(R"({"quant_method": "fp8", "activation_scheme": "dynamic"})"), "fp8_token");
  EXPECT_EQ(scheme(R"({"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": null})"),
            "fp8_tensor");
  EXPECT_EQ(scheme(R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})"), "fp8_token");
  expect_contains(scheme(R"({"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": [128, 128]})"),
                  "the rounding of activations by 'fp8, blocks with a static activation_scheme' cannot be emulated");
  expect_contains(scheme(R"({"quant_method": "fp8", "weight_block_size": [128, 0]})"),
                  "activations are rounded in groups of 0, expected 1 to 1048576");
}

TEST_F(ActivationSchemeTest, OfCompressedTensors) {
  EXPECT_EQ(scheme(compressed(R"({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true})")),
            "fp8_token");
  EXPECT_EQ(scheme(compressed(R"({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": true})")),
            "fp8_token");
  EXPECT_EQ(scheme(compressed(R"({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false})")),
            "fp8_tensor");
  EXPECT_EQ(scheme(compressed(
                R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "dynamic": true})")),
            "fp8_group_128");
  expect_contains(scheme(compressed(R"({"num_bits": 8, "type": "int", "strategy": "token", "dynamic": true})")),
                  "'compressed-tensors, activations of type int with 8 bits' cannot be emulated, only FP8");
  expect_contains(scheme(compressed(R"({"num_bits": 4, "type": "float", "strategy": "tensor_group"})")),
                  "activations of type float with 4 bits");
  expect_contains(scheme(compressed("null")), "compressed-tensors with quantized weights only");
}

TEST_F(ActivationSchemeTest, OfAutoRound) {
  expect_contains(scheme(R"({"quant_method": "auto-round", "bits": 4, "packing_format": "auto_round:auto_gptq"})"),
                  "auto-round quantizes only weights, so servers do not round activations");
  expect_contains(scheme(R"({"quant_method": "auto-round", "bits": 8, "data_type": "fp", "act_bits": 8})"),
                  "the rounding of activations by 'auto-round' cannot be emulated");
}

TEST_F(ActivationSchemeTest, OfModelOpt) {
  const auto algorithm = [&](const std::string& name) {
    return scheme(R"({"quant_method": "modelopt", "quant_algo": ")" + name + "\"}");
  };
  EXPECT_EQ(algorithm("FP8"), "fp8_tensor");
  EXPECT_EQ(algorithm("FP8_PER_CHANNEL_PER_TOKEN"), "fp8_token");
  EXPECT_EQ(algorithm("FP8_PB_WO"), "fp8_group_128");
  for (const char* name : {"NVFP4", "MXFP8", "W4A8_AWQ"})
    expect_contains(algorithm(name), std::string("'modelopt ") + name + "' cannot be emulated");
  expect_contains(algorithm("W4A16_NVFP4"), "modelopt W4A16_NVFP4 quantizes only weights");
  const std::string mixed = R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {)";
  EXPECT_EQ(scheme(mixed + R"("a": {"quant_algo": "FP8"}, "b": {"quant_algo": "FP8"}}})"), "fp8_tensor");
  expect_contains(scheme(mixed + R"("a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4"}}})"),
                  "'modelopt MIXED_PRECISION' cannot be emulated");
}

TEST_F(ActivationSchemeTest, NothingToEmulate) {
  const std::string nothing = "no activation rounding to emulate: ";
  expect_contains(scheme(""), nothing + "the weights are not quantized");
  expect_contains(scheme(R"({"quant_method": "awq", "bits": 4})"), nothing + "awq quantizes only weights");
  expect_contains(scheme(R"({"quant_method": "mxfp4"})"), nothing + "mxfp4 quantizes only weights");
  expect_contains(scheme(R"({"quant_method": "bitsandbytes"})"), "'bitsandbytes' cannot be emulated");
}

TEST_F(ActivationSchemeTest, OfOneWeight) {
  config(R"({"quant_method": "fp8", "activation_scheme": "static"})");
  SafetensorsWriter writer(folder_ / "model.safetensors", Existing::Replace);
  const std::vector<float> one = {0.5f}, each = {0.25f, 2, 1}, zero = {0};
  writer.declare("a.weight", DType::F8E4M3, {4, 8});
  writer.declare("a.input_scale", DType::F32, {});
  writer.declare("b.weight", DType::F32, {4, 8});
  writer.declare("c.weight", DType::F8E4M3, {4, 8});
  writer.declare("d.weight", DType::F8E4M3, {4, 8});
  writer.declare("d.activation_scale", DType::F32, {1});
  writer.declare("e.weight", DType::I8, {4, 8});
  writer.declare("experts.down_proj", DType::F8E4M3, {3, 4, 8});
  writer.declare("experts.down_proj_activation_scale", DType::F32, {3});
  const std::vector<std::byte> many(128);
  const auto bytes = [](const std::vector<float>& v) { return std::as_bytes(std::span(v)); };
  writer.write("a.input_scale", bytes(one));  // in the order of names
  writer.write("a.weight", std::span(many).first(32));
  writer.write("b.weight", many);
  writer.write("c.weight", std::span(many).first(32));
  writer.write("d.activation_scale", bytes(zero));
  for (const char* name : {"d.weight", "e.weight"}) writer.write(name, std::span(many).first(32));
  writer.write("experts.down_proj", std::span(many).first(96));
  writer.write("experts.down_proj_activation_scale", bytes(each));
  writer.commit();
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  const WeightBinder w(checkpoint);
  EXPECT_EQ(w.inputs_of("a.weight"), InputRounding{});  // nobody has asked for it yet
  EXPECT_EQ(w.emulate_activations(), "fp8_tensor");
  EXPECT_EQ(w.inputs_of("a.weight").scale, 0.5f);
  EXPECT_EQ(w.at("experts.").inputs_of("down_proj").scale, 2);
  EXPECT_FALSE(w.inputs_of("b.weight"));  // not quantized
  expect_contains(message_of([&] { w.inputs_of("c.weight"); }),
                  "neither input_scale nor activation_scale is beside it");
  expect_contains(message_of([&] { w.inputs_of("d.weight"); }), "scale 'd.activation_scale' is not above 0");
  expect_contains(message_of([&] { w.inputs_of("e.weight"); }), "'e.weight' is quantized, but not in FP8");
}

TEST_F(ActivationSchemeTest, AWeightWhoseInputsNobodyAsksFor) {
  config(R"({"quant_method": "fp8"})");
  write_tensors(folder_ / "model.safetensors", {{"layers.0.a.weight", DType::F8E4M3, {4, 8}},
                                                {"layers.0.a.weight_scale", DType::F32, {}},
                                                {"layers.0.b.weight", DType::F32, {4, 8}}});
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  const WeightBinder w = WeightBinder(checkpoint).shapes_only(), layer = w.at("layers.0.");
  layer("a.weight", {4, 8});
  EXPECT_NO_THROW(layer.check_inputs_asked());
  w.emulate_activations();
  layer("a.weight", {4, 8});
  layer("b.weight", {4, 8});
  expect_contains(message_of([&] { layer.check_inputs_asked(); }),
                  "the rounding of the inputs of 'layers.0.a.weight' is not emulated for this architecture");
  EXPECT_NO_THROW(w.at("layers.1.").check_inputs_asked());
  EXPECT_EQ(layer.inputs_of("a.weight"), InputRounding::by_token());
  EXPECT_NO_THROW(layer.check_inputs_asked());
}

}  // namespace
}  // namespace kvcal
