// Qwen2VL-, Qwen2_5_VL-, Qwen2_5Omni- (its thinker) and Qwen3VLForConditionalGeneration, the language model: Qwen2 and
// Qwen3 whose pairs of channels turn by three rows of positions (mRoPE). Configs are nested in text_config or, as
// published for the first two, flat. What Qwen3-VL's tower returns beside the rows of its images is added to the
// residual stream after the first layers (docs/model-notes.md, "Images").
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kQwen2Defaults = {.vocab = 152064,
                                            .hidden = 8192,
                                            .ffn = 29568,
                                            .n_layers = 80,
                                            .n_heads = 64,
                                            .n_kv_heads = 8,
                                            .max_positions = 32768,
                                            .eps = 1e-5};
constexpr RopeDefaults kQwen2Rope = {1000000};
constexpr int64_t kQwen2MaxWindowLayers = 80;
constexpr DecoderDefaults kOmniDefaults = {.vocab = 152064,
                                           .hidden = 3584,
                                           .ffn = 18944,
                                           .n_layers = 28,
                                           .n_heads = 28,
                                           .n_kv_heads = 4,
                                           .max_positions = 32768};
constexpr int64_t kOmniMaxWindowLayers = 28;
constexpr DecoderDefaults kQwen3Defaults = {.vocab = 151936,
                                            .hidden = 4096,
                                            .ffn = 22016,
                                            .n_layers = 32,
                                            .n_heads = 32,
                                            .n_kv_heads = 32,
                                            .head_dim = 128,
                                            .max_positions = 128000};
constexpr RopeDefaults kQwen3Rope = {500000};

// Older files say it inside, and the outer class forwards it.
Json with_tied_head(const Json& config) {
  Json out = config;
  out["tie_word_embeddings"] = get_bool_or(config, "tie_word_embeddings", false) ||
                               get_bool_or(text_config(config), "tie_word_embeddings", false);
  return out;
}

class Qwen3Vl final : public PlainDecoder {
 public:
  Qwen3Vl(const Json& config, const DecoderDims& dims, const RopeSpec& rope, Bias bias)
      : PlainDecoder(config, dims, rope, {{bias, bias, QkNorm::PerHead}},
                     std::vector<int64_t>(static_cast<size_t>(dims.n_layers), 0)) {
    read_deepstack(config, spec_);
  }
};

std::unique_ptr<Model> read_qwen2(const Json& given, const DecoderDefaults& defaults, int64_t max_window_layers) {
  const Json config = with_tied_head(given);
  const DecoderDims dims = read_decoder_dims(config, defaults);
  Json text = text_config(config);
  if (!find_member(text, "max_window_layers")) text["max_window_layers"] = max_window_layers;
  const RopeSpec rope = read_rope(with_mrope_sections(text, {16, 24, 24}, false), dims.head_dim, kQwen2Rope);
  return std::make_unique<PlainDecoder>(config, dims, rope, PlainForm{{Bias::Present}},
                                        read_qwen_windows(text, dims.n_layers));
}

}  // namespace

std::unique_ptr<Model> parse_qwen2_vl(const Json& config) {
  return read_qwen2(config, kQwen2Defaults, kQwen2MaxWindowLayers);
}

// A thinker says outside whether its head is tied; what stands inside is the default of its text class.
std::unique_ptr<Model> parse_qwen2_5_omni(const Json& given) {
  Json config = given;
  if (find_member(config, "text_config") && find_member(config, "tie_word_embeddings"))
    config["text_config"].erase("tie_word_embeddings");
  return read_qwen2(config, kOmniDefaults, kOmniMaxWindowLayers);
}

std::unique_ptr<Model> parse_qwen3_vl(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kQwen3Defaults);
  const Json& text = text_config(config);
  const RopeSpec rope = read_rope(with_mrope_sections(text, {24, 20, 20}, true), dims.head_dim, kQwen3Rope);
  return std::make_unique<Qwen3Vl>(config, dims, rope, read_bias(text, "attention_bias"));
}

}  // namespace kvcal
