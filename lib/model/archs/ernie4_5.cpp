// Ernie4_5ForCausalLM and Ernie4_5_MoeForCausalLM, and Ernie4_5_ForCausalLM, SGLang's name of the first: interleaved
// RoPE over whole heads, biases everywhere with use_bias. Experts are chosen by biased softmax scores and weighted by
// the unbiased ones over their sum, which counts as moe_norm_min at least. Cosines are rounded to the activation dtype
// as vLLM does; the reference framework keeps them in f32.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/decoders/nextn.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDenseDefaults = {.vocab = 103424,
                                            .hidden = 1024,
                                            .ffn = 3072,
                                            .n_layers = 18,
                                            .n_heads = 16,
                                            .n_kv_heads = 2,
                                            .head_dim = 128,
                                            .max_positions = 131072,
                                            .tied_head = true,
                                            .eps = 1e-5};
constexpr DecoderDefaults kMoeDefaults = {.vocab = 103424,
                                          .hidden = 2560,
                                          .ffn = 12288,
                                          .n_layers = 28,
                                          .n_heads = 20,
                                          .n_kv_heads = 4,
                                          .max_positions = 131072,
                                          .tied_head = true,
                                          .eps = 1e-5};
constexpr double kTheta = 500000;

RopeSpec read_interleaved_rope(const Json& text, int64_t head_dim) {
  RopeSpec rope = read_rope(text, head_dim, {kTheta});
  rope.interleaved = true;
  return rope;
}

// The bias of the choice is [1, n_experts] on disk.
MoeParts load(const MoeDims& d, WeightLoader& loader, WeightBinder layer) {
  const WeightBinder w = layer.at("mlp.");
  const char* name = "moe_statics.e_score_correction_bias";
  const std::string bias = w.has(name) ? name : "gate." + std::string(name);
  MoeParts parts = load_moe(d, {}, loader, w);
  parts.choice_bias = loader.load_f32(w.uncounted(bias, {1, d.n_experts}).reshaped({d.n_experts}));
  return parts;
}

MoeDims read_moe(const Json& text, int64_t hidden) {
  MoeDims d{};
  d.hidden = hidden;
  d.n_experts = get_int_or(text, "moe_num_experts", 64);
  d.ffn = read_size(text, "moe_intermediate_size", 1536);
  const int64_t shared = get_int_or(text, "moe_num_shared_experts", 2);
  if (shared < 0 || shared > 65536) fail("moe_num_shared_experts is " + std::to_string(shared));
  d.shared_ffn = d.ffn * shared;
  d.routing.k = get_int_or(text, "moe_k", 6);
  d.routing.renormalize = true;
  d.logits = RouterLogits::F32;
  d.routing.least_sum = static_cast<float>(get_number_or(text, "moe_norm_min", 1e-12));
  check_moe_dims(d, "moe_k");
  return d;
}

}  // namespace

std::unique_ptr<Model> parse_ernie4_5(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDenseDefaults);
  const Json& text = text_config(config);
  const Bias bias = read_bias(text, "use_bias");
  const std::vector<int64_t> windows(static_cast<size_t>(dims.n_layers), 0);
  return std::make_unique<PlainDecoder>(config, dims, read_interleaved_rope(text, dims.head_dim),
                                        PlainForm{{bias, bias}, bias}, windows);
}

// SGLang gives biases to its attention alone, and experts to layers from moe_layer_start_index on.
std::unique_ptr<Model> parse_ernie4_5_first(const Json& config) {
  if (get_bool_or(config, "use_bias", false)) fail("use_bias is true; this class is read without biases");
  if (find_member(config, "moe_layer_start_index"))
    fail("moe_layer_start_index is given; experts are read in Ernie4_5_MoeForCausalLM");
  return parse_ernie4_5(config);
}

std::unique_ptr<Model> parse_ernie4_5_moe(const Json& config) {
  const Json& text = text_config(config);
  if (get_bool_or(text, "use_bias", false)) fail("use_bias is not supported in a mixture of experts");
  if (!get_bool_or(text, "moe_use_aux_free", true)) fail("moe_use_aux_free false is not supported");
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kMoeDefaults);
  c.rope = read_interleaved_rope(text, c.dims.head_dim);
  c.moe = read_moe(text, c.dims.hidden);
  c.load = load;
  make_uniform(c);
  const int64_t first = get_int_or(text, "moe_layer_start_index", 1), end = get_int_or(text, "moe_layer_end_index", -1);
  const int64_t last = end == -1 ? c.dims.n_layers - 1 : end, interval = read_size(text, "moe_layer_interval", 1);
  for (int64_t i = 0; i < c.dims.n_layers; ++i)
    c.sparse[static_cast<size_t>(i)] = i >= first && i <= last && (i + 1) % interval == 0;
  if (has_one_nextn(text)) c.mtp = {"mtp_", "block.0.", "linear_proj.0", "emb_norm.0", "hidden_norm.0"};
  c.mtp_is_sparse = false;
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
