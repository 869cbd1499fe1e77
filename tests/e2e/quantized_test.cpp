// A checkpoint with quantized weights gives what the checkpoint of the weights that they stand for gives.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include "base/read_file.h"
#include "checkpoint/safetensors_writer.h"
#include "e2e/runs.h"
#include "stats/statistics_file.h"

namespace kvcal {
namespace {

struct Stored {
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, Stored>;

void write_model(const fs::path& folder, const fs::path& like, const Json& quantization, const Tensors& tensors) {
  Json config = read_json_file(like / "config.json", {});
  if (!quantization.is_null()) config["quantization_config"] = quantization;
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump();
  SafetensorsWriter writer(folder / "model.safetensors", Existing::Refuse);
  for (const auto& [name, t] : tensors) writer.declare(name, t.dtype, t.shape);
  for (const auto& [name, t] : tensors) writer.write(name, t.bytes);
  writer.commit();
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// The model of a golden with the projections of every layer in FP8 blocks of 16 x 32, and the model that these are.
struct Twins {
  Tensors quantized, plain;
};

Twins make_twins(const Checkpoint& checkpoint) {
  Twins twins;
  for (const std::string& name : checkpoint.names()) {
    const Tensor t = checkpoint.tensor(name);
    const auto* data = static_cast<const std::byte*>(t.data);
    if (!name.ends_with("_proj.weight")) {
      const Stored same{t.dtype, t.shape, {data, data + t.bytes()}};
      twins.quantized[name] = twins.plain[name] = same;
      continue;
    }
    const int64_t out = t.dim(0), in = t.dim(1), rows = (out + 15) / 16, columns = (in + 31) / 32;
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    std::vector<bf16> values;
    for (int64_t i = 0; i < rows * columns; ++i) scales.push_back(0.0625f / static_cast<float>(2 + i % 3));
    for (int64_t i = 0; i < out * in; ++i) {
      // Codes whose values are powers of two: 2^(e - 7), with the sign of the plain weight.
      const bool negative = t.as<bf16>()[i].bits >> 15;
      const auto exponent = static_cast<int>(i % 5 + 5);
      codes.push_back(static_cast<uint8_t>((negative ? 0x80 : 0) | exponent << 3));
      const float value = std::ldexp(negative ? -1.0f : 1.0f, exponent - 7);
      values.push_back(to_bf16(value * scales[static_cast<size_t>(i / in / 16 * columns + i % in / 32)]));
    }
    twins.quantized[name] = {DType::F8E4M3, t.shape, bytes_of(codes)};
    twins.quantized[name + "_scale_inv"] = {DType::F32, {rows, columns}, bytes_of(scales)};
    twins.plain[name] = {DType::BF16, t.shape, bytes_of(values)};
  }
  return twins;
}

class QuantizedWeights : public testing::TestWithParam<const char*> {};

TEST_P(QuantizedWeights, GiveTheStatisticsOfTheirPlainForm) {
  const Scratch scratch;
  const fs::path like = source("tests/arch/golden") / GetParam();
  const Twins twins = make_twins(Checkpoint::open(like));
  const Json block = {{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}};
  write_model(scratch.path() / "fp8", like, block, twins.quantized);
  write_model(scratch.path() / "bf16", like, nullptr, twins.plain);
  const auto prompts = prompts_of({70, 3}, 90);
  Statistics quantized = measure(scratch.path() / "fp8", prompts, RunOptions());
  const Statistics plain = measure(scratch.path() / "bf16", prompts, RunOptions());
  quantized.run = plain.run;  // the identity of the weights differs, and nothing else may
  write_statistics(scratch.path() / "a", quantized, Existing::Refuse);
  write_statistics(scratch.path() / "b", plain, Existing::Refuse);
  EXPECT_EQ(read_file(scratch.path() / "a", size_t{1} << 30) == read_file(scratch.path() / "b", size_t{1} << 30), true);
}

INSTANTIATE_TEST_SUITE_P(Models, QuantizedWeights, testing::Values("llama", "qwen3_5", "qwen3_next"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace kvcal
