// JambaForCausalLM: Mamba-1 with norms on Δ, B and C; attention without RoPE; every other layer a mixture whose weights
// are not renormalized (docs/model-notes.md, "Mamba").
#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/mamba.h"
#include "model/layers/self_attention.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 65536,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .max_positions = 262144};

struct Period {
  int64_t period, offset;

  Period(const Json& config, const std::string& what, int64_t default_period, int64_t default_offset)
      : period(read_size(config, (what + "_period").c_str(), default_period)),
        offset(get_int_or(config, (what + "_offset").c_str(), default_offset)) {
    if (offset < 0 || offset >= period)
      fail(what + "_offset " + std::to_string(offset) + " is not below " + what + "_period " + std::to_string(period));
  }
  bool has(int64_t layer) const { return layer % period == offset; }
};

MambaDims read_mamba(const Json& config, const DecoderDims& dims) {
  MambaDims d{};
  d.hidden = dims.hidden;
  d.inner = read_size(config, "mamba_expand", 2) * dims.hidden;
  d.n_state = read_size(config, "mamba_d_state", 16);
  const Json* rank = find_member(config, "mamba_dt_rank");
  const bool automatic = !rank || (rank->is_string() && *rank == "auto");
  d.rank = automatic ? (dims.hidden + 15) / 16 : read_size(config, "mamba_dt_rank");
  d.conv_kernel = read_size(config, "mamba_d_conv", 4);
  d.eps = dims.eps;
  d.conv_bias = get_bool_or(config, "mamba_conv_bias", true);
  d.bias = read_bias(config, "mamba_proj_bias");
  check_mamba_dims(d);
  return d;
}

MoeDims read_moe(const Json& config, const DecoderDims& dims) {
  MoeDims d{};
  d.hidden = dims.hidden;
  d.ffn = dims.ffn;
  d.n_experts = get_int_or(config, "num_experts", 16);
  d.routing.k = get_int_or(config, "num_experts_per_tok", 2);
  check_moe_dims(d);
  return d;
}

// "layers_block_type" where a file has it, else by period and offset.
std::vector<bool> read_attention_layers(const Json& config, int64_t n_layers) {
  const Period period(config, "attn_layer", 8, 4);
  const auto words = read_mixer_words(config, {"layers_block_type"}, {"linear_attention", "full_attention"});
  if (words && static_cast<int64_t>(words->size()) != n_layers)
    fail("layers_block_type has " + std::to_string(words->size()) + " entries, expected " + std::to_string(n_layers));
  std::vector<bool> attends;
  for (int64_t i = 0; i < n_layers; ++i)
    attends.push_back(words ? (*words)[static_cast<size_t>(i)] == "full_attention" : period.has(i));
  return attends;
}

class Jamba final : public DecoderModel {
 public:
  explicit Jamba(const Json& config)
      : dims_(read_decoder_dims(config, kDefaults)),
        mamba_(read_mamba(config, dims_)),
        moe_(read_moe(config, dims_)),
        sparse_(config, "expert_layer", 2, 1) {
    final_eps_ = dims_.eps;
    spec_ = general_spec(config, dims_);
    spec_.final_norm = "final_layernorm.weight";
    for (const bool attends : read_attention_layers(config, dims_.n_layers)) {
      if (attends) {
        add_attention_layer(spec_, dims_, no_rope_, 0);
      } else {
        add_recurrent_layer(spec_, LayerKind::Mamba, Mamba::size(mamba_), dims_.ffn);
      }
      if (is_sparse(spec_.layers.back())) count_moe_layer(spec_.layers.back(), moe_, dims_.ffn);
    }
  }

 private:
  bool is_sparse(const LayerSpec& layer) const { return moe_.n_experts > 1 && sparse_.has(layer.index); }

  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("pre_ff_layernorm")};
    if (cache)
      parts.mixer = std::make_unique<SelfAttention>(dims_, *cache, no_rope_, AttentionForm{}, loader, w);
    else
      parts.mixer = std::make_unique<Mamba>(mamba_, loader, w.at("mamba."));
    if (is_sparse(layer))
      parts.ffn = SparseMoe(moe_, load_moe(moe_, {.router = "router"}, loader, w.at("feed_forward.")));
    else
      parts.ffn = GluMlp(loader, w.at("feed_forward."), dims_.hidden, dims_.ffn);
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  DecoderDims dims_;
  RopeSpec no_rope_;
  MambaDims mamba_;
  MoeDims moe_;
  Period sparse_;
};

}  // namespace

std::unique_ptr<Model> parse_jamba(const Json& config) { return std::make_unique<Jamba>(config); }

}  // namespace kvcal
