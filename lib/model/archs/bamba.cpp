// BambaForCausalLM: Mamba-2 layers, and attention with RoPE over half a head at attn_layer_indices; dense SwiGLU
// (docs/model-notes.md, "Mamba").
#include <algorithm>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/mamba2.h"
#include "model/layers/self_attention.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 128000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .max_positions = 262144,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {10000, 0.5};

std::vector<bool> read_attention_layers(const Json& config, int64_t n_layers) {
  std::vector<bool> attends(static_cast<size_t>(n_layers), false);
  const Json* list = find_member(config, "attn_layer_indices");
  if (!list) return attends;
  if (!list->is_array()) fail("attn_layer_indices is not a list");
  for (const Json& i : *list) {
    if (!i.is_number_integer() || i.get<int64_t>() < 0 || i.get<int64_t>() >= n_layers)
      fail("attn_layer_indices holds " + quoted(i.dump()) + ", expected layer numbers below " +
           std::to_string(n_layers));
    attends[i.get<size_t>()] = true;
  }
  return attends;
}

class Bamba final : public DecoderModel {
 public:
  explicit Bamba(const Json& config) : dims_(read_decoder_dims(config, kDefaults)) {
    final_eps_ = dims_.eps;
    rope_ = read_rope(config, dims_.head_dim, kRopeDefaults);
    // The reference rotates half of every head, whatever the file says; so a file that says otherwise is another model.
    if (const int64_t d = get_int_or(config, "attn_rotary_emb", rope_.rotary_dim);
        rope_.rotary_dim != dims_.head_dim / 2 || d != rope_.rotary_dim)
      fail("RoPE over " + std::to_string(std::max(d, rope_.rotary_dim)) + " of " + std::to_string(dims_.head_dim) +
           " dimensions of a head; this architecture rotates half of them");
    mamba_ = read_mamba2_dims(config, dims_.hidden, dims_.eps);
    const Bias bias = read_bias(config, "attention_bias");
    attention_ = {.qkv = bias, .o = bias};
    mlp_bias_ = read_bias(config, "mlp_bias");
    spec_ = general_spec(config, dims_);
    spec_.final_norm = "final_layernorm.weight";
    for (const bool attends : read_attention_layers(config, dims_.n_layers)) {
      if (attends) {
        add_attention_layer(spec_, dims_, rope_, 0);
      } else {
        add_recurrent_layer(spec_, LayerKind::Mamba2, Mamba2::size(mamba_), dims_.ffn);
      }
    }
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("pre_ff_layernorm")};
    if (cache)
      parts.mixer = std::make_unique<SelfAttention>(dims_, *cache, rope_, attention_, loader, w);
    else
      parts.mixer = std::make_unique<Mamba2>(mamba_, loader, w.at("mamba."));
    parts.ffn = GluMlp(loader, w.at("feed_forward."), dims_.hidden, dims_.ffn, mlp_bias_);
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  DecoderDims dims_;
  RopeSpec rope_;
  Mamba2Dims mamba_{};
  AttentionForm attention_;
  Bias mlp_bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_bamba(const Json& config) { return std::make_unique<Bamba>(config); }

}  // namespace kvcal
