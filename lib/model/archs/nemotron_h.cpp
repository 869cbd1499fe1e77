// NemotronHForCausalLM (Nemotron-H, Nemotron Nano 2, Nemotron 3): one norm and one mixer a layer: Mamba-2, attention
// without RoPE, squared-ReLU feed-forward, or experts without gates (docs/model-notes.md, "Mamba"). Servers do not
// clamp Δ at time_step_min as the reference does, and count the shared expert's width once for each of
// n_shared_experts. NemotronHPuzzleForCausalLM: windows, widths and experts differ by layer.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/mamba2.h"
#include "model/layers/self_attention.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 131072,
                                       .hidden = 4096,
                                       .ffn = 21504,
                                       .n_layers = 4,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 4096,
                                       .eps_key = "layer_norm_epsilon",
                                       .eps = 1e-5};
constexpr const char* kWords[] = {"linear_attention", "full_attention", "mlp", "moe"};

// layers_block_type has the words; hybrid_override_pattern a letter for each. Their number is that of the layers.
std::vector<std::string> read_words(const Json& config) {
  std::vector<std::string> known(std::begin(kWords), std::end(kWords));
  if (auto words = read_mixer_words(config, {"layers_block_type", "layer_types"}, known)) return *words;
  constexpr std::string_view kLetters = "M*-E";
  const std::string pattern = get_string_or(config, "hybrid_override_pattern", "ME*-");  // the class default
  std::vector<std::string> words;
  for (const char letter : pattern) {
    const size_t i = kLetters.find(letter);
    if (i == kLetters.npos)
      fail("hybrid_override_pattern holds " + quoted(std::string(1, letter)) + "; known are M, *, - and E");
    words.push_back(known[i]);
  }
  return words;
}

// One width, or one for each feed-forward layer.
std::vector<int64_t> read_widths(const Json& config, int64_t n) {
  const Json* list = find_member(config, "intermediate_size");
  if (!list || !list->is_array())
    return std::vector<int64_t>(static_cast<size_t>(n), read_size(config, "intermediate_size", kDefaults.ffn));
  if (list->size() != 1 && static_cast<int64_t>(list->size()) != n)
    fail("intermediate_size has " + std::to_string(list->size()) + " entries, expected 1 or " + std::to_string(n) +
         ", the number of feed-forward layers");
  std::vector<int64_t> widths;
  for (const Json& width : *list) widths.push_back(read_size(Json{{"intermediate_size", width}}, "intermediate_size"));
  widths.resize(static_cast<size_t>(n), widths[0]);
  return widths;
}

/// A kind of layer in block_configs, and what servers take from there instead of from the config's own keys. One of
/// both has to say the first `n_needed`.
struct BlockKind {
  const char *type, *word;
  size_t n_needed;
  std::vector<std::string> keys;
};
const std::vector<BlockKind>& block_kinds() {
  static const std::vector<BlockKind> all = {
      {"mamba", "linear_attention", 0, {}},
      {"attention", "full_attention", 0, {"sliding_window"}},
      {"mlp", "mlp", 1, {"intermediate_size"}},
      {"moe",
       "moe",
       4,
       {"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "moe_shared_expert_intermediate_size",
        "moe_latent_size", "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob"}}};
  return all;
}

const BlockKind& kind_of(const Json& block, size_t layer) {
  if (!block.is_object()) fail("block_configs[" + std::to_string(layer) + "] is not an object");
  const std::string type = get_string(block, "block_type");
  std::vector<std::string> known;
  for (const BlockKind& kind : block_kinds()) {
    if (kind.type == type) return kind;
    known.emplace_back(kind.type);
  }
  fail_unknown("block_type", type, known);
}

/// A layer's word, and its own values of keys of the config.
struct LayerConfig {
  std::string word;
  Json own = Json::object();
};

bool says_the_same(const std::vector<std::string>& words, const std::vector<LayerConfig>& layers) {
  return std::ranges::equal(words, layers, {}, {}, &LayerConfig::word);
}

std::vector<LayerConfig> read_block_configs(const Json& config) {
  const Json* list = find_member(config, "block_configs");
  if (!list || !list->is_array() || list->empty())
    fail("block_configs is not a list of layers, by which this architecture differs from NemotronHForCausalLM");
  std::vector<LayerConfig> layers;
  for (const Json& block : *list) {
    const BlockKind& kind = kind_of(block, layers.size());
    LayerConfig& layer = layers.emplace_back(LayerConfig{kind.word});
    for (const auto& [key, value] : block.items()) {
      if (key == "block_type") continue;
      if (std::find(kind.keys.begin(), kind.keys.end(), key) == kind.keys.end())
        fail_unknown("key in block_configs of a layer of type " + std::string(kind.type), key, kind.keys);
      if (!value.is_null()) layer.own[key] = value;
      if (value.is_null() && find_member(config, key.c_str()))
        fail("block_configs[" + std::to_string(layers.size() - 1) + "] has null for " + key +
             ", which servers take for none or for the config's own");
    }
    for (size_t i = 0; i < kind.n_needed; ++i)
      if (!layer.own.contains(kind.keys[i]) && !find_member(config, kind.keys[i].c_str()))
        fail("block_configs[" + std::to_string(layers.size() - 1) + "] has no " + kind.keys[i]);
  }
  for (const char* key : {"layers_block_type", "layer_types", "hybrid_override_pattern"})
    if (find_member(config, key) && !says_the_same(read_words(config), layers))
      fail(std::string(key) + " does not name the kinds of layers that block_configs has");
  return layers;
}

std::vector<LayerConfig> read_layers(const Json& config) {
  std::vector<LayerConfig> layers;
  for (const std::string& word : read_words(config)) layers.push_back({word});
  return layers;
}

/// What layers are read from where they say nothing of their own: little, as it is copied for each of them. A list of
/// widths is taken apart by read_widths.
Json layer_sizes(const Json& config) {
  Json sizes = Json::object();
  const auto take = [&](const std::string& key) {
    const Json* value = find_member(config, key);
    if (!value || (value->is_array() && key == "intermediate_size")) return;
    if (!value->is_number() && !value->is_boolean())
      fail(key + " is a JSON " + value->type_name() + ", expected a number or true or false");
    sizes[key] = *value;
  };
  for (const BlockKind& kind : block_kinds()) std::ranges::for_each(kind.keys, take);
  take("n_shared_experts");
  return sizes;
}

DecoderDims read_dims(const Json& config, int64_t n_layers) {
  Json plain = config;  // what the other families spell otherwise
  plain["num_hidden_layers"] = n_layers;
  plain["intermediate_size"] = 1;
  if (!find_member(config, "head_dim") && find_member(config, "attention_head_dim"))
    plain["head_dim"] = config["attention_head_dim"];
  DecoderDims dims = read_decoder_dims(plain, kDefaults);
  dims.tied_head = false;  // servers and the reference load lm_head whatever tie_word_embeddings says
  return dims;
}

Mamba2Dims read_mamba(const Json& config, const DecoderDims& dims) {
  const auto either = [&](const char* key, const char* older, int64_t fallback) {
    return read_size(config, find_member(config, older) ? older : key, fallback);
  };
  Mamba2Dims d{};
  d.hidden = dims.hidden;
  d.n_heads = read_size(config, "mamba_num_heads", 128);
  d.head_dim = read_size(config, "mamba_head_dim", 64);
  d.n_groups = either("n_groups", "mamba_n_groups", 8);
  d.n_state = read_size(config, "ssm_state_size", 128);
  d.conv_kernel = either("conv_kernel", "mamba_d_conv", 4);
  d.eps = dims.eps;
  d.conv_bias = get_bool_or(config, "mamba_conv_bias", get_bool_or(config, "use_conv_bias", true));
  d.in_bias = d.out_bias = read_bias(config, "use_bias");
  check_mamba2_dims(d);
  return d;
}

MoeDims read_moe(const Json& config, int64_t hidden) {
  MoeDims d{};
  d.hidden = hidden;
  d.n_experts = read_size(config, "n_routed_experts", 8);
  d.ffn = read_size(config, "moe_intermediate_size", 7688);
  const int64_t n_shared = get_int_or(config, "n_shared_experts", 1);
  if (n_shared < 0 || n_shared > 65536) fail("n_shared_experts is out of range");
  d.shared_ffn = n_shared * read_size(config, "moe_shared_expert_intermediate_size", 7688);
  if (find_member(config, "moe_latent_size")) d.latent = read_size(config, "moe_latent_size");
  d.act = Activation::Relu2;
  d.gated = false;
  d.logits = RouterLogits::F32;
  d.routing.k = get_int_or(config, "num_experts_per_tok", 2);
  d.routing.scoring = Scoring::Sigmoid;
  d.routing.renormalize = get_bool_or(config, "norm_topk_prob", true);
  d.routing.scale = read_factor(config, "routed_scaling_factor");
  d.routing.n_groups = get_int_or(config, "n_group", 1);
  d.routing.k_groups = get_int_or(config, "topk_group", 1);
  check_moe_dims(d);
  check_product("a latent projection", {d.hidden, d.latent});
  return d;
}

void refuse_variants(const Json& config) {
  if (get_string_or(config, "mlp_hidden_act", "relu2") != "relu2")
    fail("mlp_hidden_act is " + quoted(get_string_or(config, "mlp_hidden_act", "")) +
         "; this architecture is read with 'relu2' only");
  if (get_string_or(config, "mamba_hidden_act", "silu") != "silu")
    fail("mamba_hidden_act is " + quoted(get_string_or(config, "mamba_hidden_act", "")) +
         "; this architecture is read with 'silu' only");
  if (get_bool_or(config, "attention_bias", false)) fail("attention_bias: no checkpoint of this architecture has any");
}

class NemotronH final : public DecoderModel {
 public:
  NemotronH(const Json& config, const std::vector<LayerConfig>& layers) {
    refuse_variants(config);
    dims_ = read_dims(config, static_cast<int64_t>(layers.size()));
    final_eps_ = dims_.eps;
    mamba_ = read_mamba(config, dims_);
    mlp_bias_ = read_bias(config, "mlp_bias");
    spec_ = general_spec(config, dims_);
    spec_.default_prefix = "backbone.";
    spec_.embedding = "embeddings.weight";
    spec_.final_norm = "norm_f.weight";
    const auto is_mlp = [](const LayerConfig& layer) { return layer.word == "mlp"; };
    std::vector<int64_t> widths = read_widths(config, std::count_if(layers.begin(), layers.end(), is_mlp));
    std::reverse(widths.begin(), widths.end());
    const Json common = layer_sizes(config);
    for (const LayerConfig& layer : layers) {
      Json own = common;
      own.update(layer.own);
      if (is_mlp(layer)) {
        if (!layer.own.contains("intermediate_size")) own["intermediate_size"] = widths.back();
        widths.pop_back();
      }
      add_layer(layer.word, own);
    }
  }

 private:
  /// Of a layer's feed-forward: its width, or its experts.
  struct FeedForwardSizes {
    int64_t width = 0;
    MoeDims moe{};
  };

  void add_layer(const std::string& word, const Json& config) {
    sizes_.emplace_back();
    if (word == "full_attention")
      add_attention(find_member(config, "sliding_window") ? read_size(config, "sliding_window") : 0);
    else
      add_other(word, config, sizes_.back());
  }

  void add_attention(int64_t window) {
    DecoderDims alone = dims_;
    alone.ffn = 0;
    KvLayout& cache = add_attention_layer(spec_, alone, no_rope_, window);
    cache.name = "layers." + std::to_string(cache.layer) + ".mixer";
    spec_.layers.back().attention.module = cache.name + ".";
  }

  void add_other(const std::string& word, const Json& config, FeedForwardSizes& sizes) {
    MixerSize size;
    if (word == "linear_attention") size = Mamba2::size(mamba_);
    add_recurrent_layer(spec_, word == "linear_attention" ? LayerKind::Mamba2 : LayerKind::FeedForward, size, 0);
    LayerSpec& layer = spec_.layers.back();
    layer.activations -= 3 * dims_.hidden;  // one norm only
    if (word == "moe") {
      if (mlp_bias_ == Bias::Present) fail("mlp_bias with experts is not supported");
      sizes.moe = read_moe(config, dims_.hidden);
      count_moe_layer(layer, sizes.moe, 0);
    } else if (word == "mlp") {
      const int64_t width = sizes.width = read_size(config, "intermediate_size");
      layer.activations += 2 * width;
    }
  }

  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    const Norm norm = RmsNorms{loader, w, dims_.hidden, dims_.eps}("norm");
    WeightBinder module = w.at("mixer.");
    const auto& [width, moe] = sizes_[static_cast<size_t>(layer.index)];
    DecoderBlockParts parts;
    (layer.kind == LayerKind::FeedForward ? parts.before_ffn : parts.before_mixer) = norm;
    if (cache)
      parts.mixer =
          std::make_unique<SelfAttention>(dims_, *cache, no_rope_, AttentionForm{.module = "mixer"}, loader, w);
    else if (layer.kind == LayerKind::Mamba2)
      parts.mixer = std::make_unique<Mamba2>(mamba_, loader, module);
    else if (width > 0)
      parts.ffn =
          GluMlp(loader.load_mlp(projection(module, "up_proj", width, dims_.hidden, mlp_bias_),
                                 projection(module, "down_proj", dims_.hidden, width, mlp_bias_), Activation::Relu2));
    else
      parts.ffn = SparseMoe(moe, load_moe(moe, {.choice_bias = "gate.e_score_correction_bias"}, loader, module));
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  DecoderDims dims_{};
  RopeSpec no_rope_;
  Mamba2Dims mamba_{};
  Bias mlp_bias_ = Bias::None;
  std::vector<FeedForwardSizes> sizes_;  // by layer
};

}  // namespace

std::unique_ptr<Model> parse_nemotron_h(const Json& config) {
  return std::make_unique<NemotronH>(config, read_layers(config));
}
std::unique_ptr<Model> parse_nemotron_h_puzzle(const Json& config) {
  Json common = config;
  common.erase("block_configs");
  return std::make_unique<NemotronH>(common, read_block_configs(config));
}

}  // namespace kvcal
