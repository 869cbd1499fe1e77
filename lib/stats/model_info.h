// Which checkpoint was measured: the blocks "model" and "layers_without_kv" of statistics and scale files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/model_spec.h"

namespace kvcal {

/// Of a model with two lists of rotary frequencies.
struct LongRopeInfo {
  int64_t original_positions = 0;  // servers take the long list when they allow more tokens
  std::string list;                // the one that was measured: "long" or "short"
  bool operator==(const LongRopeInfo&) const = default;
};

struct ModelInfo {
  std::string architecture;  // config.json's architectures[0]
  std::string model_type;    // config.json's own; "" without one
  int64_t n_layers = 0;
  int64_t n_kv_layers = 0;          // layers that own a cache
  int64_t max_positions = 0;        // longest context that the config allows, in tokens; 0: unknown
  std::string tensor_prefix;        // of the language model's tensors in this checkpoint: "model.language_model."
  std::string config_sha256;        // 64 hex digits, of the canonical config.json without KV-cache keys
  std::string weights_fingerprint;  // the same
  std::vector<std::string> also_valid_for;  // fingerprints of other checkpoints that the scales were shown to fit
  std::optional<LongRopeInfo> longrope;
  int64_t n_mtp_layers = 0;       // MTP layers (model/decoders/mtp.h), whose indexes follow those of the n_layers
  Json further = Json::object();  // members of later versions
  bool operator==(const ModelInfo&) const = default;

  bool is_mtp(int64_t layer) const { return layer >= n_layers && layer < n_layers + n_mtp_layers; }
};

/// All but the prefix and the digests, which are the checkpoint's.
ModelInfo model_info(const ModelSpec& spec);

/// Throws Error for a digest that is none: the file would lie about what it belongs to.
void check_digests(const ModelInfo& model);

Json to_json(const ModelInfo& model);
/// Throws Error naming the member that is missing or of the wrong type.
ModelInfo model_info_from(const Json& json);

/// A layer that owns no cache.
struct LayerInfo {
  int64_t index = 0;
  std::string kind;                       // what mixes tokens in it: "gated_delta_net"
  std::optional<int64_t> shares_kv_with;  // the earlier layer whose cache it reads
  Json further = Json::object();
  bool operator==(const LayerInfo&) const = default;
};

/// Ascending.
std::vector<LayerInfo> layers_without_kv(const ModelSpec& spec);

Json to_json(const std::vector<LayerInfo>& layers);
/// Throws Error naming the member that is missing or of the wrong type.
std::vector<LayerInfo> layers_without_kv_from(const Json& json);

}  // namespace kvcal
