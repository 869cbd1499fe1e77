// Qwen3_5ForCausalLM and Qwen3_5ForConditionalGeneration (text part), and their Moe classes: three gated delta nets to
// one gated attention, (1 + w) norms everywhere but inside the delta net; SwiGLU, or in every layer a mixture of
// experts (docs/model-notes.md, "Gated delta rule"). InternS2PreviewForConditionalGeneration is to servers the
// multimodal one with experts, with a tower for time series beside that for images.
#include <optional>
#include <vector>

#include "model/archs/archs.h"
#include "model/decoders/hybrid_layers.h"
#include "model/layers/decoder_block.h"
#include "model/layers/gated_attention.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 248320,
                                       .hidden = 4096,
                                       .ffn = 12288,
                                       .n_layers = 32,
                                       .n_heads = 16,
                                       .n_kv_heads = 4,
                                       .head_dim = 256,
                                       .max_positions = 32768};
constexpr DecoderDefaults kMoeDecoderDefaults = {.vocab = 248320,
                                                 .hidden = 2048,
                                                 .ffn = 1,
                                                 .n_layers = 40,
                                                 .n_heads = 16,
                                                 .n_kv_heads = 2,
                                                 .head_dim = 256,
                                                 .max_positions = 32768};  // has no dense width
constexpr MoeDefaults kMoeDefaults = {256, 8, 512, 512, true};
constexpr MoeNames kMoeNames = {.shared = "shared_expert."};
constexpr RopeDefaults kRopeDefaults = {10000, 0.25};

struct Qwen35Config {
  DecoderDims dims;
  RopeSpec rope;
  DeltaNetDims delta;
  Bias bias;
  bool output_gate;
  std::optional<MoeDims> moe;
  MtpNames mtp;

  HybridDims hybrid() const { return {dims, rope, delta, bias, output_gate}; }
};

DeltaNetInputs load_inputs(const DeltaNetDims& d, WeightLoader& loader, WeightBinder w) {
  DeltaNetInputs in = {{load_projection(loader, w, "in_proj_qkv", d.channels(), d.hidden)},
                       load_projection(loader, w, "in_proj_z", d.values(), d.hidden),
                       load_projection(loader, w, "in_proj_b", d.n_value_heads, d.hidden),
                       load_projection(loader, w, "in_proj_a", d.n_value_heads, d.hidden)};
  share_input(in.qkv.front(), in.z);
  share_input(in.b, in.a);
  return in;
}

std::unique_ptr<Block> load_qwen3_5_block(const Qwen35Config& c, const KvLayout* cache, WeightLoader& loader,
                                          WeightBinder w) {
  const WeightBinder delta = w.at("linear_attn.");
  DecoderBlockParts parts = load_hybrid_norms(c.dims, loader, w);
  if (cache)
    parts.mixer = std::make_unique<GatedAttention>(c.dims, *cache, c.rope, c.bias, c.output_gate, loader, w);
  else
    parts.mixer = std::make_unique<GatedDeltaNet>(c.delta, load_inputs(c.delta, loader, delta), loader, delta);
  if (c.moe)
    parts.ffn = SparseMoe(*c.moe, load_moe(*c.moe, kMoeNames, loader, w.at("mlp.")));
  else
    parts.ffn = GluMlp(loader, w.at("mlp."), c.dims.hidden, c.dims.ffn);
  return std::make_unique<DecoderBlock>(std::move(parts));
}

class Qwen35 final : public Model {
 public:
  Qwen35(const Json& config, bool sparse) {
    const Json& text = text_config(config);
    if (get_bool_or(text, "layer_scale", false)) fail("layer_scale is not supported");
    c_.dims = read_decoder_dims(config, sparse ? kMoeDecoderDefaults : kDefaults);
    c_.rope = read_rope(with_mrope_sections(text, {11, 11, 10}, true), c_.dims.head_dim, kRopeDefaults);
    c_.delta = read_delta_net_dims(text, c_.dims.hidden, c_.dims.eps);
    c_.bias = read_bias(text, "attention_bias");
    c_.output_gate = get_bool_or(text, "attn_output_gate", true);
    spec_ = general_spec(config, c_.dims);
    add_hybrid_layers(spec_, text, c_.hybrid());
    if (sparse) c_.moe = read_qwen_moe_dims(text, c_.dims.hidden, kMoeDefaults);
    if (sparse && c_.moe->n_experts == 0) fail("num_experts is 0 in a mixture of experts");
    for (LayerSpec& layer : spec_.layers) count_feed_forward(layer);
    c_.mtp = read_hybrid_mtp(text);
    spec_.mtp_names = c_.mtp.begin;
    if (find_member(config, "text_config")) spec_.default_prefix = "model.language_model.";
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader&, WeightBinder& weights) const override {
    return load_token_embedding(spec_, weights);
  }
  std::unique_ptr<Block> load_block(int layer, WeightLoader& loader, WeightBinder& weights) const override {
    const LayerSpec& l = spec_.layers[static_cast<size_t>(layer)];
    const KvLayout* cache = l.cache < 0 ? nullptr : &spec_.caches[static_cast<size_t>(l.cache)];
    return load_qwen3_5_block(c_, cache, loader, weights.at("layers." + std::to_string(layer) + "."));
  }
  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    return load_output_head(spec_, Gain::OnePlus, c_.dims.eps, loader, weights, head);
  }

  void append_mtp_layer() override {
    add_hybrid_mtp_layer(spec_, c_.mtp, c_.hybrid());
    count_feed_forward(spec_.layers.back());
  }
  std::unique_ptr<Block> load_mtp_layer(WeightLoader& loader, WeightBinder& weights, WeightBinder& w) const override {
    return std::make_unique<MtpBlock>(load_mtp_input(spec_, c_.mtp, Gain::OnePlus, c_.dims.eps, loader, weights, w),
                                      load_qwen3_5_block(c_, &spec_.caches.back(), loader, w.at(c_.mtp.layer)));
  }

 private:
  void count_feed_forward(LayerSpec& layer) const {
    if (c_.moe) count_moe_layer(layer, *c_.moe, c_.dims.ffn);
  }

  Qwen35Config c_;
};

}  // namespace

std::unique_ptr<Model> parse_qwen3_5(const Json& config) { return std::make_unique<Qwen35>(config, false); }
std::unique_ptr<Model> parse_qwen3_5_moe(const Json& config) { return std::make_unique<Qwen35>(config, true); }

std::unique_ptr<Model> parse_intern_s2(const Json& config) {
  if (!find_member(config, "text_config")) fail("there is no text_config");
  const std::vector<std::string> known = {"qwen3_5_moe_text"};
  const std::string type = get_string_or(text_config(config), "model_type", known[0]);
  if (type != known[0]) fail_unknown("model_type of text_config", type, known);
  return parse_qwen3_5_moe(config);
}

}  // namespace kvcal
