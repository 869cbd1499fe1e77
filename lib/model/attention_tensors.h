// The stored tensors between which a KV cache lies, by name: those that make its rows and those that read them. A
// factor in the first and its inverse in the second change the cache and nothing else; `fold` relies on it.
#pragma once

#include <cstdint>
#include <string>

namespace kvcal {

/// What norms queries and keys between their projection and the cache.
enum class HeadNorm : uint8_t {
  None,
  Gain,            // its weight multiplies, before RoPE
  GainBehindRope,  // its weight multiplies, behind RoPE
  OnePlusGain,     // 1 + its weight multiplies
  NoGain,          // it has no weight
};

/// Names in `module`, without ".weight" and ".bias".
struct AttentionTensors {
  std::string module;  // below the language model: "layers.3.self_attn."
  std::string query = "q_proj", key = "k_proj", value = "v_proj", output = "o_proj";
  HeadNorm norm = HeadNorm::None;
  std::string query_norm = "q_norm", key_norm = "k_norm";
  bool fused = false;         // `query` is one weight: rows of queries, of keys, of values
  bool gated = false;         // `query` has for each head its rows, then as many of its gate
  bool value_normed = false;  // by a norm without a weight
  int64_t query_inputs = 0;   // columns of `query`; 0: hidden
  // Of "mla", whose keys and values are "kv_a_proj_with_mqa", "kv_a_layernorm" and "kv_b_proj":
  int64_t nope = 0, value_dim = 0;  // a head's rows of kv_b_proj: of its key, then of its value
  std::string obstacle;             // why no factor can be put into them; "" where one can
};

}  // namespace kvcal
