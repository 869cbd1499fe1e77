#include "checkpoint/kv_scale_names.h"

#include <algorithm>
#include <charconv>

namespace kvcal {
namespace {

using Site = KvScaleName::Site;

struct Spelling {
  std::string_view suffix;  // after the attention module's name
  Site site;
};

// Longest first where one ends with another: ".k_proj.k_scale" belongs to the module before k_proj.
constexpr Spelling kSpellings[] = {
    {".qkv_proj.k_scale", Site::Key},
    {".qkv_proj.v_scale", Site::Value},
    {".qkv_proj.q_scale", Site::Query},
    {".qkv_proj.kv_scale", Site::KeyAndValue},
    {".k_proj.k_scale", Site::Key},
    {".v_proj.v_scale", Site::Value},
    {".q_proj.q_scale", Site::Query},
    {".k_proj.output_scale", Site::Key},
    {".v_proj.output_scale", Site::Value},
    {".q_proj.output_scale", Site::Query},
    {".prob_output_scale", Site::Probability},
    {".attn_mqa.k_scale", Site::Key},
    {".attn_mqa.v_scale", Site::Value},
    {".attn.k_scale", Site::Key},
    {".attn.v_scale", Site::Value},
    {".attn.q_scale", Site::Query},
    {".attn.kv_scale", Site::KeyAndValue},
    {".attn.prob_scale", Site::Probability},
    {".k_cache.scale", Site::Key},
    {".v_cache.scale", Site::Value},
    {".q.scale", Site::Query},
    {".k_scale", Site::Key},
    {".v_scale", Site::Value},
    {".q_scale", Site::Query},
    {".kv_scale", Site::KeyAndValue},
    {".prob_scale", Site::Probability},
};
constexpr std::string_view kScale = "scale", kZeroPoint = "zero_point";

int64_t layer_of(std::string_view name) {
  for (const std::string_view word : {".layers.", ".blocks.", ".h."}) {
    const size_t at = name.find(word);
    const size_t begin =
        at == name.npos ? (name.starts_with(word.substr(1)) ? word.size() - 1 : name.npos) : at + word.size();
    if (begin == name.npos) continue;
    int64_t layer = -1;
    const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), layer);
    const bool whole = end == name.data() + name.size() || *end == '.';
    if (error == std::errc() && whole && layer >= 0) return layer;
  }
  return -1;
}

}  // namespace

bool parse_kv_scale_name(std::string_view tensor, KvScaleName& out) {
  std::string as_scale;
  const bool zero_point = tensor.ends_with(kZeroPoint);
  if (zero_point) {
    as_scale = std::string(tensor.substr(0, tensor.size() - kZeroPoint.size())) + std::string(kScale);
  } else if (!tensor.ends_with(kScale)) {
    return false;
  }
  const std::string_view name = zero_point ? std::string_view(as_scale) : tensor;
  for (const Spelling& spelling : kSpellings) {
    if (!name.ends_with(spelling.suffix)) continue;
    out.site = spelling.site;
    out.zero_point = zero_point;
    out.attention = tensor.substr(0, name.size() - spelling.suffix.size());
    out.spelling = spelling.suffix;
    out.layer = layer_of(out.attention);
    return true;
  }
  return false;
}

bool is_modelslim_cache_name(std::string_view tensor) {
  constexpr std::string_view kSuffixes[] = {"_proj.kv_cache_scale", "_proj.kv_cache_offset", ".fa_v.scale"};
  return std::ranges::any_of(kSuffixes, [&](std::string_view suffix) { return tensor.ends_with(suffix); });
}

std::vector<std::string> kv_scale_tensors(const Checkpoint& checkpoint) {
  std::vector<std::string> found;
  KvScaleName parsed;
  for (const std::string& name : checkpoint.names())
    if (parse_kv_scale_name(name, parsed) || is_modelslim_cache_name(name)) found.push_back(name);
  return found;
}

}  // namespace kvcal
