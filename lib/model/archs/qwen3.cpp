// Qwen3ForCausalLM: RMSNorm over each head of q and k (plain gain) before RoPE; biases only with attention_bias;
// windows as in Qwen2.
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {151936, 4096, 22016, 32, 32, 32, 128, 32768};

class Qwen3 final : public AttentionModel {
 public:
  explicit Qwen3(const Json& config) : AttentionModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    const Bias bias = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
    biases_ = {bias, bias, Bias::None};
    for (const int64_t window : read_qwen_windows(text, dims_.n_layers)) {
      add_attention_layer(spec_, dims_, rope_, window);
      spec_.layers.back().attention.norm = HeadNorm::Gain;
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    DecoderWeights weights = load_decoder_weights(dims_, biases_, loader, w);
    weights.q_norm = loader.load_gain(w("self_attn.q_norm.weight", {dims_.head_dim}), Gain::Plain);
    weights.k_norm = loader.load_gain(w("self_attn.k_norm.weight", {dims_.head_dim}), Gain::Plain);
    return std::make_unique<PlainDecoderBlock>(cache, rope_, dims_.eps, std::move(weights));
  }

  RopeSpec rope_;
  DecoderBiases biases_;
};

}  // namespace

std::unique_ptr<Model> parse_qwen3(const Json& config) { return std::make_unique<Qwen3>(config); }

}  // namespace kvcal
