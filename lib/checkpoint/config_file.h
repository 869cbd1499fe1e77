// config.json and generation_config.json of a model folder, and the identity of a configuration.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"

namespace kvcal {

struct ConfigFile {
  std::filesystem::path folder;  // where the weights and the tokenizer would be
  std::filesystem::path path;    // of config.json
  Json config;                   // an object; bare or wrapped non-finite numbers have been read as such
  Json generation_config;        // null when there is none
};

/// Reads a model folder, a Hugging Face cache folder (models--org--name: the snapshot refs/main points to), or a
/// config.json itself. Weights need not exist. Throws Error naming what is there instead.
ConfigFile read_config(const std::filesystem::path& folder_or_file);

/// The config as parse_model takes it: with image_token_id, where the config of a class (InternVLChatModel) does not
/// name the token of an image, but tokenizer_config.json does.
Json with_image_token(Json config, const std::filesystem::path& folder);

/// "org/name" of a folder of the Hub's cache, models--org--name; "" of others.
std::string hub_id(const std::filesystem::path& folder);

/// Of a folder of the Hub's cache (models--org--name) the snapshot that refs/main names, or the only one; none where
/// the folder has no snapshots. Throws Error where it has several and names none.
std::optional<std::filesystem::path> hub_snapshot(const std::filesystem::path& folder);

/// SHA-256 of the configuration without what only concerns the KV cache, so that an export that adds KV scales keeps
/// the model's identity. Canonical JSON (base/json.h) after these removals, made at the top level and in text_config,
/// llm_config, language_config, thinker_config (and theirs):
/// * the keys kv_cache_scheme, kv_cache_quant_algo, kv_cache_dtype;
/// * the same keys inside quantization_config, compression_config and their member `quantization`;
/// * a quantization_config or compression_config that then quantizes no weights (see quantizes_weights).
/// Whole numbers count as equal however they are written (1e6, 1000000.0).
std::string config_sha256(const Json& config);

/// Whether a quantization_config says anything about weights: false for a null or empty one, for compressed-tensors
/// whose config_groups are empty or have no `weights`, and for ModelOpt without quant_algo, config_groups or
/// quantized_layers. Anything not understood counts as true.
bool quantizes_weights(const Json& quantization_config);

}  // namespace kvcal
