#include "model/config_guess.h"

#include <algorithm>
#include <initializer_list>

#include "base/number_text.h"
#include "model/config_reading.h"

namespace kvcal {
namespace {

// Far above all that is served; the weights of models within them can be counted in 64 bits.
constexpr int64_t kMostLayers = 4096, kMostExperts = 2000, kMostHeads = int64_t{1} << 14,
                  kMostHidden = int64_t{1} << 17, kWidest = int64_t{1} << 20, kMostTokens = int64_t{1} << 31;

/// Looks up numbers, and remembers the keys that had them.
class UsualKeys {
 public:
  explicit UsualKeys(const Json& text) : text_(text) {}

  /// Of the first key that is there; 0 for none, or where it has no number in [1, most].
  int64_t size(std::initializer_list<const char*> keys, int64_t most, int64_t layer = -1) {
    for (const char* key : keys) {
      const Json* found = find_member(text_, key);
      if (found && layer >= 0 && found->is_array() && layer < static_cast<int64_t>(found->size()))
        found = &(*found)[static_cast<size_t>(layer)];
      if (!found || !found->is_number_integer() || found->get<int64_t>() < 1 || found->get<int64_t>() > most) continue;
      note(key);
      return found->get<int64_t>();
    }
    return 0;
  }
  void note(const std::string& key) {
    if (std::ranges::find(noted_, key) == noted_.end()) noted_.push_back(key);
  }
  std::string noted() const {
    std::string list;
    for (const std::string& key : noted_) list += (list.empty() ? "" : ", ") + key;
    return list;
  }
  const Json& text() const { return text_; }

 private:
  const Json& text_;
  std::vector<std::string> noted_;
};

bool has_part(std::string_view word, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return word.find(part) != word.npos; });
}

enum class Kind : uint8_t { Full, Sliding, State };

/// What a config's word for a layer most likely means.
Kind kind_of(const std::string& word) {
  if (has_part(word, {"linear", "mamba", "conv", "recurrent", "delta", "lightning", "ssm", "rwkv", "mlp", "moe"}))
    return Kind::State;
  return has_part(word, {"sliding", "window", "local"}) ? Kind::Sliding : Kind::Full;
}

/// A list of as many words as there are layers.
const Json* words_of(UsualKeys& keys, int64_t n_layers) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    const Json* found = find_member(keys.text(), key);
    if (!found || !found->is_array() || found->size() < static_cast<size_t>(n_layers)) continue;
    if (!std::ranges::all_of(*found, [](const Json& word) { return word.is_string(); })) continue;
    keys.note(key);
    return found;
  }
  return nullptr;
}

std::vector<Kind> kinds_of(UsualKeys& keys, int64_t n_layers) {
  std::vector<Kind> kinds(static_cast<size_t>(n_layers), Kind::Full);
  const Json* pattern = find_member(keys.text(), "hybrid_override_pattern");
  const bool by_letters =
      pattern && pattern->is_string() && pattern->get_ref<const std::string&>().size() == kinds.size();
  if (const Json* words = words_of(keys, n_layers)) {
    for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = kind_of((*words)[i].get<std::string>());
  } else if (const Json* types = find_member(keys.text(), "attn_type_list");
             types && types->is_array() && types->size() == kinds.size()) {  // MiniMax: 0 for linear attention
    keys.note("attn_type_list");
    for (size_t i = 0; i < kinds.size(); ++i)
      if ((*types)[i] == 0) kinds[i] = Kind::State;
  } else if (by_letters) {
    keys.note("hybrid_override_pattern");
    for (size_t i = 0; i < kinds.size(); ++i)
      if (pattern->get_ref<const std::string&>()[i] != '*') kinds[i] = Kind::State;
  } else if (const int64_t every = keys.size({"full_attention_interval", "attn_layer_period"}, n_layers)) {
    const int64_t offset = find_member(keys.text(), "full_attention_interval")
                               ? every - 1
                               : std::max<int64_t>(0, keys.size({"attn_layer_offset"}, every - 1));
    for (int64_t i = 0; i < n_layers; ++i)
      if (i % every != offset) kinds[static_cast<size_t>(i)] = Kind::State;
  }
  return kinds;
}

/// Keys that speak of recurrent layers.
bool speaks_of_state(const Json& text) {
  return std::ranges::any_of(text.items(), [](const auto& item) {
    return item.key().starts_with("mamba") || item.key().starts_with("ssm_") || item.key().starts_with("linear_");
  });
}

/// Weights of a layer's feed-forward, whether of one or of experts.
int64_t feed_forward(UsualKeys& keys, int64_t layer, int64_t hidden) {
  const int64_t n =
      keys.size({"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}, kMostExperts);
  const Json* words = find_member(keys.text(), "mlp_layer_types");
  const bool dense_word = words && words->is_array() && layer < static_cast<int64_t>(words->size()) &&
                          (*words)[static_cast<size_t>(layer)] == "dense";
  const bool dense = n == 0 || dense_word || layer < keys.size({"first_k_dense_replace"}, kMostLayers);
  const int64_t wide = keys.size({"intermediate_size", "ffn_hidden_size", "n_inner"}, kWidest);
  if (dense) return 3 * hidden * (wide > 0 ? wide : 4 * hidden);
  const int64_t narrow = keys.size({"moe_intermediate_size", "expert_ffn_hidden_size"}, kWidest);
  const int64_t shared = keys.size({"n_shared_experts", "num_shared_experts"}, 40);
  return 3 * hidden * (narrow > 0 ? narrow : wide) * (n + shared);
}

/// The cache of one layer; n_heads 0 where the keys do not tell it.
KvLayout layout_of(UsualKeys& keys, int64_t layer, int64_t hidden) {
  KvLayout c;
  c.layer = static_cast<int>(layer);
  c.n_heads = keys.size({"num_attention_heads_per_layer", "num_attention_heads", "n_head", "n_heads", "num_heads"},
                        kMostHeads, layer);
  if (c.n_heads == 0) return c;
  if (const int64_t rank = keys.size({"kv_lora_rank"}, kWidest)) {
    c.kind = "mla";
    c.n_kv_heads = 1;
    c.latent_dim = c.head_dim_v = rank;
    c.head_dim_k = rank + keys.size({"qk_rope_head_dim"}, kWidest);
    return c;
  }
  c.n_kv_heads = keys.size({"num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "multi_query_group_num",
                            "num_attention_groups", "num_query_groups"},
                           c.n_heads, layer);
  if (c.n_kv_heads == 0) c.n_kv_heads = c.n_heads;
  c.head_dim_k = keys.size({"head_dim", "kv_channels", "attention_head_dim"}, kWidest);
  if (c.head_dim_k == 0) c.head_dim_k = hidden / c.n_heads;
  const int64_t values = keys.size({"v_head_dim"}, kWidest);
  c.head_dim_v = values > 0 ? values : c.head_dim_k;
  return c;
}

void add_open(std::string& open, const std::string& what) { open += (open.empty() ? "" : "; ") + what; }

/// In words: what was not told, and how it was taken.
std::string left_open(const Json& text, const ModelSpec& spec, int64_t window, const std::vector<Kind>& kinds) {
  std::string open;
  const auto any = [&](Kind kind) { return std::ranges::find(kinds, kind) != kinds.end(); };
  if (any(Kind::State)) add_open(open, "recurrent state is not counted");
  if (!any(Kind::State) && speaks_of_state(text))
    add_open(open, "keys speak of recurrent layers and do not say which, so all count as attention");
  if (window > 0 && !any(Kind::Sliding))
    add_open(open,
             "no key says which layers have the window of " + grouped(window) + ", so all count with every position");
  if (window == 0 && any(Kind::Sliding))
    add_open(open, "the length of the window is not told, so layers with one count with every position");
  if (find_member(text, "sparse_attention_config") || find_member(text, "index_head_dim"))
    add_open(open, "keys of an indexer are not counted");
  if (const Json* shared = find_member(text, "num_kv_shared_layers"); shared && *shared != 0)
    add_open(open, "layers that read another's cache count with one of their own");
  const bool told = find_member(text, "num_key_value_heads") || spec.caches[0].n_kv_heads < spec.caches[0].n_heads;
  if (!spec.caches[0].is_mla() && !told) add_open(open, "as many KV heads as query heads where no key tells them");
  return open;
}

}  // namespace

std::optional<GuessedModel> guess_model(const Json& config) {
  const Json* nested = find_member(config, "text_config");
  const Json& text = nested && nested->is_object() ? *nested : config;
  UsualKeys keys(text);
  GuessedModel guess;
  ModelSpec& spec = guess.spec;
  const int64_t n_layers = keys.size({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, kMostLayers);
  spec.hidden = keys.size({"hidden_size", "n_embd", "d_model", "dim"}, kMostHidden);
  spec.vocab = std::max<int64_t>(0, keys.size({"vocab_size", "padded_vocab_size"}, kMostTokens));
  const Json* used = find_member(text, "use_sliding_window");
  const int64_t window = used && *used == false ? 0 : keys.size({"sliding_window", "sliding_window_size"}, kMostTokens);
  const std::vector<Kind> kinds = kinds_of(keys, n_layers);
  for (int64_t i = 0; i < n_layers; ++i) {
    LayerSpec& layer = spec.layers.emplace_back();
    layer.index = static_cast<int>(i);
    layer.parameters = feed_forward(keys, i, spec.hidden);
    KvLayout c = layout_of(keys, i, spec.hidden);
    if (c.n_heads == 0 || c.head_dim_k == 0 || c.n_heads * std::max(c.head_dim_k, c.head_dim_v) > 16 * kWidest)
      return std::nullopt;
    const Kind kind = kinds[static_cast<size_t>(i)];
    layer.parameters += spec.hidden * c.n_heads * (c.head_dim_k + c.head_dim_v) +
                        spec.hidden * c.n_kv_heads * (c.head_dim_k + (c.is_mla() ? 0 : c.head_dim_v));
    if (kind == Kind::State) continue;
    if (kind == Kind::Sliding) c.window = window;
    layer.cache = c.cache = static_cast<int>(spec.caches.size());
    spec.caches.push_back(std::move(c));
  }
  if (spec.caches.empty()) return std::nullopt;
  guess.open = left_open(text, spec, window, kinds);
  spec.max_positions = keys.size({"max_position_embeddings", "n_positions", "seq_length", "max_seq_len"}, kMostTokens);
  const Json* tied = find_member(config, "tie_word_embeddings");
  spec.tied_head = tied && *tied == true;
  guess.told_by = keys.noted();
  return guess;
}

std::string caches_text(const ModelSpec& spec) {
  // Layers of one form together, as "30 with 8 KV heads of 128 (64 query heads) and a window of 512".
  std::vector<std::pair<std::string, int64_t>> forms;
  for (const KvLayout& c : spec.caches) {
    std::string form = c.is_mla()
                           ? "a latent row of " + grouped(c.head_dim_k) + " (" + grouped(c.n_heads) + " query heads)"
                           : grouped(c.n_kv_heads) + " KV heads of " + grouped(c.head_dim_k) + " (" +
                                 grouped(c.n_heads) + " query heads)";
    if (c.window > 0) form += " and a window of " + grouped(c.window);
    const auto same = std::ranges::find(forms, form, &std::pair<std::string, int64_t>::first);
    if (same != forms.end())
      ++same->second;
    else
      forms.emplace_back(form, 1);
  }
  std::string text = grouped(static_cast<int64_t>(spec.layers.size())) + " layers";
  for (const auto& [form, n] : forms) text += (&form == &forms[0].first ? ": " : ", ") + grouped(n) + " with " + form;
  const auto n_states = static_cast<int64_t>(spec.layers.size() - spec.caches.size());
  return n_states > 0 ? text + ", " + grouped(n_states) + " without a KV cache (hybrid)" : text;
}

}  // namespace kvcal
