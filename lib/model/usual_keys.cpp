#include "model/usual_keys.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace kvcal {
namespace {

// Parts of names of keys that may change what is cached.
constexpr std::array<std::string_view, 17> kTelling = {
    "attn",       "attention",    "key_value", "kv_",   "_kv",       "head",   "window", "swa",  "layer",
    "block_type", "block_config", "query",     "cache", "compress_", "hybrid", "mixer",  "share"};

// They change nothing of it, though their names have such a part: by another part, and whole.
constexpr std::array<std::string_view, 21> kOther = {
    "norm",         "bias",        "expert",      "moe",     "rope",           "mamba",           "ssm_",
    "mtp",          "nextn",       "index",       "dropout", "pdrop",          "linear_num",      "linear_key",
    "linear_value", "linear_head", "linear_conv", "softmax", "implementation", "per_layer_input", "scal"};
constexpr std::array<std::string_view, 18> kSilent = {
    "add_cross_attention", "attn_output_gate",        "chunk_size_feed_forward",  "context_window_size",
    "conv_L_cache",        "decoder_sparse_step",     "max_window_layers",        "mlp_layer_types",
    "mlp_only_layers",     "num_dense_layers",        "num_kv_shared_layers",     "qk_head_dim",
    "qk_nope_head_dim",    "return_dict_in_generate", "shared_intermediate_size", "sparse_attention_config",
    "use_cache",           "use_sliding_window"};

bool may_tell(const std::string& key) {
  const auto has = [&](std::string_view part) { return key.find(part) != key.npos; };
  return std::ranges::any_of(kTelling, has) && std::ranges::none_of(kOther, has) &&
         std::ranges::find(kSilent, key) == kSilent.end();
}

/// Numbers that are not whole are factors and shares: they count nothing.
bool says_nothing(const Json& value) {
  return value.is_null() || value == false || value == 0 || value.is_number_float() ||
         ((value.is_object() || value.is_array() || value.is_string()) && value.size() == 0) || value == "";
}

}  // namespace

const Json* UsualKeys::find(const std::string& key) const {
  const Json* found = find_member(text_, key.c_str());
  return found && !says_nothing(*found) ? found : nullptr;
}

bool UsualKeys::says(const char* key, bool value) const {
  const Json* found = find_member(text_, key);
  return found && *found == value;
}

int64_t UsualKeys::size(std::initializer_list<const char*> keys, int64_t most, int64_t layer) {
  int64_t size = 0;
  for (const char* key : keys) {
    const Json* found = find_member(text_, key);
    if (!found || found->is_null() || *found == 0) continue;
    if (layer >= 0 && found->is_array() && layer < static_cast<int64_t>(found->size()))
      found = &(*found)[static_cast<size_t>(layer)];
    if (!found->is_number_integer() || *found < 1 || *found > most) {
      absurd_ = true;
      return 0;
    }
    const auto value = found->get<int64_t>();
    if (size == 0) size = value;
    if (size == value) note(key);
  }
  return size;
}

int64_t UsualKeys::size_if_any(std::initializer_list<const char*> keys, int64_t most) {
  int64_t size = 0;
  for (const char* key : keys) {
    const Json* found = find(key);
    if (!found || !found->is_number_integer() || *found < 1 || *found > most) continue;
    if (size == 0) size = found->get<int64_t>();
    if (*found == size) note(key);
  }
  return size;
}

void UsualKeys::note(const std::string& key) {
  if (!is_read(key)) noted_.push_back(key);
}

void UsualKeys::set_aside(const std::string& key) {
  if (!is_read(key)) aside_.push_back(key);
}

bool UsualKeys::is_read(const std::string& key) const {
  return std::ranges::find(noted_, key) != noted_.end() || std::ranges::find(aside_, key) != aside_.end();
}

std::string UsualKeys::noted() const {
  std::string list;
  for (const std::string& key : noted_) list += (list.empty() ? "" : ", ") + key;
  return list;
}

std::string UsualKeys::unread() const {
  constexpr size_t kMostNamed = 8;
  std::string list;
  size_t n = 0;
  for (const auto& [key, value] : text_.items())
    if (!is_read(key) && may_tell(key) && find(key) && ++n <= kMostNamed) list += (n > 1 ? ", " : "") + quoted(key);
  return n > kMostNamed ? list + " and " + std::to_string(n - kMostNamed) + " more" : list;
}

}  // namespace kvcal
