// Qwen3NextForCausalLM: three gated delta nets to one gated attention; mixture of experts or dense feed-forward by
// layer. The delta net's projections are stored interleaved per key head and untangled while loading
// (docs/model-notes.md, "Gated delta rule").
#include <optional>

#include "model/archs/archs.h"
#include "model/decoders/hybrid_layers.h"
#include "model/layers/decoder_block.h"
#include "model/layers/gated_attention.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/sparse_moe.h"
#include "model/layers/weight_rows.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151936,
                                       .hidden = 2048,
                                       .ffn = 5632,
                                       .n_layers = 48,
                                       .n_heads = 16,
                                       .n_kv_heads = 2,
                                       .head_dim = 256,
                                       .max_positions = 32768};
constexpr RopeDefaults kRopeDefaults = {10000, 0.25};
constexpr MoeDefaults kMoeDefaults = {512, 10, 512, 512, true};
constexpr MoeNames kMoeNames = {.shared = "shared_expert."};

struct Qwen3NextConfig {
  DecoderDims dims;
  RopeSpec rope;
  DeltaNetDims delta;
  MoeDims moe;
  Bias bias;
  std::vector<bool> sparse;  // per layer: experts or dense
  MtpNames mtp;

  HybridDims hybrid() const { return {dims, rope, delta, bias, true}; }
};

// in_proj_qkvz: group g = [ q_g | k_g | v_g (r heads) | z_g (r heads) ]; in_proj_ba: group g = [ b_g (r) | a_g (r) ].
DeltaNetInputs load_interleaved_inputs(const DeltaNetDims& d, WeightLoader& loader, WeightBinder w) {
  const int64_t n = d.n_key_heads, r = d.n_value_heads / n, values = r * d.value_dim;
  const int64_t group = 2 * d.key_dim + 2 * values;
  const HostLinear qkvz = projection(w, "in_proj_qkvz", n * group, d.hidden);
  const HostLinear ba = projection(w, "in_proj_ba", 2 * d.n_value_heads, d.hidden);
  const RowsOfGroups qkv[] = {
      {n, group, 0, d.key_dim}, {n, group, d.key_dim, d.key_dim}, {n, group, 2 * d.key_dim, values}};
  const auto load = [&](const HostLinear& all, const auto& rows) {
    return loader.load_linear(select_rows(all.weight, rows).tensor(), {}, all.input);
  };
  return {{load(qkvz, qkv)},
          load(qkvz, RowsOfGroups{n, group, 2 * d.key_dim + values, values}),
          load(ba, RowsOfGroups{n, 2 * r, 0, r}),
          load(ba, RowsOfGroups{n, 2 * r, r, r})};
}

std::unique_ptr<Block> load_qwen3_next_block(const Qwen3NextConfig& c, const LayerSpec& layer, const KvLayout* cache,
                                             WeightLoader& loader, WeightBinder w) {
  const WeightBinder delta = w.at("linear_attn.");
  DecoderBlockParts parts = load_hybrid_norms(c.dims, loader, w);
  if (cache)
    parts.mixer = std::make_unique<GatedAttention>(c.dims, *cache, c.rope, c.bias, true, loader, w);
  else
    parts.mixer =
        std::make_unique<GatedDeltaNet>(c.delta, load_interleaved_inputs(c.delta, loader, delta), loader, delta);
  if (c.sparse[static_cast<size_t>(layer.index)])
    parts.ffn = SparseMoe(c.moe, load_moe(c.moe, kMoeNames, loader, w.at("mlp.")));
  else
    parts.ffn = GluMlp(loader, w.at("mlp."), c.dims.hidden, c.dims.ffn);
  return std::make_unique<DecoderBlock>(std::move(parts));
}

class Qwen3Next final : public Model {
 public:
  explicit Qwen3Next(const Json& config) {
    const Json& text = text_config(config);
    c_.dims = read_decoder_dims(config, kDefaults);
    c_.rope = read_rope(text, c_.dims.head_dim, kRopeDefaults);
    c_.delta = read_delta_net_dims(text, c_.dims.hidden, c_.dims.eps);
    c_.moe = read_qwen_moe_dims(text, c_.dims.hidden, kMoeDefaults);
    c_.bias = read_bias(text, "attention_bias");
    c_.sparse = read_sparse_layers(text, c_.dims.n_layers, c_.moe.n_experts);
    spec_ = general_spec(config, c_.dims);
    add_hybrid_layers(spec_, text, c_.hybrid());
    for (LayerSpec& layer : spec_.layers) count_feed_forward(layer);
    c_.mtp = read_hybrid_mtp(text);
    spec_.mtp_names = c_.mtp.begin;
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader&, WeightBinder& weights) const override {
    return load_token_embedding(spec_, weights);
  }
  std::unique_ptr<Block> load_block(int layer, WeightLoader& loader, WeightBinder& weights) const override {
    const LayerSpec& l = spec_.layers[static_cast<size_t>(layer)];
    const KvLayout* cache = l.cache < 0 ? nullptr : &spec_.caches[static_cast<size_t>(l.cache)];
    return load_qwen3_next_block(c_, l, cache, loader, weights.at("layers." + std::to_string(layer) + "."));
  }
  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    return load_output_head(spec_, Gain::OnePlus, c_.dims.eps, loader, weights, head);
  }

  void append_mtp_layer() override {
    c_.sparse.push_back(c_.sparse.front());  // servers count it as a model of its own, whose layer 0 it is
    add_hybrid_mtp_layer(spec_, c_.mtp, c_.hybrid());
    count_feed_forward(spec_.layers.back());
  }
  std::unique_ptr<Block> load_mtp_layer(WeightLoader& loader, WeightBinder& weights, WeightBinder& w) const override {
    return std::make_unique<MtpBlock>(
        load_mtp_input(spec_, c_.mtp, Gain::OnePlus, c_.dims.eps, loader, weights, w),
        load_qwen3_next_block(c_, spec_.layers.back(), &spec_.caches.back(), loader, w.at(c_.mtp.layer)));
  }

 private:
  void count_feed_forward(LayerSpec& layer) const {
    if (c_.sparse[static_cast<size_t>(layer.index)]) count_moe_layer(layer, c_.moe, c_.dims.ffn);
  }

  Qwen3NextConfig c_;
};

}  // namespace

std::unique_ptr<Model> parse_qwen3_next(const Json& config) { return std::make_unique<Qwen3Next>(config); }

}  // namespace kvcal
