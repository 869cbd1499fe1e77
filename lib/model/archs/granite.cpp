// GraniteForCausalLM: Granite 3 dense. Llama with four multipliers: of the embeddings, of the logits q·k (in place of
// D^-1/2), of both branches before they join the residual stream, and a divisor of the output logits.
#include "model/archs/archs.h"
#include "model/archs/granite_keys.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/multipliers.h"
#include "model/rope.h"

namespace kvcal {
namespace {

class Granite final : public PlainDecoder {
 public:
  Granite(const Json& config, const DecoderDims& dims, const PlainForm& form, const Multipliers& multipliers)
      : PlainDecoder(config, dims, read_rope(text_config(config), dims.head_dim, {}), form,
                     std::vector<int64_t>(static_cast<size_t>(dims.n_layers), 0)) {
    embedding_factor_ = multipliers.embedding;
    logits_.factor = multipliers.logits;
    for (KvLayout& cache : spec_.caches) cache.softmax_scale = multipliers.attention;
    for (LayerSpec& layer : spec_.layers) layer.activations += 2 * dims_.hidden;  // the scaled branches
  }
};

}  // namespace

std::unique_ptr<Model> parse_granite(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kGraniteDefaults);
  const Json& text = text_config(config);
  refuse_swa_keys(text);
  const Bias attention = read_bias(text, "attention_bias"), mlp = read_bias(text, "mlp_bias");
  const Multipliers multipliers = read_multipliers(text);
  const PlainForm form{.attention = {.qkv = attention, .o = attention}, .mlp = mlp, .factor = multipliers.residual};
  return std::make_unique<Granite>(config, dims, form, multipliers);
}

}  // namespace kvcal
