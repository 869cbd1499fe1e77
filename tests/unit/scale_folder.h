// Checkpoint folders as other tools write them, as far as KV scales go: the config's quantization block and the scale
// tensors byte for byte (llm-compressor 0.14, ModelOpt 0.47, AutoFP8), without most of the weights.
#pragma once

#include <cstring>
#include <fstream>
#include <map>

#include "base/json.h"
#include "checkpoint/safetensors_writer.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {

struct FolderTensor {
  DType dtype = DType::F32;
  Shape shape;
  std::string bytes;
};

inline FolderTensor f32_tensor(const Shape& shape, std::vector<float> values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {DType::F32, shape, bytes};
}

inline FolderTensor bf16_tensor(const Shape& shape, std::vector<uint16_t> codes) {
  std::string bytes(codes.size() * 2, '\0');
  std::memcpy(bytes.data(), codes.data(), bytes.size());
  return {DType::BF16, shape, bytes};
}

/// A folder before it is written: change it, then write it.
struct ScaleFolder {
  Json config;
  std::map<std::string, FolderTensor> tensors;
  std::map<std::string, std::string> files;      // others, by name
  std::map<std::string, FolderTensor> unlisted;  // of a shard that the index does not name

  void write(const TempFolder& folder, const std::string& name = "model") const {
    for (const auto& [file, text] : files) folder.write(name + "/" + file, text);
    folder.write(name + "/config.json", config.dump(2));
    std::filesystem::remove(folder / (name + "/extra.safetensors"));
    std::filesystem::remove(folder / (name + "/model.safetensors.index.json"));
    write_file(folder / (name + "/model.safetensors"), tensors);
    if (unlisted.empty()) return;
    write_file(folder / (name + "/extra.safetensors"), unlisted);
    Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
    for (const auto& [tensor, ignored] : tensors) index["weight_map"][tensor] = "model.safetensors";
    folder.write(name + "/model.safetensors.index.json", index.dump(2));
  }

 private:
  static void write_file(const std::filesystem::path& path, const std::map<std::string, FolderTensor>& tensors) {
    SafetensorsWriter writer(path, Existing::Replace, {{"format", "pt"}});
    for (const auto& [name, t] : tensors) writer.declare(name, t.dtype, t.shape);
    for (const auto& [name, t] : tensors) writer.write(name, std::as_bytes(std::span(t.bytes.data(), t.bytes.size())));
    writer.commit();
  }
};

/// Four layers, four heads, two of them KV heads, as the tools' own test model has.
inline Json dense_config(const std::string& architecture, const std::string& model_type) {
  return {{"architectures", {architecture}},
          {"model_type", model_type},
          {"dtype", "bfloat16"},
          {"hidden_size", 128},
          {"intermediate_size", 256},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 32},
          {"vocab_size", 1024},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 40960},
          {"tie_word_embeddings", true},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "default"}}}};
}

inline Json compressed_tensors_block(const char* strategy = "tensor") {
  return {{"config_groups", Json::object()},
          {"format", "dense"},
          {"global_compression_ratio", nullptr},
          {"ignore", Json::array()},
          {"kv_cache_scheme",
           {{"actorder", nullptr},
            {"block_structure", nullptr},
            {"dynamic", false},
            {"group_size", nullptr},
            {"num_bits", 8},
            {"observer", nullptr},
            {"observer_kwargs", Json::object()},
            {"scale_dtype", nullptr},
            {"strategy", strategy},
            {"symmetric", true},
            {"type", "float"},
            {"zp_dtype", nullptr}}},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"},
          {"sparsity_config", Json::object()},
          {"transform_config", Json::object()},
          {"version", "0.19.0"}};
}

inline std::string attention_of(int layer, const std::string& prefix = "model.") {
  return prefix + "layers." + std::to_string(layer) + ".self_attn";
}

inline void add_embedding(ScaleFolder& f, const std::string& prefix = "model.") {
  f.tensors[prefix + "embed_tokens.weight"] = {DType::BF16, Shape{1024, 128}, std::string(1024 * 128 * 2, '\0')};
}

/// llm-compressor, kv_cache_scheme only: BF16 [1], values of its default observer.
inline ScaleFolder llm_compressor_folder(const std::string& architecture = "Qwen3ForCausalLM",
                                         const std::string& model_type = "qwen3") {
  constexpr uint16_t kKeys[] = {0x3c0d, 0x3c43, 0x3c71, 0x3c8d}, kValues[] = {0x3b0f, 0x3b6d, 0x3afb, 0x3bba};
  ScaleFolder f;
  f.config = dense_config(architecture, model_type);
  f.config["quantization_config"] = compressed_tensors_block();
  add_embedding(f);
  for (int layer = 0; layer < 4; ++layer) {
    f.tensors[attention_of(layer) + ".k_scale"] = bf16_tensor(Shape{1}, {kKeys[layer]});
    f.tensors[attention_of(layer) + ".v_scale"] = bf16_tensor(Shape{1}, {kValues[layer]});
  }
  return f;
}

/// The same with strategy attn_head: BF16 [n_kv_heads, 1, 1].
inline ScaleFolder attn_head_folder(const std::string& architecture = "Qwen3ForCausalLM",
                                    const std::string& model_type = "qwen3") {
  constexpr uint16_t kKeys[][2] = {{0x3c0f, 0x3c02}, {0x3c15, 0x3c2f}, {0x3c7d, 0x3c8d}, {0x3c53, 0x3c6d}};
  constexpr uint16_t kValues[][2] = {{0x3b36, 0x3b0f}, {0x3b5a, 0x3b47}, {0x3ac1, 0x3ac2}, {0x3b87, 0x3baa}};
  ScaleFolder f = llm_compressor_folder(architecture, model_type);
  f.config["quantization_config"] = compressed_tensors_block("attn_head");
  for (int layer = 0; layer < 4; ++layer) {
    f.tensors[attention_of(layer) + ".k_scale"] = bf16_tensor(Shape{2, 1, 1}, {kKeys[layer][0], kKeys[layer][1]});
    f.tensors[attention_of(layer) + ".v_scale"] = bf16_tensor(Shape{2, 1, 1}, {kValues[layer][0], kValues[layer][1]});
  }
  return f;
}

/// ModelOpt, FP8_KV_CFG: F32 [] below the projections, and hf_quant_config.json. `calibrated` false: fp8_cast, which
/// differs by the absence of tensors alone.
inline ScaleFolder modelopt_folder(bool calibrated = true, const std::string& architecture = "Qwen3ForCausalLM",
                                   const std::string& model_type = "qwen3") {
  constexpr uint32_t kKeys[] = {0x3c2db6db, 0x3c45b6db, 0x3c9edb6e, 0x3ca24925};
  constexpr uint32_t kValues[] = {0x3b412492, 0x3b724925, 0x3b092492, 0x3bc36db7};
  ScaleFolder f;
  f.config = dense_config(architecture, model_type);
  f.config["quantization_config"] = {{"ignore", Json::array()},
                                     {"kv_cache_scheme", {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}}},
                                     {"producer", {{"name", "modelopt"}, {"version", "0.47.0"}}},
                                     {"quant_method", "modelopt"}};
  f.files["hf_quant_config.json"] =
      R"({"producer": {"name": "modelopt", "version": "0.47.0"},
          "quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8", "quantized_layers": {}}})";
  add_embedding(f);
  for (int layer = 0; layer < 4 && calibrated; ++layer) {
    const auto scalar = [](uint32_t bits) { return f32_tensor(Shape{}, {std::bit_cast<float>(bits)}); };
    f.tensors[attention_of(layer) + ".k_proj.k_scale"] = scalar(kKeys[layer]);
    f.tensors[attention_of(layer) + ".v_proj.v_scale"] = scalar(kValues[layer]);
  }
  return f;
}

/// AutoFP8: quant_method fp8, static activations, one kv_scale for both.
inline ScaleFolder autofp8_folder(const std::string& architecture = "LlamaForCausalLM",
                                  const std::string& model_type = "llama") {
  ScaleFolder f;
  f.config = dense_config(architecture, model_type);
  f.config["quantization_config"] = {{"activation_scheme", "static"},
                                     {"ignored_layers", {"lm_head"}},
                                     {"kv_cache_scheme", "static"},
                                     {"quant_method", "fp8"}};
  add_embedding(f);
  for (int layer = 0; layer < 4; ++layer)
    f.tensors[attention_of(layer) + ".kv_scale"] = f32_tensor(Shape{1}, {0.015F + 0.001F * static_cast<float>(layer)});
  return f;
}

}  // namespace kvcal
