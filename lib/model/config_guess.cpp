#include "model/config_guess.h"

#include <algorithm>

#include "base/error.h"
#include "base/number_text.h"
#include "model/plain_parameters.h"
#include "model/told_layers.h"

namespace kvcal {
namespace {

// Far above all that is served.
constexpr int64_t kMostHeads = int64_t{1} << 14, kMostHidden = int64_t{1} << 17, kWidest = int64_t{1} << 20,
                  kMostTokens = int64_t{1} << 31;

/// What keys leave open, and how it was taken.
class OpenPoints {
 public:
  void add(const std::string& what) {
    if (text_.find(what) == text_.npos) text_ += (text_.empty() ? "" : "; ") + what;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

constexpr const char* kOfState[] = {"mamba", "ssm_", "linear_", "state_size", "time_step_"};  // begins of keys

/// Keys or the model's type speak of recurrent layers.
bool speaks_of_state(const Json& text) {
  const Json* type = find_member(text, "model_type");
  for (const char* word : {"rwkv", "mamba", "xlstm"})
    if (type && type->is_string() && type->get_ref<const std::string&>().find(word) != std::string::npos) return true;
  return std::ranges::any_of(text.items(), [](const auto& item) {
    return std::ranges::any_of(kOfState, [&](const char* begin) { return item.key().starts_with(begin); });
  });
}

/// 0 where no key tells them.
int64_t n_kv_heads_of(UsualKeys& keys, int64_t layer) {
  if (keys.says("multi_query", true) && !keys.says("new_decoder_architecture", true)) {
    keys.note("multi_query");
    keys.set_aside("num_kv_heads");  // as many as query heads, which then is not meant
    return 1;
  }
  const Json* nested = keys.find("attn_config");
  if (nested && nested->is_object() && find_member(*nested, "kv_n_heads")) {
    UsualKeys own(*nested);
    const int64_t n = own.size({"kv_n_heads"}, kMostHeads);
    if (own.unread().empty()) keys.note("attn_config");
    return n;
  }
  const int64_t n = keys.size(
      {"num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "num_attention_groups", "num_query_groups"},
      kMostHeads, layer);
  if (n > 0 || keys.says("multi_query_attention", false)) return n;
  keys.set_aside("multi_query_attention");
  return keys.size({"multi_query_group_num"}, kMostHeads);
}

/// The cache of one layer; nothing where the keys do not tell it, or tell what cannot be.
std::optional<KvLayout> layout_of(UsualKeys& keys, const ToldLayer& told, int64_t layer, int64_t hidden,
                                  OpenPoints& open) {
  KvLayout c;
  c.layer = static_cast<int>(layer);
  c.n_heads = keys.size({"num_attention_heads_per_layer", "num_attention_heads", "n_head", "n_heads", "num_heads"},
                        kMostHeads, layer);
  if (c.n_heads == 0) return std::nullopt;
  if (const int64_t rank = keys.size({"kv_lora_rank"}, kWidest)) {
    const int64_t rope = keys.size({"qk_rope_head_dim"}, kWidest);
    if (rope == 0) return std::nullopt;
    for (const char* unused : {"num_key_value_heads", "head_dim", "v_head_dim"}) keys.set_aside(unused);
    open.add("a latent row where the server knows the class's latent attention: one that does not caches whole heads");
    c.kind = "mla";
    c.n_kv_heads = 1;
    c.latent_dim = c.head_dim_v = rank;
    c.head_dim_k = rank + rope;
    return c;
  }
  c.n_kv_heads = told.n_kv_heads > 0 ? told.n_kv_heads : n_kv_heads_of(keys, layer);
  if (c.n_kv_heads == 0) {
    c.n_kv_heads = c.n_heads;
    open.add("as many KV heads as query heads where no key tells them");
  }
  c.head_dim_k = keys.size({"head_dim", "attention_head_dim", "kv_channels"}, kWidest);
  if (c.head_dim_k == 0 && hidden % c.n_heads == 0) {
    c.head_dim_k = hidden / c.n_heads;
    open.add("heads are as wide as the hidden size over their number, where no key tells it");
  }
  const int64_t values = keys.size({"v_head_dim"}, kWidest);
  c.head_dim_v = values > 0 ? values : c.head_dim_k;
  const bool too_wide = c.n_heads * std::max(c.head_dim_k, c.head_dim_v) > 16 * kWidest;
  if (c.head_dim_k == 0 || too_wide || c.n_heads % c.n_kv_heads != 0) return std::nullopt;
  return c;
}

/// The length of the windows; 0: none, or not told.
int64_t window_of(UsualKeys& keys) {
  const std::initializer_list<const char*> names = {"sliding_window", "sliding_window_size"};
  if (!keys.says("use_sliding_window", false)) return keys.size_if_any(names, kMostTokens);
  for (const char* name : names) keys.set_aside(name);
  return 0;
}

void add_kinds(const UsualKeys& keys, int64_t window, const ToldLayers& told, OpenPoints& open) {
  const bool slides = std::ranges::any_of(told.layers, &ToldLayer::slides);
  if (std::ranges::any_of(told.layers, &ToldLayer::recurs)) open.add("recurrent state is not counted");
  if (!told.unknown.empty())
    open.add("layers called " + quoted(told.unknown) + " count as attention, for want of knowing the word");
  if (!told.told && speaks_of_state(keys.text()))
    open.add("keys speak of recurrent layers and do not say which, so all count as attention");
  if (window > 0 && !told.windows)
    open.add("no key says which layers have the window of " + grouped(window) + ", so all count with every position");
  if (window == 0 && slides)
    open.add("the length of the window is not told, so layers with one count with every position");
  if (keys.find("sparse_attention_config") || keys.find("index_head_dim"))
    open.add("keys of an indexer are not counted");
  if (keys.find("num_kv_shared_layers")) open.add("layers that read another's cache count with one of their own");
}

}  // namespace

std::optional<GuessedModel> guess_model(const Json& config) {
  const Json* nested = find_member(config, "text_config");
  const Json& text = nested && nested->is_object() ? *nested : config;
  UsualKeys keys(text);
  GuessedModel guess;
  ModelSpec& spec = guess.spec;
  const ToldLayers told = told_layers(keys);
  spec.hidden = keys.size({"hidden_size", "n_embd", "d_model", "dim"}, kMostHidden);
  spec.vocab = keys.size({"vocab_size", "padded_vocab_size"}, kMostTokens);
  // A model without tokens, like a classifier of images, or whose tokens see later ones generates no text.
  if (spec.vocab == 0 && !UsualKeys(config).find("vocab_size")) return std::nullopt;
  for (const Json* level : {&config, &text})
    if (UsualKeys(*level).says("is_causal", false) || UsualKeys(*level).says("use_bidirectional_attention", true))
      return std::nullopt;
  const int64_t window = window_of(keys);
  OpenPoints open;
  add_kinds(keys, window, told, open);
  for (size_t i = 0; i < told.layers.size(); ++i) {
    LayerSpec& layer = spec.layers.emplace_back();
    layer.index = static_cast<int>(i);
    if (!told.layers[i].caches) continue;
    std::optional<KvLayout> c = layout_of(keys, told.layers[i], layer.index, spec.hidden, open);
    if (!c || keys.absurd()) return std::nullopt;
    if (told.layers[i].slides) c->window = window;
    layer.cache = c->cache = static_cast<int>(spec.caches.size());
    spec.caches.push_back(std::move(*c));
  }
  if (spec.caches.empty() || keys.absurd()) return std::nullopt;
  if (const std::string unread = keys.unread(); !unread.empty())
    open.add("not read, and may tell otherwise: " + unread);
  guess.open = open.text();
  spec.max_positions =
      keys.size_if_any({"max_position_embeddings", "n_positions", "seq_length", "max_seq_len"}, kMostTokens);
  spec.tied_head = keys.says("tie_word_embeddings", true) || UsualKeys(config).says("tie_word_embeddings", true);
  guess.told_by = keys.noted();
  add_plain_parameters(keys, spec);
  return guess;
}

std::string caches_text(const ModelSpec& spec) {
  // Layers of one form together, as "30 with 8 KV heads of 128 (64 query heads) and a window of 512".
  std::vector<std::pair<std::string, int64_t>> forms;
  for (const KvLayout& c : spec.caches) {
    std::string form = c.is_mla()
                           ? "a latent row of " + grouped(c.head_dim_k) + " (" + grouped(c.n_heads) + " query heads)"
                           : grouped(c.n_kv_heads) + (c.n_kv_heads == 1 ? " KV head of " : " KV heads of ") +
                                 grouped(c.head_dim_k) + " (" + grouped(c.n_heads) + " query heads)";
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
  return n_states > 0 ? text + ", " + grouped(n_states) + " without a KV cache" : text;
}

}  // namespace kvcal
