// GptOssForCausalLM: biases everywhere, a sink for each head, every second layer with a window, yarn without
// truncation; experts with a clamped activation whose gate and up rows take turns. On disk experts are MXFP4 blocks of
// [E, out, in], or BF16 and then transposed. Choosing the best logits and the softmax over them alone is the softmax
// over all, renormalized.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/layers/weight_rows.h"
#include "model/rope.h"
#include "tensor/encoded_weight.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 201088,
                                       .hidden = 2880,
                                       .ffn = 2880,
                                       .n_layers = 36,
                                       .n_heads = 64,
                                       .n_kv_heads = 8,
                                       .head_dim = 64,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr double kTheta = 150000;
constexpr int64_t kDefaultExperts = 128, kDefaultActive = 4, kDefaultWindow = 128;

// Gate or up of one expert: every second row of weight [2·ffn, hidden] and bias [2·ffn].
struct EverySecondRow {
  Storage weight, bias;
  InputRounding input;

  EverySecondRow(const HostLinear& both, const Tensor& biases, int64_t first) : input(both.input) {
    const RowsOfGroups rows{biases.dim(0) / 2, 2, first, 1};
    weight = select_rows(both.weight, rows);
    bias = select_rows(biases, rows);
  }
  HostLinear linear() const { return {weight.tensor(), bias.tensor(), input}; }
};

MoeParts load(const MoeDims& d, WeightLoader& loader, WeightBinder layer) {
  const WeightBinder w = layer.at("mlp."), experts = w.at("experts.");
  auto [gate_up, down] = load_fused_weights(experts, {"gate_up_proj", {d.n_experts, 2 * d.ffn, d.hidden}},
                                            {"down_proj", {d.n_experts, d.hidden, d.ffn}}, true);
  const Tensor gate_up_bias = experts("gate_up_proj_bias", {d.n_experts, 2 * d.ffn});
  const Tensor down_bias = experts("down_proj_bias", {d.n_experts, d.hidden});
  MoeParts parts;
  WeightBinder router = w;
  parts.router = load_projection(loader, router, "router", d.n_experts, d.hidden, Bias::Present);
  // Where weights are counted, those of all experts have been by now.
  const int64_t n_loaded = is_of_no_weight(down_bias) ? 1 : d.n_experts;
  for (int64_t e = 0; e < n_loaded; ++e) {
    const HostLinear both = gate_up.linear(e);
    const Tensor biases = gate_up_bias.rows(e, 1).reshaped({2 * d.ffn});
    const EverySecondRow gate(both, biases, 0), up(both, biases, 1);
    HostLinear out = down.linear(e);
    out.bias = down_bias.rows(e, 1).reshaped({d.hidden});
    parts.experts.push_back(loader.load_glu(gate.linear(), up.linear(), out, Activation::Clamped));
  }
  return parts;
}

void require_the_known_activation(const Json& text) {
  constexpr double kAlpha = 1.702, kLimit = 7;
  if (get_number_or(text, "swiglu_alpha", kAlpha) != kAlpha || get_number_or(text, "swiglu_limit", kLimit) != kLimit)
    fail("swiglu_alpha and swiglu_limit are read as 1.702 and 7 only");
}

RopeSpec read_rope_of_gpt_oss(const Json& text, int64_t head_dim) {
  if (find_member(text, "rope_parameters") || find_member(text, "rope_scaling"))
    return read_rope(text, head_dim, {kTheta});
  Json filled = text;  // the class's default
  filled["rope_parameters"] = {
      {"rope_type", "yarn"}, {"factor", 32.0}, {"truncate", false}, {"original_max_position_embeddings", 4096}};
  return read_rope(filled, head_dim, {kTheta});
}

std::vector<int64_t> read_windows_of_gpt_oss(const Json& text, int64_t n_layers) {
  const auto types = read_layer_types(text, n_layers, {"full_attention", "sliding_attention"});
  const bool none = text.contains("sliding_window") && text["sliding_window"].is_null();
  const int64_t window = none ? 0 : read_size(text, "sliding_window", kDefaultWindow);
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < n_layers; ++i) {
    const bool slides = types ? (*types)[static_cast<size_t>(i)] == "sliding_attention" : i % 2 == 0;
    if (slides && none) fail("layer " + std::to_string(i) + " slides, but sliding_window is null");
    windows.push_back(slides ? window : 0);
  }
  return windows;
}

}  // namespace

std::unique_ptr<Model> parse_gpt_oss(const Json& config) {
  const Json& text = text_config(config);
  require_the_known_activation(text);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope_of_gpt_oss(text, c.dims.head_dim);
  c.attention.qkv = c.attention.o = read_bias(text, "attention_bias", true);
  c.attention.sinks = true;
  c.moe.hidden = c.dims.hidden;
  c.moe.n_experts = get_int_or(text, "num_local_experts", get_int_or(text, "num_experts", kDefaultExperts));
  c.moe.ffn = c.dims.ffn;
  c.moe.act = Activation::Clamped;
  const int64_t active = get_int_or(text, "experts_per_token", kDefaultActive);  // an older name
  c.moe.routing = {.k = get_int_or(text, "num_experts_per_tok", active), .renormalize = true};
  check_moe_dims(c.moe);
  c.load = load;
  make_uniform(c);
  c.windows = read_windows_of_gpt_oss(text, c.dims.n_layers);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
