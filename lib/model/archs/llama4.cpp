// Llama4ForCausalLM and the text part of Llama4ForConditionalGeneration: interleaved RoPE and weightless norms of q and
// k behind it on most layers, which see chunks of the sequence; the others have no positions and scale their queries by
// them; one expert for each token, whose weight multiplies the expert's input, beside a shared one. Servers store the
// channels of q and k in another order; scales do not depend on it.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/portable_math.h"
#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 202048,
                                       .hidden = 5120,
                                       .ffn = 8192,
                                       .n_layers = 48,
                                       .n_heads = 40,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {500000};
constexpr int64_t kDefaultDenseFfn = 16384, kDefaultExperts = 16, kDefaultChunk = 8192, kDefaultFloor = 8192;

/// One layer's kind.
struct Llama4Layer {
  bool turns, chunked, sparse;
};

struct Llama4Config {
  DecoderDims dims;  // ffn: of an expert
  int64_t dense_ffn;
  RopeSpec rope;
  Bias bias;
  bool qk_norm, tuned;  // tuned: layers without RoPE scale their queries
  int64_t chunk;
  double floor_scale, query_scale;
  MoeDims moe;
  std::vector<Llama4Layer> layers;
};

/// The chosen expert gets the token times the sigmoid of its logit, and counts as it is.
class TopExpert {
 public:
  TopExpert(const MoeDims& dims, WeightLoader& loader, WeightBinder w) : routing_(dims.routing) {
    MoeNames names;
    names.router = "router";
    names.shared = "shared_expert.";
    names.transposed = true;
    parts_ = load_moe(dims, names, loader, w);
  }

  Tensor forward(Ops& op, const Tensor& x) const {
    const Routing chosen = op.route(op.linear(x, parts_.router), routing_);
    const int64_t n = x.dim(0);
    const Storage weights({n, 1}, DType::F32), ones({n, 1}, DType::F32);
    op.download(chosen.weights, weights.tensor());
    for (float& w : std::span(weights.tensor().as<float>(), static_cast<size_t>(n)))
      if (op.precision() == Precision::BF16) w = round_to_bf16(w);
    std::fill_n(ones.tensor().as<float>(), n, 1.0f);
    const Tensor input = op.mul(x, op.upload(weights.tensor()));
    const Tensor routed = op.experts(input, {chosen.experts, op.upload(ones.tensor())}, parts_.experts);
    return op.add(op.glu_mlp(x, parts_.shared), routed);
  }

 private:
  RoutingSpec routing_;
  MoeParts parts_;
};

struct Llama4Block final : Block {
  const Llama4Config& c;
  const KvLayout& s;
  Llama4Layer kind;
  Owned attn_norm, ffn_norm;  // [hidden]
  LinearGroup qkv;
  Linear wo;  // [hidden, n_heads·D]
  std::optional<TopExpert> moe;
  std::optional<GluMlp> mlp;

  Llama4Block(const Llama4Config& config, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : c(config),
        s(layout),
        kind(c.layers[static_cast<size_t>(layout.layer)]),
        attn_norm(loader.load_gain(w("input_layernorm.weight", {c.dims.hidden}), Gain::Plain)),
        ffn_norm(loader.load_gain(w("post_attention_layernorm.weight", {c.dims.hidden}), Gain::Plain)),
        qkv(load_qkv(loader, w, c.dims, c.bias)),
        wo(load_output_projection(loader, w, "self_attn.o_proj", c.dims.hidden, {c.dims.n_heads, c.dims.head_dim},
                                  c.bias)) {
    if (kind.sparse) {
      moe.emplace(c.moe, loader, w.at("feed_forward."));
    } else {
      mlp.emplace(loader, w.at("feed_forward."), c.dims.hidden, c.dense_ffn);
    }
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const float eps = c.dims.eps;
    const Tensor turns = kind.turns ? op.rope_table(batch.positions, batch.n_tokens(), c.rope) : Tensor{};
    const HeadsPart parts[] = {
        {s.head_dim_k, {}, kind.turns}, {s.head_dim_k, {}, kind.turns}, {s.head_dim_v, {}, false}};
    auto heads = op.project_heads(op.rms_norm(x, attn_norm, eps), qkv, {parts, eps, turns, c.rope});
    for (int i = 0; i < 2 && kind.turns && c.qk_norm; ++i) heads[i] = op.rms_norm(heads[i], {}, eps);
    if (!kind.turns && c.tuned) heads[0] = tuned(op, heads[0], batch);
    const Tensor o = attend(op, s, heads, wo, batch, states, tap, tail, {.chunk = kind.chunked ? c.chunk : 0});
    if (!o) return x;
    const auto [y, normed] = op.add_rms_norm(x, op.linear(o, wo), ffn_norm, eps);
    return op.add(y, moe ? moe->forward(op, normed) : mlp->forward(op, normed));
  }

  /// q · (1 + query_scale · ln(1 + ⌊(position + 1) / floor_scale⌋)).
  Tensor tuned(Ops& op, const Tensor& q, const Batch& batch) const {
    const int64_t n = batch.n_tokens();
    const Storage factors({n, 1}, DType::F32);
    for (int64_t t = 0; t < n; ++t) {
      const double step = std::floor((batch.positions[static_cast<size_t>(t)] + 1.0) / c.floor_scale);
      factors.tensor().as<float>()[t] = static_cast<float>(portable_log(1 + step) * c.query_scale + 1);
    }
    return op.mul(q.reshaped({n, q.dim(1) * q.dim(2)}), op.upload(factors.tensor())).reshaped(q.shape);
  }
};

// An empty list means the default, as null does: every fourth layer has no RoPE.
std::vector<bool> read_turning_layers(const Json& text, int64_t n_layers) {
  const int64_t interval = read_size(text, "no_rope_layer_interval", 4);
  std::vector<bool> turning;
  for (int64_t i = 0; i < n_layers; ++i) turning.push_back((i + 1) % interval != 0);
  const Json* list = find_member(text, "no_rope_layers");
  if (!list) return turning;
  if (!list->is_array()) fail("no_rope_layers is not a list");
  if (list->empty()) return turning;
  if (static_cast<int64_t>(list->size()) < n_layers)
    fail("no_rope_layers has " + std::to_string(list->size()) + " entries, expected " + std::to_string(n_layers));
  for (size_t i = 0; i < turning.size(); ++i) {
    if ((*list)[i] != 0 && (*list)[i] != 1) fail("no_rope_layers holds something that is neither 0 nor 1");
    turning[i] = (*list)[i] == 1;  // 1 means that the layer turns, whatever the name says
  }
  return turning;
}

std::vector<bool> read_sparse_layers_of(const Json& text, int64_t n_layers) {
  const int64_t step = read_size(text, "interleave_moe_layer_step", 1);
  std::vector<bool> sparse;
  for (int64_t i = 0; i < n_layers; ++i) sparse.push_back((i + 1) % step == 0);
  const Json* list = find_member(text, "moe_layers");
  if (!list) return sparse;
  if (!list->is_array()) fail("moe_layers is not a list");
  sparse.assign(static_cast<size_t>(n_layers), false);
  for (const Json& i : *list) {
    if (!i.is_number_integer() || i.get<int64_t>() < 0 || i.get<int64_t>() >= n_layers)
      fail("moe_layers holds " + quoted(i.dump()) + ", expected layer numbers below " + std::to_string(n_layers));
    sparse[i.get<size_t>()] = true;
  }
  return sparse;
}

std::vector<Llama4Layer> read_layers(const Json& text, int64_t n_layers) {
  const std::vector<bool> turning = read_turning_layers(text, n_layers), sparse = read_sparse_layers_of(text, n_layers);
  const auto types = read_layer_types(text, n_layers, {"chunked_attention", "full_attention"});
  std::vector<Llama4Layer> layers;
  for (size_t i = 0; i < turning.size(); ++i)
    layers.push_back({turning[i], types ? (*types)[i] == "chunked_attention" : turning[i], sparse[i]});
  return layers;
}

MoeDims read_moe(const Json& text, const DecoderDims& dims) {
  MoeDims d{dims.hidden, read_size(text, "num_local_experts", kDefaultExperts), dims.ffn, dims.ffn};
  d.routing = {.k = read_size(text, "num_experts_per_tok", 1), .scoring = Scoring::Sigmoid};
  if (d.routing.k != 1)
    fail("num_experts_per_tok is " + std::to_string(d.routing.k) + "; Llama 4 is read with one expert for each token");
  check_moe_dims(d);
  return d;
}

class Llama4 final : public DecoderModel {
 public:
  explicit Llama4(const Json& config) {
    const Json& text = text_config(config);
    c_.dims = read_decoder_dims(config, kDefaults);
    c_.dims.tied_head = get_bool_or(text, "tie_word_embeddings", kDefaults.tied_head);  // the outer key means nothing
    c_.dense_ffn = read_size(text, "intermediate_size_mlp", kDefaultDenseFfn);
    c_.rope = read_rope(text, c_.dims.head_dim, kRopeDefaults);
    c_.rope.interleaved = true;
    c_.bias = read_bias(text, "attention_bias");
    c_.qk_norm = get_bool_or(text, "use_qk_norm", true);
    c_.layers = read_layers(text, c_.dims.n_layers);
    const bool no_chunks = text.contains("attention_chunk_size") && text["attention_chunk_size"].is_null();
    c_.chunk = no_chunks ? 0 : read_size(text, "attention_chunk_size", kDefaultChunk);
    read_tuning(text);
    c_.moe = read_moe(text, c_.dims);
    final_eps_ = c_.dims.eps;
    spec_ = general_spec(config, c_.dims);
    add_layers();
    if (find_member(config, "text_config")) spec_.default_prefix = "language_model.model.";
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<Llama4Block>(c_, *cache, loader, w);
  }

  void read_tuning(const Json& text) {
    c_.tuned = get_bool_or(text, "attn_temperature_tuning", true);
    c_.floor_scale = get_number_or(text, "floor_scale", static_cast<double>(kDefaultFloor));
    c_.query_scale = get_number_or(text, "attn_scale", 0.1);
    if (!(c_.floor_scale >= 1) || !std::isfinite(c_.floor_scale) || !std::isfinite(c_.query_scale))
      fail("floor_scale or attn_scale is out of range");
  }

  void add_layers() {
    DecoderDims dims = c_.dims;
    dims.ffn = c_.dense_ffn;
    for (const Llama4Layer& l : c_.layers) {
      add_attention_layer(spec_, dims, l.turns ? c_.rope : RopeSpec{}, 0);
      LayerSpec& added = spec_.layers.back();
      if (l.turns && c_.qk_norm) added.attention.norm = HeadNorm::NoGain;
      added.activations += (dims.n_heads + dims.n_kv_heads) * dims.head_dim + 2;  // normed or tuned
      if (!l.sparse) continue;
      count_moe_layer(added, c_.moe, c_.dense_ffn);
      added.activations += dims.hidden + 4;  // the expert's input, its weights
    }
  }

  Llama4Config c_;
};

}  // namespace

std::unique_ptr<Model> parse_llama4(const Json& config) { return std::make_unique<Llama4>(config); }

}  // namespace kvcal
