// Gemma3nForCausalLM and the text part of Gemma3nForConditionalGeneration: layers of one shape on one of several
// streams (AltUp), the last of them without caches of their own, embeddings by layer (docs/model-notes.md, "Gemma 3n").
// altup_coef_clip is of training alone.
#include <algorithm>
#include <cmath>

#include "model/archs/archs.h"
#include "model/decoders/gemma3n_block.h"
#include "model/layers/gemma_parts.h"
#include "model/layers/mixer.h"
#include "model/layers/sharing_attention.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 262400,
                                       .hidden = 2048,
                                       .ffn = 16384,
                                       .n_layers = 35,
                                       .n_heads = 8,
                                       .n_kv_heads = 2,
                                       .head_dim = 256,
                                       .max_positions = 32768,
                                       .tied_head = true,
                                       .act = Activation::GeluTanh,
                                       .act_key = "hidden_activation"};
constexpr int64_t kDefaultWindow = 512, kDefaultPeriod = 5, kDefaultShared = 15, kDefaultLaurelRank = 64,
                  kDefaultStreams = 4, kDefaultPerLayerDim = 256, kDefaultPerLayerVocab = 262144;
constexpr double kDefaultLogitsCap = 30;

const Json& layer_list(const Json& list, const char* key, int64_t n_layers) {
  if (!list.is_array() || static_cast<int64_t>(list.size()) != n_layers)
    fail(std::string(key) + " is not a list with a number for each of " + std::to_string(n_layers) + " layers");
  return list;
}

/// intermediate_size: one for all layers, or a list.
std::vector<int64_t> read_widths(const Json& text, int64_t n_layers) {
  constexpr const char* kKey = "intermediate_size";
  const Json* given = find_member(text, kKey);
  if (!given || !given->is_array())
    return std::vector<int64_t>(static_cast<size_t>(n_layers), read_size(text, kKey, kDefaults.ffn));
  std::vector<int64_t> widths;
  for (const Json& width : layer_list(*given, kKey, n_layers)) widths.push_back(read_size({{kKey, width}}, kKey));
  return widths;
}

std::vector<float> read_sparsity(const Json& text, int64_t n_layers) {
  constexpr const char* kKey = "activation_sparsity_pattern";
  constexpr int64_t kSparseByDefault = 10;
  std::vector<float> shares(static_cast<size_t>(n_layers), 0.0f);
  const Json* given = find_member(text, kKey);
  if (!given) {
    if (n_layers > kSparseByDefault) std::fill_n(shares.begin(), kSparseByDefault, 0.95f);
    return shares;
  }
  for (size_t i = 0; const Json& share : layer_list(*given, kKey, n_layers)) {
    const double value = share.is_number() ? share.get<double>() : -1;
    if (!(value >= 0) || !(static_cast<float>(value) < 1))
      fail("activation_sparsity_pattern holds " + share.dump() + ", expected shares from 0 to below 1");
    shares[i++] = static_cast<float>(value);
  }
  return shares;
}

AltUpShape read_streams(const Json& text, const DecoderDims& dims) {
  constexpr int64_t kMostStreams = 16;  // what activations count is enough for
  AltUpShape s{dims.hidden, read_size(text, "altup_num_inputs", kDefaultStreams), 0, dims.eps};
  expect_size("altup_num_inputs", s.n_streams <= kMostStreams, s.n_streams, "at most " + std::to_string(kMostStreams));
  s.active = read_optional_size(text, "altup_active_idx", 0);
  expect_size("altup_active_idx", s.active < s.n_streams, s.active, "less than altup_num_inputs");
  check_product("the residual stream's projections", {s.n_streams, dims.hidden, dims.hidden});
  return s;
}

class Gemma3n final : public Model {
 public:
  explicit Gemma3n(const Json& config) {
    const Json& text = text_config(config);
    refuse_bidirectional(text);
    read_sizes(config, text);
    c_.bias = read_bias(text, "attention_bias");
    c_.full_rope = read_rope_by_kind(text, c_.dims.head_dim, false);
    c_.sliding_rope = read_rope_by_kind(text, c_.dims.head_dim, true);
    logits_end_.cap = read_cap(text, "final_logit_softcapping", kDefaultLogitsCap);
    spec_ = general_spec(config, c_.dims);
    spec_.n_streams = c_.streams.n_streams;
    spec_.table_parameters = c_.per_layer_vocab * c_.per_layer_dim * c_.dims.n_layers + 2 * spec_.stream_parameters();
    spec_.merging_module = kMergingModule;
    spec_.head_activations = merging_activations(c_.streams);
    add_layers(text);
    if (find_member(config, "text_config")) spec_.default_prefix = "model.language_model.";
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader& loader, WeightBinder& weights) const override {
    const float factor = in_activation_type(loader, std::sqrt(static_cast<float>(spec_.hidden)));
    return load_spread_embedding(c_.streams, load_token_embedding(spec_, weights, factor), loader, weights);
  }
  std::unique_ptr<Block> load_block(int layer, WeightLoader& loader, WeightBinder& weights) const override {
    const LayerSpec& l = spec_.layers[static_cast<size_t>(layer)];
    const int cache = l.cache >= 0 ? l.cache : l.shares_cache;
    return load_gemma3n_block(c_, layers_[static_cast<size_t>(layer)], spec_.caches[static_cast<size_t>(cache)], loader,
                              weights);
  }
  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    const Norm norm{Norm::Kind::Rms, c_.dims.eps, loader.load_f32(weights("norm.weight", {spec_.hidden})), {}};
    return load_merging_head(c_.streams, load_output_head(spec_, norm, logits_end_, loader, weights, head), loader,
                             weights);
  }

 private:
  void read_sizes(const Json& config, const Json& text) {
    Json plain = config;
    (find_member(config, "text_config") ? plain["text_config"] : plain).erase("intermediate_size");
    c_.dims = read_decoder_dims(plain, kDefaults);
    widths_ = read_widths(text, c_.dims.n_layers);
    c_.dims.ffn = *std::max_element(widths_.begin(), widths_.end());
    c_.streams = read_streams(text, c_.dims);
    c_.scales_corrected = get_bool_or(text, "altup_correct_scale", true);
    c_.laurel_rank = read_size(text, "laurel_rank", kDefaultLaurelRank);
    c_.per_layer_dim = read_size(text, "hidden_size_per_layer_input", kDefaultPerLayerDim);
    c_.per_layer_vocab = read_size(text, "vocab_size_per_layer_input", kDefaultPerLayerVocab);
    expect_size("vocab_size_per_layer_input", c_.per_layer_vocab * c_.dims.n_layers < int64_t{1} << 31,
                c_.per_layer_vocab, "rows for all layers together below 2^31");
    check_product("an embedding by layer", {c_.per_layer_vocab, c_.dims.n_layers, c_.per_layer_dim});
  }

  void add_layers(const Json& text) {
    const std::vector<int64_t> windows = read_periodic_windows(
        text, c_.dims.n_layers, read_size(text, "sliding_window", kDefaultWindow), kDefaultPeriod);
    const std::vector<float> sparsity = read_sparsity(text, c_.dims.n_layers);
    std::vector<bool> full;
    for (const int64_t window : windows) full.push_back(window == 0);
    const std::vector<int> owners = read_cache_owners(text, full, kDefaultShared);
    for (size_t i = 0; i < owners.size(); ++i) {
      const bool shared = std::count(owners.begin(), owners.end(), owners[i]) > 1 && owners[i] == static_cast<int>(i);
      layers_.push_back({static_cast<int>(i), full[i], owners[i], shared, widths_[i], sparsity[i]});
      add_layer(layers_.back(), windows[i]);
    }
  }

  void add_layer(const Gemma3nLayer& l, int64_t window) {
    DecoderDims dims = c_.dims;
    dims.ffn = l.ffn;
    KvLayout& cache = add_attention_layer(spec_, dims, l.full ? c_.full_rope : c_.sliding_rope, window);
    cache.softmax_scale = 1;
    cache.normed_output = true;
    LayerSpec& added = spec_.layers.back();
    added.attention.norm = HeadNorm::Gain;
    added.attention.value_normed = true;
    added.activations += gemma3n_extra_activations(c_, l);
    if (l.owner != l.index) share_cache(spec_, l.owner);
  }

  Gemma3nConfig c_;
  std::vector<int64_t> widths_;  // of the feed-forwards, by layer
  std::vector<Gemma3nLayer> layers_;
  LogitsEnd logits_end_;
};

}  // namespace

std::unique_ptr<Model> parse_gemma3n(const Json& config) { return std::make_unique<Gemma3n>(config); }

}  // namespace kvcal
