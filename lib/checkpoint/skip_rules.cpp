#include "checkpoint/skip_rules.h"

#include <charconv>

#include "checkpoint/kv_scale_names.h"

namespace kvcal {
namespace {

// The patterns speak of modules, not of single tensors, so that new members of a tower need no new line.
const std::vector<SkipRule>& common_rules() {
  static const std::vector<SkipRule> rules = {
      {"mtp", {"mtp.*", "*.mtp.*", "mtp_*", "*.mtp_*", "*.nextn_*", "*.eagle_*", "*.draft_*", "medusa_*"}},
      {"vision",
       {"visual.*",   "*.visual.*",       "vision.*",       "*.vision.*",        "vision_*",           "*.vision_*",
        "image_*",    "*.image_*",        "vit.*",          "*.vit.*",           "gen_vision_model.*", "gen_embed.*",
        "gen_head.*", "*.embed_vision.*", "embed_vision.*", "*.img_processor.*", "img_processor.*",    "patch_embed*",
        "*.siglip*",  "sam_model.*",      "*.sam_model.*",  "qwen2_model.*",     "*.qwen2_model.*"}},
      {"audio",
       {"audio.*", "*.audio.*", "audio_*", "*.audio_*", "*.embed_audio.*", "embed_audio.*", "talker.*", "code2wav.*",
        "token2wav.*", "speech_*", "*.speech_*", "*.conformer.*", "whisper_*"}},
      {"time series", {"time_series.*", "*.time_series.*"}},
      {"projector",
       {"multi_modal_projector.*", "*.multi_modal_projector.*", "mm_projector.*", "*.mm_projector.*", "mlp1.*",
        "projector.*", "*.projector.*", "aligner.*", "*.aligner.*", "gen_aligner.*", "connector.*", "*.connector.*",
        "patch_merger.*", "*.patch_merger.*", "patch_merge_mlp.*", "view_seperator", "*.view_seperator",
        "vit_large_projector.*"}},
      {"rope tables",
       {"*.rotary_emb.*", "rotary_emb.*", "*.rotary_pos_emb.*", "*.inv_freq", "*.cos_cached", "*.sin_cached",
        "freqs_cis", "*.freqs_cis"}},
      {"activation scales", {"*.input_scale", "*.activation_scale", "*.input_global_scale", "*_input_scale"}},
  };
  return rules;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = pattern.npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

SkipRules::SkipRules(std::string layers_prefix, int64_t n_layers, std::vector<SkipRule> architecture_rules)
    : layers_prefix_(std::move(layers_prefix)), n_layers_(n_layers), rules_(common_rules()) {
  for (SkipRule& rule : architecture_rules) rules_.push_back(std::move(rule));
}

bool SkipRules::is_extra_layer(std::string_view tensor) const {
  if (!tensor.starts_with(layers_prefix_)) return false;
  int64_t layer = 0;
  const char* begin = tensor.data() + layers_prefix_.size();
  const auto [end, error] = std::from_chars(begin, tensor.data() + tensor.size(), layer);
  return error == std::errc() && end != tensor.data() + tensor.size() && *end == '.' && layer >= n_layers_;
}

std::string_view SkipRules::rule_for(std::string_view tensor) const {
  if (is_extra_layer(tensor)) return "extra layers";
  if (KvScaleName ignored; parse_kv_scale_name(tensor, ignored)) return "kv scales";
  for (const SkipRule& rule : rules_)
    for (const std::string& pattern : rule.patterns)
      if (matches_pattern(pattern, tensor)) return rule.name;
  return "";
}

}  // namespace kvcal
