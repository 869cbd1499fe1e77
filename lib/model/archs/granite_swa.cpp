// GraniteSWAForCausalLM and GraniteMoeSWAForCausalLM: Granite's layers, dense or with experts, whose heads all have
// sinks, three of four with a window; each layer has a RoPE base of its own, of which 0 rotates nothing.
//
// vLLM reads the sinks by a key attention_sinks, which is on where it is absent; SGLang and the reference know no such
// key. SGLang passes over biases.
#include <cmath>

#include "model/archs/archs.h"
#include "model/archs/granite_keys.h"
#include "model/decoders/moe_decoder.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDense = {.vocab = 100352,
                                    .hidden = 2560,
                                    .ffn = 8192,
                                    .n_layers = 24,
                                    .n_heads = 20,
                                    .n_kv_heads = 4,
                                    .max_positions = 8192,
                                    .tied_head = true,
                                    .eps = 1e-5};
constexpr int64_t kDefaultWindow = 128;
constexpr size_t kDefaultPeriod = 4;

void require_sinks(const Json& text) {
  if (!get_bool_or(text, "attention_sinks", true))
    fail("attention_sinks is false: vLLM alone leaves the sinks of this class out then");
}

/// By layer_types, else the first of every four layers sees all.
std::vector<int64_t> read_swa_windows(const Json& text, int64_t n_layers) {
  std::vector<int64_t> windows = read_windows(text, n_layers, kDefaultWindow);
  if (find_member(text, "layer_types")) return windows;
  if (text.contains("sliding_window") && text["sliding_window"].is_null())
    fail("sliding_window is null, though three of four layers have a window where layer_types is missing");
  for (size_t i = 0; i < windows.size(); i += kDefaultPeriod) windows[i] = 0;
  return windows;
}

/// RoPE of a layer with this base; the config's other parameters hold for all of them.
RopeSpec rope_of_base(const Json& text, int64_t head_dim, double theta) {
  if (theta == 0) return {};
  Json own = text;
  for (const char* table : {"rope_parameters", "rope_scaling"})
    if (find_member(own, table) && own[table].contains("rope_theta")) own[table]["rope_theta"] = theta;
  own["rope_theta"] = theta;
  return read_rope(own, head_dim, {});
}

std::vector<RopeSpec> read_ropes(const Json& text, const DecoderDims& dims) {
  const Json* bases = find_member(text, "layer_rope_theta");
  if (!bases) return std::vector<RopeSpec>(static_cast<size_t>(dims.n_layers), read_rope(text, dims.head_dim, {}));
  if (!bases->is_array()) fail("layer_rope_theta is " + quoted(bases->dump()) + ", expected a list");
  if (static_cast<int64_t>(bases->size()) != dims.n_layers)
    fail("layer_rope_theta has " + std::to_string(bases->size()) + " entries, expected " +
         std::to_string(dims.n_layers) + " (num_hidden_layers)");
  std::vector<RopeSpec> ropes;
  for (const Json& base : *bases) {
    if (!base.is_number() || !(base.get<double>() >= 0) || !std::isfinite(base.get<double>()))
      fail("layer_rope_theta holds " + quoted(base.dump()) + ", expected bases, or 0 for layers that do not rotate");
    ropes.push_back(
        while_doing("layer_rope_theta", [&] { return rope_of_base(text, dims.head_dim, base.get<double>()); }));
  }
  return ropes;
}

class GraniteSwa final : public AttentionModel {
 public:
  GraniteSwa(const Json& config, const DecoderDims& dims)
      : AttentionModel(config, dims), multipliers_(read_multipliers(text_config(config))) {
    const Json& text = text_config(config);
    require_sinks(text);
    ropes_ = read_ropes(text, dims);
    const Bias bias = read_bias(text, "attention_bias");
    attention_ = {.qkv = bias, .o = bias, .sinks = true};
    mlp_bias_ = read_bias(text, "mlp_bias");
    embedding_factor_ = multipliers_.embedding;
    logits_.factor = multipliers_.logits;
    const std::vector<int64_t> windows = read_swa_windows(text, dims.n_layers);
    for (size_t i = 0; i < windows.size(); ++i) {
      KvLayout& cache = add_attention_layer(spec_, dims_, ropes_[i], windows[i]);
      cache.learned_sinks = true;
      cache.softmax_scale = multipliers_.attention;
      spec_.layers.back().activations += 2 * dims_.hidden;  // the scaled branches
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
    const RopeSpec& rope = ropes_[static_cast<size_t>(cache.layer)];
    parts.mixer = std::make_unique<SelfAttention>(dims_, cache, rope, attention_, loader, w);
    parts.ffn = GluMlp(loader, w.at("mlp."), dims_.hidden, dims_.ffn, mlp_bias_);
    parts.factor = multipliers_.residual;
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  std::vector<RopeSpec> ropes_;  // by layer, of no dimension = none
  AttentionForm attention_;
  Bias mlp_bias_ = Bias::None;
  Multipliers multipliers_;
};

}  // namespace

void refuse_swa_keys(const Json& text) {
  if (find_member(text, "layer_rope_theta") || get_bool_or(text, "attention_sinks", false))
    fail("layer_rope_theta and attention_sinks are of GraniteSWAForCausalLM and GraniteMoeSWAForCausalLM");
}

std::unique_ptr<Model> parse_granite_swa(const Json& config) {
  return std::make_unique<GraniteSwa>(config, read_decoder_dims(config, kDense));
}

std::unique_ptr<Model> parse_granite_moe_swa(const Json& config) {
  const Json& text = text_config(config);
  require_sinks(text);
  MoeDecoderConfig c = read_granite_moe(text, read_decoder_dims(config, kGraniteDefaults), SharedExperts::Read);
  c.attention.sinks = true;
  c.ropes = read_ropes(text, c.dims);
  c.windows = read_swa_windows(text, c.dims.n_layers);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
