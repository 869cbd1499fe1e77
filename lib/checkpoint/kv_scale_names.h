// KV-cache scales that a checkpoint already carries, under every name that tools and servers use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace kvcal {

/// What the name of a scale tensor says. Spellings: <attention>.k_scale, .attn.k_scale, .k_proj.k_scale,
/// .k_cache.scale, .k_proj.output_scale, .kv_scale, .attn_mqa.k_scale, the same for v, q and prob, and *_zero_point of
/// each.
struct KvScaleName {
  enum class Site { Key, Value, Query, KeyAndValue, Probability };
  Site site;
  bool zero_point = false;
  int64_t layer = -1;          // the number after ".layers." (or ".blocks.", ".h."); -1 when there is none
  std::string_view attention;  // the name up to the attention module: "model.layers.3.self_attn"
  std::string_view spelling;   // the rest as of a scale: ".k_proj.k_scale"
};

/// False when the name is no KV-cache (or query, probability) scale. Weight scales such as k_proj.weight_scale are
/// none.
bool parse_kv_scale_name(std::string_view tensor, KvScaleName& out);

/// ModelSlim's names of scales and offsets of each channel, which vLLM-Ascend alone reads:
/// <attention>.k_proj.kv_cache_scale, .k_proj.kv_cache_offset, the same for v; <attention>.fa_v.scale. Not those of
/// latent attention (fa_q, fa_k), which export never writes. parse_kv_scale_name() does not take them.
bool is_modelslim_cache_name(std::string_view tensor);

/// All tensors of either kind, in name order.
std::vector<std::string> kv_scale_tensors(const Checkpoint& checkpoint);

}  // namespace kvcal
