// MiMoForCausalLM: MiMo-7B. Qwen2, with an MTP layer of its own form beside the layers (docs/model-notes.md, "MTP
// layers").
#include "model/archs/archs.h"
#include "model/decoders/nextn.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151936,
                                       .hidden = 4096,
                                       .ffn = 22016,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 32,
                                       .max_positions = 32768};

class MiMo final : public PlainDecoder {
 public:
  MiMo(const Json& config, const DecoderDims& dims)
      : PlainDecoder(config, dims, read_rope(text_config(config), dims.head_dim, {}), {{Bias::Present}},
                     read_qwen_windows(text_config(config), dims.n_layers)) {
    if (has_one_nextn(text_config(config)))
      mtp_ = {"mtp_layers.0.", "", "input_proj", "token_layernorm", "hidden_layernorm"};
    spec_.mtp_names = mtp_.begin;
  }

  void append_mtp_layer() override {
    add_layer(0);
    finish_nextn_layer(spec_, mtp_);
  }
  std::unique_ptr<Block> load_mtp_layer(WeightLoader& loader, WeightBinder& weights, WeightBinder& w) const override {
    MtpInput input = load_nextn_input(spec_, mtp_, dims_.eps, loader, weights, w);
    input.order = MtpOrder::BareHiddenFirst;
    return std::make_unique<MtpBlock>(std::move(input), load_layer(spec_.caches.back(), loader, w));
  }

 private:
  MtpNames mtp_;
};

}  // namespace

std::unique_ptr<Model> parse_mimo(const Json& config) {
  return std::make_unique<MiMo>(config, read_decoder_dims(config, kDefaults));
}

}  // namespace kvcal
