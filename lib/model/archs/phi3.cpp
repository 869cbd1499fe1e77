// Phi3ForCausalLM: Phi-3, 3.5, 4 and 4-mini. A Llama layer with q, k, v in one tensor and gate, up in another; rope
// over a part of the head; longrope by the servers' rule: the long list for all positions when the server's limit
// exceeds the original context (the reference framework decides by the current length); a window on every layer, absent
// = none (docs/model-notes.md, "Rotary positions"). Phi4MMForCausalLM (Phi-4-multimodal), the language model: the same,
// each weight beside adapters that servers put in for pictures and for speech; with text alone they leave them out.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 32064, .hidden = 3072, .ffn = 8192, .n_layers = 32, .n_heads = 32, .max_positions = 4096, .eps = 1e-5};

class Phi3 final : public AttentionModel {
 public:
  Phi3(const Json& config, bool has_adapters)
      : AttentionModel(config, read_decoder_dims(config, kDefaults)), has_adapters_(has_adapters) {
    const Json& text = text_config(config);
    for (const char* bias : {"attention_bias", "mlp_bias", "lm_head_bias"})
      if (get_bool_or(text, bias, false)) fail(std::string(bias) + " is true; the class is read without it");
    rope_ = read_rope(text, dims_.head_dim, {});
    for (const int64_t window : read_windows(text, dims_.n_layers, 0)) {
      add_attention_layer(spec_, dims_, rope_, window);
      spec_.layers.back().attention.query = "qkv_proj";
      spec_.layers.back().attention.fused = true;
      if (has_adapters) spec_.layers.back().attention.obstacle = "the checkpoint has adapters that add to them";
    }
    spec_.rope_switch = longrope_switch(text, dims_.head_dim);
    spec_.above_rope_switch = get_int_or(text, kServedPositions, dims_.max_positions) > spec_.rope_switch;
  }

 private:
  static void claim_adapters(const WeightBinder& at, const std::string& module) {
    for (const char* side : {".lora_A.", ".lora_B."})
      for (const char* kind : {"vision", "speech"}) {
        const std::string adapter = module + side + kind + ".weight";
        if (at.has(adapter)) at.claim(adapter);
      }
  }

  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    WeightBinder attention = w.at("self_attn."), mlp = w.at("mlp.");
    const auto name = [&](WeightBinder& at, const std::string& module) {
      if (has_adapters_) claim_adapters(at, module);
      return module + (has_adapters_ ? ".base_layer" : "");
    };
    const RmsNorms norm{loader, w, d.hidden, d.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
    const std::string fused = name(attention, "qkv_proj"), output = name(attention, "o_proj");
    const AttentionForm form{.fused = fused.c_str(), .output = output.c_str()};
    parts.mixer = std::make_unique<SelfAttention>(d, cache, rope_, form, loader, w);
    parts.ffn =
        GluMlp(load_fused_glu(loader, mlp, {name(mlp, "gate_up_proj"), name(mlp, "down_proj")}, d.hidden, d.ffn));
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  RopeSpec rope_;
  bool has_adapters_;
};

}  // namespace

std::unique_ptr<Model> parse_phi3(const Json& config) { return std::make_unique<Phi3>(config, false); }
std::unique_ptr<Model> parse_phi4mm(const Json& config) { return std::make_unique<Phi3>(config, true); }

}  // namespace kvcal
