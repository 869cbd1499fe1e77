// DeciLMForCausalLM (Nemotron Super and Ultra of the Llama line): layers of Llama of which each has its own number of
// key-value heads and its own width, or no attention, or no feed-forward (docs/model-notes.md, "DeciLM").
#include <algorithm>
#include <optional>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/mixer.h"
#include "model/layers/self_attention.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 32000,
                                       .hidden = 4096,
                                       .ffn = 11008,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .max_positions = 2048,
                                       .layers_differ = true};

/// What a layer has of both branches: 0 = nothing.
struct DeciLayer {
  int64_t n_kv_heads = 0, ffn = 0;
};

/// What all layers share.
struct DeciShape {
  DecoderDims dims;  // without key-value heads and width, which are a layer's own
  RopeSpec rope;
  AttentionForm form;
  Bias mlp_bias = Bias::None;

  DecoderDims of(const DeciLayer& layer) const {
    DecoderDims d = dims;
    d.n_kv_heads = layer.n_kv_heads;
    d.ffn = layer.ffn;
    return d;
  }
};

/// `layout` is null where the layer does not attend.
std::unique_ptr<Block> load_deci_block(const DeciShape& shape, const DeciLayer& layer, const KvLayout* layout,
                                       WeightLoader& loader, WeightBinder w) {
  const DecoderDims dims = shape.of(layer);
  const RmsNorms norm{loader, w, dims.hidden, dims.eps};
  DecoderBlockParts parts;
  if (layout) {
    parts.before_mixer = norm("input_layernorm");
    parts.mixer = std::make_unique<SelfAttention>(dims, *layout, shape.rope, shape.form, loader, w);
  }
  if (dims.ffn > 0) {
    parts.before_ffn = norm("post_attention_layernorm");
    parts.ffn = GluMlp(loader, w.at("mlp."), dims.hidden, dims.ffn, shape.mlp_bias);
  }
  return std::make_unique<DecoderBlock>(std::move(parts));
}

/// An object of a layer's block, without keys that mean something beyond `known`: servers do not read those.
const Json& branch_of(const Json& block, const char* name, const std::string& layer,
                      std::initializer_list<std::string_view> known) {
  const Json* branch = block.is_object() ? find_member(block, name) : nullptr;
  if (!branch || !branch->is_object()) fail(layer + " has no " + name + " that is an object");
  for (const auto& [key, value] : branch->items())
    if (std::ranges::find(known, key) == known.end() && !value.is_null() && value != false)
      fail(layer + "." + name + "." + key + " is " + value.dump() + ", which servers do not read");
  return *branch;
}

int64_t read_kv_heads(const Json& attention, const std::string& layer, int64_t n_heads) {
  if (get_bool_or(attention, "no_op", false)) return 0;
  const int64_t group = read_size(attention, "n_heads_in_group");
  if (n_heads % group != 0)
    fail(layer + ".attention.n_heads_in_group is " + std::to_string(group) + ", expected a divisor of " +
         std::to_string(n_heads) + ", num_attention_heads");
  return n_heads / group;
}

/// Given, or else two thirds of ffn_mult times the hidden size, twice, up to a multiple of 256.
int64_t read_width(const Json& ffn, const std::string& layer, int64_t hidden) {
  if (get_bool_or(ffn, "no_op", false)) return 0;
  if (const std::string act = get_string_or(ffn, "hidden_act", "silu"); act != "silu")
    fail(layer + ".ffn.hidden_act is " + quoted(act) + "; this architecture is read with 'silu' only");
  const auto checked = [&](int64_t width) {
    check_product("a feed-forward", {3, hidden, width});
    return width;
  };
  if (!find_member(ffn, "ffn_mult")) return checked(read_size(ffn, "intermediate_size"));
  constexpr int64_t kMultiple = 256;
  const double mult = get_number_or(ffn, "ffn_mult", 0);
  if (!(mult > 0 && mult < 1024)) fail(layer + ".ffn.ffn_mult is " + Json(mult).dump() + ", expected (0, 1024)");
  const auto width = static_cast<int64_t>(2 * mult * static_cast<double>(hidden) / 3);
  return checked(std::max<int64_t>(1, (width + kMultiple - 1) / kMultiple) * kMultiple);
}

std::vector<DeciLayer> read_layers(const Json& text, const DecoderDims& dims) {
  const Json* list = find_member(text, "block_configs");
  if (!list || !list->is_array() || static_cast<int64_t>(list->size()) != dims.n_layers)
    fail("block_configs is not a list of " + std::to_string(dims.n_layers) + " layers (num_hidden_layers)");
  std::vector<DeciLayer> layers;
  for (const Json& block : *list) {
    const std::string layer = "block_configs[" + std::to_string(layers.size()) + "]";
    const Json& attention = branch_of(block, "attention", layer, {"no_op", "n_heads_in_group"});
    const Json& ffn = branch_of(block, "ffn", layer, {"no_op", "ffn_mult", "intermediate_size", "hidden_act"});
    layers.push_back({read_kv_heads(attention, layer, dims.n_heads), read_width(ffn, layer, dims.hidden)});
  }
  return layers;
}

/// Variants that one server or the other knows, and no published checkpoint has.
void refuse_variants(const Json& text) {
  expect_word(text, "position_embedding_type", "rope");
  if (!get_bool_or(text, "rope_is_neox_style", true))
    fail("rope_is_neox_style is false; this architecture is read with pairs in halves only");
  for (const char* key : {"bias", "qkv_bias"})
    if (get_bool_or(text, key, false)) fail(std::string(key) + " is true; this architecture is read without it");
}

class DeciLm final : public DecoderModel {
 public:
  explicit DeciLm(const Json& config) {
    const Json& text = text_config(config);
    refuse_variants(text);
    shape_.dims = read_decoder_dims(config, kDefaults);
    shape_.rope = read_rope(text, shape_.dims.head_dim, {});
    const Bias bias = read_bias(text, "attention_bias");
    shape_.form.qkv = shape_.form.o = bias;
    shape_.mlp_bias = read_bias(text, "mlp_bias");
    spec_ = general_spec(config, shape_.dims);
    final_eps_ = shape_.dims.eps;
    layers_ = read_layers(text, shape_.dims);
    for (const DeciLayer& layer : layers_) add_layer(shape_.of(layer));
    if (spec_.caches.empty()) fail("no layer in block_configs attends, so there is no KV cache to calibrate");
  }

 private:
  void add_layer(const DecoderDims& d) {
    if (d.n_kv_heads > 0)
      add_attention_layer(spec_, d, shape_.rope, 0);
    else
      add_recurrent_layer(spec_, LayerKind::FeedForward, {}, d.ffn);
  }

  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return load_deci_block(shape_, layers_[static_cast<size_t>(layer.index)], cache, loader, w);
  }

  DeciShape shape_;
  std::vector<DeciLayer> layers_;
};

}  // namespace

std::unique_ptr<Model> parse_decilm(const Json& config) { return std::make_unique<DeciLm>(config); }

}  // namespace kvcal
