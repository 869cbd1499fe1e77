// Calibrations on an emulated device, from a checkpoint to the artifact: its bytes whatever the reader does, and a
// model that the device has no room for.
#include <gtest/gtest.h>

#include <fstream>

#include "arch/golden.h"
#include "base/json.h"
#include "e2e/runs.h"
#include "emulator/emulator.h"
#include "kernels/cuda_ops.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

struct Asked {
  cuda::ReaderOptions reader;
  emulator::Timing timing = emulator::Timing::Immediate;
};

std::string artifact_of(const char* golden, const Asked& asked) {
  emulator::set_timing(asked.timing, 5);
  std::string text;
  {
    OpenedModel model(Golden(golden).folder);
    const RunOptions options;
    const CalibrationPlan plan =
        plan_calibration(model, prompts_of({1, 40, 65, 130}, 90), options.sources, options, [&] {
          return make_cuda_ops({Precision::BF16, 0, true, asked.reader});
        });
    Recorder listener;
    text = artifact_text(solved_artifact(measure(model, plan, options, listener).statistics));
  }
  emulator::set_timing(emulator::Timing::Immediate);
  return text;
}

TEST(Run, AnArtifactKnowsNothingOfItsReaders) {
  constexpr uint64_t kSmall = uint64_t{16} << 10;  // tensors come in pieces
  for (const char* golden : {"qwen3", "qwen3_5"}) {
    const std::string expected = artifact_of(golden, {});
    EXPECT_NE(expected.find("cuda_sm_90"), std::string::npos);
    for (const Asked& asked :
         {Asked{{1, 2, kSmall, true}, emulator::Timing::Late}, Asked{{2, 3, kSmall, false}, emulator::Timing::Random},
          Asked{{9, 12, kSmall, true}, emulator::Timing::Random}})
      EXPECT_TRUE(artifact_of(golden, asked) == expected) << golden << ", " << asked.reader.readers << " readers";
  }
}

/// A dense model of n_layers layers with wide feed-forwards, all of zeros but for the norms. Returns its weights'
/// bytes.
uint64_t write_deep_model(const fs::path& folder, int64_t n_layers) {
  constexpr int64_t kHidden = 64, kFfn = 8192, kVocab = 96;
  std::map<std::string, std::vector<int64_t>> shapes = {{"model.embed_tokens.weight", {kVocab, kHidden}},
                                                        {"model.norm.weight", {kHidden}}};
  for (int64_t i = 0; i < n_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      shapes[layer + norm + ".weight"] = {kHidden};
    for (const char* square : {"q", "k", "v", "o"})
      shapes[layer + "self_attn." + square + "_proj.weight"] = {kHidden, kHidden};
    for (const char* wide : {"gate", "up"}) shapes[layer + "mlp." + wide + "_proj.weight"] = {kFfn, kHidden};
    shapes[layer + "mlp.down_proj.weight"] = {kHidden, kFfn};
  }
  Json header = Json::object();
  uint64_t end = 0;
  for (const auto& [name, extents] : shapes) {
    uint64_t bytes = 2;
    for (const int64_t n : extents) bytes *= static_cast<uint64_t>(n);
    header[name] = {{"dtype", "BF16"}, {"shape", extents}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  for (const auto& [name, extents] : shapes) {
    if (name.find(".mlp.") != std::string::npos) continue;
    file.seekp(static_cast<std::streamoff>(8 + length + header[name]["data_offsets"][0].get<uint64_t>()));
    uint16_t value = 0x3D80;
    for (int64_t n = extents.size() == 1 ? extents[0] : extents[0] * extents[1]; n > 0; --n) {
      const uint16_t x = extents.size() == 1 ? uint16_t{0x3F80} : static_cast<uint16_t>(value += 0x37 * (n % 3));
      file.write(reinterpret_cast<const char*>(&x), sizeof x);
      if (value > 0x3E00) value = 0xBD80;
      if (value > 0xBE00) value = 0x3D80;
    }
  }
  file.close();
  fs::resize_file(folder / "model.safetensors", 8 + length + end);
  std::ofstream(folder / "config.json") << Json{
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_size", kHidden},
      {"intermediate_size", kFfn},
      {"num_hidden_layers", n_layers},
      {"num_attention_heads", 4},
      {"num_key_value_heads", 4},
      {"vocab_size", kVocab},
      {"max_position_embeddings", 4096},
      {"rms_norm_eps", 1e-6},
      {"rope_theta", 1e4},
      {"hidden_act", "silu"},
      {"tie_word_embeddings", true},
      {"torch_dtype", "bfloat16"}}.dump();
  return end;
}

/// Two layers at a time: what a run takes beside its libraries is a quarter of the weights, and the device has no more.
TEST(Run, AModelOfFourTimesTheMemoryOfTheDevice) {
  constexpr int64_t kLayers = 32;
  const Scratch scratch;
  const uint64_t weights = write_deep_model(scratch.path(), kLayers);
  RunOptions options;
  options.sequences.sanity = false;
  const auto prompts = prompts_of({20, 30}, 90);
  const auto plan_on = [&](OpenedModel& model, std::unique_ptr<Ops> device) {
    return plan_calibration(model, prompts, options.sources, options, [&] { return std::move(device); });
  };
  OpenedModel model(scratch.path());
  const MemoryPlan alone = plan_on(model, make_cuda_ops({})).memory;
  const uint64_t own = alone.total() - alone.program;
  EXPECT_GE(weights, 4 * own);

  auto device = make_cuda_ops({});
  emulator::set_device_memory(emulator::device_bytes_in_use() + alone.total());
  options.memory = alone.total();
  const CalibrationPlan plan = plan_on(model, std::move(device));
  Recorder listener;
  const Artifact artifact = solved_artifact(measure(model, plan, options, listener).statistics);
  const DeviceMemory memory = plan.devices.memory();
  emulator::set_device_memory(emulator::kUsualDeviceMemory);
  ASSERT_EQ(artifact.layers.size(), static_cast<size_t>(kLayers));
  for (const auto& layer : artifact.layers) EXPECT_GT(layer.key.absmax, 0.0f) << layer.name;
  EXPECT_LE(memory.persistent_peak + memory.temporaries_peak, own);
}

}  // namespace
}  // namespace kvcal
