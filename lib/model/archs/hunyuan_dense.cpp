// HunYuanDenseV1ForCausalLM: Llama whose q and k are normed by head after RoPE, so that no pair of channels bounds a
// key at other positions; rope of type dynamic with a fixed alpha.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 290943, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 2048, .eps = 1e-5};

class HunyuanDense final : public PlainDecoder {
 public:
  HunyuanDense(const Json& config, const DecoderDims& dims, const PlainForm& form)
      : PlainDecoder(config, dims, read_rope(text_config(config), dims.head_dim, {}), form,
                     std::vector<int64_t>(static_cast<size_t>(dims.n_layers), 0)) {
    // A weighted norm behind RoPE changes the length of a pair.
    for (KvLayout& cache : spec_.caches) cache.pair_bound = PairBound::None;
  }
};

}  // namespace

std::unique_ptr<Model> parse_hunyuan_dense(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json& text = text_config(config);
  if (get_bool_or(text, "use_cla", false)) fail("use_cla (layers that share keys and values) is not supported");
  if (!get_bool_or(text, "use_qk_norm", true)) fail("use_qk_norm is false; this class is read with norms of q and k");
  const Bias bias = read_bias(text, "attention_bias");
  return std::make_unique<HunyuanDense>(config, dims,
                                        PlainForm{.attention = {.qkv = bias,
                                                                .o = bias,
                                                                .norm = QkNorm::PerHeadAfterRope,
                                                                .q_norm = "query_layernorm",
                                                                .k_norm = "key_layernorm"}});
}

}  // namespace kvcal
