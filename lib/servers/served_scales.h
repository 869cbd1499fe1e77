// What a server uses for each layer of a checkpoint folder: the value as it holds it, 1.0, or no start at all.
#pragma once

#include <string>
#include <vector>

#include "servers/server_support.h"
#include "servers/stored_scales.h"

namespace kvcal {

/// One cache. Latent attention has no value of its own: `value` is then empty.
struct ServedLayer {
  int layer = 0, cache = 0;
  std::string module;                             // "model.layers.3.self_attn"
  std::vector<float> key, value;                  // one scale, or one per KV head
  bool key_loaded = false, value_loaded = false;  // false: 1.0, or for the value a copy of the key's
  std::string note;                               // why it is not what the folder says; "" otherwise
};

struct ServedScales {
  Server server;
  bool known = true;  // false of a version that was not looked at: then there are neither layers nor stops
  ServerSupport support;
  ServerSupport mtp;  // of its MTP layer
  struct Stop {
    std::string tensor, file, reason;  // tensor "": what config.json says
  };
  std::vector<Stop> stops;          // why it does not start; empty when it does
  std::vector<Stop> draft_stops;    // why it does not start where it drafts tokens with the MTP layer
  std::vector<ServedLayer> layers;  // every cache, by layer; empty when it does not start
  bool auto_is_fp8 = false;         // whether --kv-cache-dtype auto makes the cache FP8

  bool starts() const { return known && stops.empty(); }
};

/// `config` is the checkpoint's: the model's dtype stands in it. Throws Error for an architecture without a line in the
/// table.
ServedScales served_scales(const StoredScales& stored, const ModelSpec& spec, const Json& config, const Server& server);

/// To the nearest value of a model dtype ("bfloat16", "float16"), as a parameter of that dtype holds it; any other name
/// leaves x as it is.
float rounded_to_dtype(float x, std::string_view dtype);

}  // namespace kvcal
