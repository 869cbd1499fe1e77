// NemotronForCausalLM (Nemotron 3 and 4, Minitron): layer norms whose gain is 1 + w, rounded to the activations' dtype
// as the reference and vLLM do; RoPE over half of a head; a feed-forward with a squared ReLU and no gate.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "tensor/encoded_weight.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 256000,
                                       .hidden = 6144,
                                       .ffn = 24576,
                                       .n_layers = 32,
                                       .n_heads = 48,
                                       .max_positions = 4096,
                                       .act = Activation::Relu2,
                                       .eps_key = "norm_eps",
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {10000, 0.5};

class Nemotron final : public SquaredReluDecoder {
 public:
  explicit Nemotron(const Json& config) : SquaredReluDecoder(config, kDefaults, kRopeDefaults, Bias::None) {}

 private:
  Norm load_norm(WeightLoader& loader, WeightBinder& w, const std::string& name) const override {
    const Tensor stored = w(name + ".weight", {dims_.hidden});
    const Tensor bias = w(name + ".bias", {dims_.hidden});
    if (is_of_no_weight(stored)) return {Norm::Kind::Layer, dims_.eps, loader.load_f32(stored), loader.load_f32(bias)};
    std::vector<float> gain(static_cast<size_t>(dims_.hidden));
    convert_to_float(stored.dtype, stored.data, gain.data(), gain.size());
    for (float& g : gain) {
      g += 1;
      if (loader.precision() == Precision::BF16) g = to_float(to_bf16(g));
    }
    return {Norm::Kind::Layer, dims_.eps, loader.load_f32({gain.data(), {dims_.hidden}, DType::F32}),
            loader.load_f32(bias)};
  }
};

}  // namespace

std::unique_ptr<Model> parse_nemotron(const Json& config) { return std::make_unique<Nemotron>(config); }

}  // namespace kvcal
