// ExaoneForCausalLM (EXAONE 3, 3.5 and Deep): Llama under other names, of config keys as of tensors.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 102400,
                                       .hidden = 2048,
                                       .ffn = 0,  // 4 hidden
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .max_positions = 2048,
                                       .act_key = "activation_function",
                                       .eps_key = "layer_norm_epsilon",
                                       .eps = 1e-5};

Json usual_config(const Json& config) { return with_usual_keys(config, {{"num_layers", "num_hidden_layers"}}); }

DecoderDims read_dims(const Json& config) {
  DecoderDefaults defaults = kDefaults;
  defaults.ffn = 4 * read_size(config, "hidden_size", kDefaults.hidden);
  return read_decoder_dims(config, defaults);
}

class Exaone final : public AttentionModel {
 public:
  explicit Exaone(const Json& config) : AttentionModel(config, read_dims(config)) {
    for (const char* bias : {"attention_bias", "bias", "mlp_bias"})
      if (get_bool_or(config, bias, false)) fail(std::string(bias) + " is not supported for ExaoneForCausalLM");
    rope_ = read_rope(config, dims_.head_dim, {});
    spec_.default_prefix = "transformer.";
    spec_.layer_prefix = "h.";
    spec_.embedding = "wte.weight";
    spec_.final_norm = "ln_f.weight";
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      KvLayout& cache = add_attention_layer(spec_, dims_, rope_, 0);
      cache.name = spec_.names_of(i) + "attn.attention";
      spec_.layers.back().attention.module = cache.name + ".";
      spec_.layers.back().attention.output = "out_proj";
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    const RmsNorms norm{loader, w, d.hidden, d.eps};
    DecoderBlockParts parts{.before_mixer = norm("ln_1"), .before_ffn = norm("ln_2")};
    parts.mixer = std::make_unique<SelfAttention>(
        d, cache, rope_, AttentionForm{.module = "attn.attention", .output = "out_proj"}, loader, w);
    parts.ffn = GluMlp(loader.load_glu(projection(w, "mlp.c_fc_0", d.ffn, d.hidden),
                                       projection(w, "mlp.c_fc_1", d.ffn, d.hidden),
                                       projection(w, "mlp.c_proj", d.hidden, d.ffn)));
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  RopeSpec rope_;
};

}  // namespace

std::unique_ptr<Model> parse_exaone(const Json& config) { return std::make_unique<Exaone>(usual_config(config)); }

}  // namespace kvcal
