#include "model/told_layers.h"

#include <algorithm>
#include <array>
#include <optional>

namespace kvcal {
namespace {

constexpr int64_t kMostLayers = 4096;  // far above all that is served

constexpr ToldLayer kFull{}, kSliding{.slides = true}, kState{.caches = false, .recurs = true},
    kNothing{.caches = false}, kBoth{.recurs = true};

struct Word {
  std::string_view word;
  ToldLayer layer;
};
constexpr Word kWords[] = {
    {"attention", kFull},
    {"full_attention", kFull},
    {"chunked_attention", kFull},
    {"deepseek_sparse_attention", kFull},
    {"sliding_attention", kSliding},
    {"linear_attention", kState},
    {"lightning-attn", kState},
    {"mamba", kState},
    {"recurrent", kState},
    {"conv", kState},
    {"hybrid", kBoth},
    {"mlp", kNothing},
    {"moe", kNothing},
    // letters of hybrid_override_pattern
    {"*", kFull},
    {"M", kState},
    {"-", kNothing},
    {"E", kNothing},
};

enum class Form : uint8_t {
  Words,    // one for each layer; more are layers that draft
  Cycle,    // words that repeat
  Letters,  // a string of as many as there are layers
  Blocks,   // an object for each layer
  Flags,    // 1 for `listed`, 0 for `other`
  Indexes,  // of the layers that are `listed`, counted from `first`
  Period,   // every so many layers the last is `listed`
  Offset,   // the same, the one at attn_layer_offset
  From,     // with use_sliding_window, from this layer on `other`
};

struct KindKey {
  const char* key;
  Form form;
  ToldLayer listed{}, other{};
  int64_t first = 0;
  bool tells_windows() const { return listed.slides || other.slides || key == std::string_view("layer_types"); }
};
constexpr KindKey kKindKeys[] = {
    {"layer_types", Form::Words},
    {"layers_block_type", Form::Words},
    {"mixer_types", Form::Words},
    {"block_types", Form::Cycle},
    {"hybrid_override_pattern", Form::Letters},
    {"block_configs", Form::Blocks},
    {"attn_type_list", Form::Flags, kFull, kState},
    {"hybrid_layer_pattern", Form::Flags, kSliding, kFull},
    {"linear_attn_config", Form::Indexes, kFull, kState, 1},  // its full_attn_layers
    {"attn_layer_indices", Form::Indexes, kFull, kState},
    {"full_attn_idxs", Form::Indexes, kFull, kState},
    {"hybrid_layer_ids", Form::Indexes, kBoth, kState},
    {"full_attention_interval", Form::Period, kFull, kState},
    {"attn_layer_period", Form::Offset, kFull, kState},
    {"sliding_window_pattern", Form::Period, kFull, kSliding},
    {"_sliding_window_pattern", Form::Period, kFull, kSliding},
    {"max_window_layers", Form::From, kFull, kSliding},
};

using Layers = std::vector<ToldLayer>;

bool same(const ToldLayer& a, const ToldLayer& b) {
  return a.caches == b.caches && a.slides == b.slides && a.recurs == b.recurs && a.n_kv_heads == b.n_kv_heads;
}

/// Reads one key for a number of layers; nothing where it cannot be read.
class KindReading {
 public:
  KindReading(const UsualKeys& keys, const KindKey& key, const Json& value, size_t n_layers)
      : keys_(keys), key_(key), value_(value), layers_(n_layers) {}

  std::optional<Layers> read() {
    bool done = false;
    if (key_.form <= Form::Blocks)
      done = read_words();
    else if (key_.form == Form::Flags)
      done = read_flags();
    else if (key_.form == Form::Indexes)
      done = read_indexes();
    else
      done = read_period();
    return done ? std::optional(layers_) : std::nullopt;
  }
  const std::string& unknown() const { return unknown_; }

 private:
  ToldLayer layer_of(const std::string& word) {
    for (const Word& known : kWords)
      if (known.word == word) return known.layer;
    if (unknown_.empty()) unknown_ = word;
    return kFull;
  }

  /// Of block_configs: "block_type", or what both branches of a layer are; nothing where it says more.
  std::optional<ToldLayer> layer_of_block(const Json& block) {
    const Json* type = block.is_object() ? find_member(block, "block_type") : nullptr;
    if (type && type->is_string() && block.size() == 1) return layer_of(type->get<std::string>());
    const Json* attention = block.is_object() ? find_member(block, "attention") : nullptr;
    if (type || !attention || !attention->is_object()) return std::nullopt;
    const UsualKeys keys(*attention);
    const Json* group = keys.find("n_heads_in_group");
    for (const auto& [key, value] : attention->items())
      if (key != "n_heads_in_group" && key != "no_op" && key != "replace_with_linear" && keys.find(key))
        return std::nullopt;
    if (keys.says("no_op", true) || keys.says("replace_with_linear", true)) return kNothing;
    const Json* n_heads = keys_.find("num_attention_heads");
    if (!group || !n_heads || !group->is_number_integer() || !n_heads->is_number_integer() || *group < 1 ||
        *group > *n_heads)
      return std::nullopt;
    return ToldLayer{.n_kv_heads = n_heads->get<int64_t>() / group->get<int64_t>()};
  }

  bool read_words() {
    const bool text = key_.form == Form::Letters, cycle = key_.form == Form::Cycle;
    if (text ? !value_.is_string() : !value_.is_array()) return false;
    const size_t n = text ? value_.get_ref<const std::string&>().size() : value_.size();
    if (text ? n != layers_.size() : !cycle && n < layers_.size()) return false;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (text) {
        layers_[i] = layer_of(value_.get_ref<const std::string&>().substr(i, 1));
        continue;
      }
      const Json& entry = value_[i % n];
      const std::optional<ToldLayer> layer = key_.form == Form::Blocks ? layer_of_block(entry)
                                             : entry.is_string() ? std::optional(layer_of(entry.get<std::string>()))
                                                                 : std::nullopt;
      if (!layer) return false;
      layers_[i] = *layer;
    }
    return true;
  }

  bool read_flags() {
    if (!value_.is_array() || value_.size() != layers_.size()) return false;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (value_[i] != 0 && value_[i] != 1) return false;
      layers_[i] = value_[i] == 1 ? key_.listed : key_.other;
    }
    return true;
  }

  bool read_indexes() {
    const Json* list = value_.is_object() ? find_member(value_, "full_attn_layers") : &value_;
    if (!list || !list->is_array()) return false;
    std::ranges::fill(layers_, key_.other);
    const auto n = static_cast<int64_t>(layers_.size());
    for (const Json& index : *list) {
      if (!index.is_number_integer() || index < key_.first || index >= n + key_.first) return false;
      layers_[static_cast<size_t>(index.get<int64_t>() - key_.first)] = key_.listed;
    }
    return true;
  }

  bool read_period() {
    const auto n = static_cast<int64_t>(layers_.size());
    if (!value_.is_number_integer() || value_ < 1 || value_ > kMostLayers) return false;
    const auto every = value_.get<int64_t>();
    if (key_.form == Form::From && !keys_.says("use_sliding_window", true)) return false;
    int64_t at = every - 1;
    if (key_.form == Form::Offset) {
      const Json* offset = find_member(keys_.text(), "attn_layer_offset");
      if (!offset || !offset->is_number_integer() || *offset < 0 || *offset >= every) return false;
      at = offset->get<int64_t>();
    }
    for (int64_t i = 0; i < n; ++i) {
      const bool listed = key_.form == Form::From ? i < every : i % every == at;
      layers_[static_cast<size_t>(i)] = listed ? key_.listed : key_.other;
    }
    return true;
  }

  const UsualKeys& keys_;
  const KindKey& key_;
  const Json& value_;
  Layers layers_;
  std::string unknown_;
};

/// Of the config's own key, or of a list of all its layers.
size_t count_of(UsualKeys& keys) {
  const int64_t told = keys.size({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, kMostLayers);
  if (told > 0 || keys.absurd()) return static_cast<size_t>(told);
  for (const KindKey& key : kKindKeys) {
    const Json* value = keys.find(key.key);
    if (!value || key.form > Form::Blocks || key.form == Form::Cycle) continue;
    const size_t n = value->is_string() ? value->get_ref<const std::string&>().size() : value->size();
    if (n <= kMostLayers) return n;
  }
  return 0;
}

}  // namespace

ToldLayers told_layers(UsualKeys& keys) {
  ToldLayers told;
  told.layers.resize(count_of(keys));
  if (told.layers.empty()) return told;
  for (const KindKey& key : kKindKeys) {
    const Json* value = keys.find(key.key);
    if (!value) continue;
    KindReading reading(keys, key, *value, told.layers.size());
    const std::optional<Layers> layers = reading.read();
    if (!layers || (told.told && !std::ranges::equal(*layers, told.layers, same))) continue;
    keys.note(key.key);
    if (key.form == Form::Offset) keys.note("attn_layer_offset");
    told.windows |= key.tells_windows();
    if (told.told) continue;
    told.layers = *layers;
    told.told = true;
    told.unknown = reading.unknown();
  }
  return told;
}

}  // namespace kvcal
