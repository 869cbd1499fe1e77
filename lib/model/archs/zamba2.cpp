// Zamba2ForCausalLM: Mamba-2 in every layer; before some of them one of few shared transformer blocks, which sees the
// residual stream beside the embeddings, and has low-rank adapters of its own for each place (docs/model-notes.md,
// "Mamba"). The blocks' weights are stored where they are used first. Servers do not clamp Δ at time_step_min as the
// reference does. A shared block counts as parameters of the first layer that uses it; others load it once more.
#include <cmath>
#include <optional>

#include "model/archs/archs.h"
#include "model/layers/mamba2.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 32000,
                                       .hidden = 2560,
                                       .ffn = 0,
                                       .n_layers = 54,
                                       .n_heads = 32,
                                       .max_positions = 4096,
                                       .tied_head = true,
                                       .act = Activation::Gelu,
                                       .eps = 1e-5};
constexpr float kGatedNormEpsilon = 1e-5f;  // of the reference, no config key

struct Zamba2Config {
  DecoderDims dims{};  // head_dim 2·hidden / n_heads
  RopeSpec rope;       // of no dimensions: none
  Mamba2Dims mamba{};
  Bias bias = Bias::None;
  int64_t rank = 0;  // of the adapters
  bool attention_adapters = false;

  int64_t wide() const { return 2 * dims.hidden; }
};

// x W + (x A) B, or x W alone.
struct Adapted {
  Linear w, a, b;

  Tensor forward(Ops& op, const Tensor& x) const {
    const Tensor y = op.linear(x, w);
    return a ? op.add(y, op.linear(op.linear(x, a), b)) : y;
  }
};

struct SharedBlock {
  const KvLayout& s;
  const RopeSpec& rope;
  float eps;
  Owned norm, ffn_norm;  // [2·hidden], [hidden]
  Adapted q, k, v;       // [N·D, 2·hidden] x3
  Linear wo;             // [hidden, N·D]
  Adapted gate, up;      // [ffn, hidden] x2
  Linear down, out;      // [hidden, ffn], [hidden, hidden]

  /// `w` at the stored block, `layer` at the layer that uses it as its `place`-th user.
  SharedBlock(const Zamba2Config& c, const KvLayout& layout, int64_t place, WeightLoader& loader, WeightBinder w,
              WeightBinder layer);

  /// What the layer adds before its scan: [tokens, hidden]; absent with Tail::Skip.
  Tensor forward(Ops& op, const Tensor& x, const Tensor& embedded, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const;
};

SharedBlock::SharedBlock(const Zamba2Config& c, const KvLayout& layout, int64_t place, WeightLoader& loader,
                         WeightBinder w, WeightBinder layer)
    : s(layout),
      rope(c.rope),
      eps(c.dims.eps),
      norm(loader.load_gain(w("input_layernorm.weight", {c.wide()}), Gain::Plain)),
      ffn_norm(loader.load_gain(w("pre_ff_layernorm.weight", {c.dims.hidden}), Gain::Plain)),
      wo(load_output_projection(loader, w, "self_attn.o_proj", c.dims.hidden, {c.dims.n_heads, c.dims.head_dim},
                                Bias::None, OutputTo::Norm)),
      down(load_projection(loader, w, "feed_forward.down_proj", c.dims.hidden, c.dims.ffn, c.bias)),
      out(load_projection(loader, layer, "linear", c.dims.hidden, c.dims.hidden)) {
  const DecoderDims& d = c.dims;
  const auto attention_part = [&](const std::string& name, int64_t heads) {
    Adapted p{load_projection(loader, w, "self_attn." + name + "_proj", heads * d.head_dim, c.wide()), {}, {}};
    if (!c.attention_adapters) return p;
    const std::string adapter = "self_attn.linear_" + name + "_adapter_list." + std::to_string(place);
    p.a = load_projection(loader, w, adapter + ".0", c.rank, c.wide());
    p.b = load_projection(loader, w, adapter + ".1", heads * d.head_dim, c.rank);
    return p;
  };
  q = attention_part("q", d.n_heads);
  k = attention_part("k", d.n_kv_heads);
  v = attention_part("v", d.n_kv_heads);
  const std::string adapter = "feed_forward.gate_up_proj_adapter_list." + std::to_string(place);
  const HostLinear both = projection(w, "feed_forward.gate_up_proj", 2 * d.ffn, d.hidden, c.bias);
  const HostLinear both_b = projection(w, adapter + ".1", 2 * d.ffn, c.rank);
  const Linear a = load_projection(loader, w, adapter + ".0", c.rank, d.hidden);
  gate = {load_rows(loader, both, 0, d.ffn), a, load_rows(loader, both_b, 0, d.ffn)};
  up = {load_rows(loader, both, d.ffn, d.ffn), a, load_rows(loader, both_b, d.ffn, d.ffn)};
}

Tensor SharedBlock::forward(Ops& op, const Tensor& x, const Tensor& embedded, const Batch& batch, LayerStates& states,
                            KvTap& tap, Tail tail) const {
  const int64_t t = batch.n_tokens();
  const Tensor n = op.rms_norm(op.join(x, embedded), norm, eps);
  const Tensor turns = rope.rotary_dim > 0 ? op.rope_table(batch.positions, t, rope) : Tensor{};
  const auto heads = [&](const Adapted& w, int64_t count, bool turned) {
    const Tensor y = w.forward(op, n).reshaped({t, count, s.head_dim_k});
    return turned && turns ? op.rope(y, turns, rope) : y;
  };
  const Tensor qkv[] = {heads(q, s.n_heads, true), heads(k, s.n_kv_heads, true), heads(v, s.n_kv_heads, false)};
  const Tensor o = attend(op, s, qkv, wo, batch, states, tap, tail);
  if (!o) return {};
  const Tensor m = op.rms_norm(op.linear(o, wo), ffn_norm, eps);
  return op.linear(op.linear(op.glu(gate.forward(op, m), up.forward(op, m), Activation::Gelu), down), out);
}

// A checkpoint that stores a shared block with every layer stores the adapters of all its places there, too.
void claim_adapters(const WeightBinder& w, int64_t place) {
  for (const char* list : {"self_attn.linear_q_adapter_list.", "self_attn.linear_k_adapter_list.",
                           "self_attn.linear_v_adapter_list.", "feed_forward.gate_up_proj_adapter_list."})
    for (const char* part : {".0.weight", ".1.weight"})
      if (const std::string name = list + std::to_string(place) + part; w.has(name)) w.claim(name);
}

struct Zamba2Block final : Block {
  Tensor table;                       // [vocab, hidden], host
  std::optional<SharedBlock> shared;  // of a hybrid layer
  float eps;
  Owned norm;  // [hidden]
  Mamba2 mamba;

  Zamba2Block(const Zamba2Config& c, Tensor embeddings, std::optional<SharedBlock> block, WeightLoader& loader,
              WeightBinder w)
      : table(embeddings),
        shared(std::move(block)),
        eps(c.dims.eps),
        norm(loader.load_gain(w("input_layernorm.weight", {c.dims.hidden}), Gain::Plain)),
        mamba(c.mamba, loader, w.at("mamba.")) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    Tensor in = x;
    if (shared) {
      const Tensor added = shared->forward(op, x, op.embed(table, batch.ids), batch, states, tap, tail);
      if (tail == Tail::Skip) return x;
      in = op.add(x, added);
    }
    return op.add(x, mamba.forward(op, op.rms_norm(in, norm, eps), batch, states, tap, tail));
  }
};

// Which layers have a shared block before the scan.
std::vector<bool> read_hybrid_layers(const Json& config) {
  std::vector<bool> hybrid;
  if (const auto words = read_mixer_words(config, {"layers_block_type", "layer_types"}, {"linear_attention", "hybrid"}))
    for (const std::string& word : *words) hybrid.push_back(word == "hybrid");
  if (!hybrid.empty()) return hybrid;
  const int64_t n_layers = read_size(config, "num_hidden_layers", kDefaults.n_layers);
  const Json* ids = find_member(config, "hybrid_layer_ids");
  const Json class_default = {6, 12, 18, 24, 30, 36, 42, 47, 51};  // of 54 layers
  if (!ids && n_layers != kDefaults.n_layers) fail("neither layers_block_type nor hybrid_layer_ids is there");
  if (n_layers > 4096) fail("num_hidden_layers is " + std::to_string(n_layers) + ", expected at most 4096");
  hybrid.assign(static_cast<size_t>(n_layers), false);
  for (const Json& i : ids ? *ids : class_default) {
    if (!i.is_number_integer() || i.get<int64_t>() < 0 || i.get<int64_t>() >= n_layers)
      fail("hybrid_layer_ids holds " + quoted(i.dump()) + ", expected layer numbers below " + std::to_string(n_layers));
    hybrid[i.get<size_t>()] = true;
  }
  return hybrid;
}

DecoderDims read_dims(const Json& config, int64_t n_layers) {
  Json plain = config;  // what follows from other keys
  plain["num_hidden_layers"] = n_layers;
  const int64_t hidden = read_size(config, "hidden_size", kDefaults.hidden);
  const int64_t heads = read_size(config, "num_attention_heads", kDefaults.n_heads);
  plain["head_dim"] = std::max<int64_t>(1, 2 * hidden / heads);
  if (!find_member(config, "intermediate_size")) plain["intermediate_size"] = 4 * hidden;
  const DecoderDims d = read_decoder_dims(plain, kDefaults);
  if (d.head_dim * d.n_heads != 2 * d.hidden)
    fail("hidden_size " + std::to_string(hidden) + " doubled is not a multiple of num_attention_heads " +
         std::to_string(heads));
  return d;
}

Mamba2Dims read_mamba(const Json& config, const DecoderDims& dims, Bias bias) {
  Mamba2Dims d{};
  d.hidden = dims.hidden;
  d.n_heads = read_size(config, "n_mamba_heads", 8);
  const int64_t inner = read_size(config, "mamba_expand", 2) * dims.hidden;
  d.head_dim = inner / d.n_heads;
  if (d.head_dim * d.n_heads != inner)
    fail("the inner width " + std::to_string(inner) + " is not a multiple of n_mamba_heads " +
         std::to_string(d.n_heads));
  d.n_groups = read_size(config, "mamba_ngroups", 1);
  d.n_state = read_size(config, "mamba_d_state", 64);
  d.conv_kernel = read_size(config, "mamba_d_conv", 4);
  d.eps = kGatedNormEpsilon;
  d.in_bias = d.out_bias = bias;
  check_mamba2_dims(d);
  return d;
}

class Zamba2 final : public Model {
 public:
  explicit Zamba2(const Json& config) {
    const std::vector<bool> hybrid = read_hybrid_layers(config);
    c_.dims = read_dims(config, static_cast<int64_t>(hybrid.size()));
    if (get_bool_or(config, "use_mem_rope", false)) c_.rope = read_rope(config, c_.dims.head_dim, {});
    c_.bias = read_bias(config, "add_bias_linear");
    c_.mamba = read_mamba(config, c_.dims, c_.bias);
    c_.rank = read_size(config, "adapter_rank", 128);
    c_.attention_adapters = get_bool_or(config, "use_shared_attention_adapter", false);
    n_blocks_ = read_size(config, "num_mem_blocks", 1);
    check_product("an adapter", {c_.rank, c_.dims.hidden + c_.dims.ffn, 4});
    spec_ = general_spec(config, c_.dims);
    spec_.final_norm = "final_layernorm.weight";
    for (const bool h : hybrid) add_layer(h);
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader&, WeightBinder& weights) const override {
    return load_token_embedding(spec_, weights);
  }
  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    return load_output_head(spec_, Gain::Plain, c_.dims.eps, loader, weights, head);
  }
  std::unique_ptr<Block> load_block(int layer, WeightLoader& loader, WeightBinder& weights) const override {
    const LayerSpec& l = spec_.layers[static_cast<size_t>(layer)];
    const WeightBinder own = weights.at("layers." + std::to_string(layer) + ".");
    const Tensor table = weights(spec_.embedding, {spec_.vocab, spec_.hidden});
    if (l.cache < 0) return std::make_unique<Zamba2Block>(c_, table, std::nullopt, loader, own);
    const KvLayout& cache = spec_.caches[static_cast<size_t>(l.cache)];
    const KvLayout& first = spec_.caches[static_cast<size_t>(l.cache % n_blocks_)];
    const bool stored_here = own.has("shared_transformer.self_attn.q_proj.weight");
    const int source = stored_here ? layer : first.layer;
    const WeightBinder stored = weights.at("layers." + std::to_string(source) + ".shared_transformer.");
    if (stored.has("self_attn.q_proj.weight"))
      for (size_t place = 0; place < spec_.caches.size(); ++place) claim_adapters(stored, static_cast<int64_t>(place));
    return std::make_unique<Zamba2Block>(c_, table, SharedBlock(c_, cache, l.cache, loader, stored, own), loader,
                                         own.at("mamba_decoder."));
  }

 private:
  void add_layer(bool hybrid) {
    const DecoderDims& d = c_.dims;
    const MixerSize scan = Mamba2::size(c_.mamba);
    if (!hybrid) return add_recurrent_layer(spec_, LayerKind::Mamba2, scan, 0);
    const int64_t heads = d.n_heads * d.head_dim, kv = 2 * d.n_kv_heads * d.head_dim;
    const bool repeated = static_cast<int64_t>(spec_.caches.size()) >= n_blocks_;
    KvLayout& cache = add_attention_layer(spec_, d, c_.rope, 0);
    cache.name = "layers." + std::to_string(cache.layer) + ".shared_transformer.self_attn";
    cache.softmax_scale = 1 / std::sqrt(static_cast<double>(d.head_dim) / 2);
    cache.normed_output = true;
    LayerSpec& layer = spec_.layers.back();
    layer.attention.obstacle = "its weights are a block's that serves several layers";
    if (repeated) {
      const int64_t biases = c_.bias == Bias::Present ? 2 * d.ffn + d.hidden : 0, norms = c_.wide() + d.hidden;
      layer.copies = c_.wide() * (heads + kv) + heads * d.hidden + 3 * d.hidden * d.ffn + biases + norms;
    }
    // Beside attention, feed-forward and scan: the embeddings, both rows joined and normed, what the adapters add.
    layer.activations += scan.activations + 8 * d.hidden + 4 * d.ffn + 2 * (heads + kv) + 5 * c_.rank;
    set_state(layer, scan);
  }

  Zamba2Config c_;
  int64_t n_blocks_ = 1;
};

}  // namespace

std::unique_ptr<Model> parse_zamba2(const Json& config) { return std::make_unique<Zamba2>(config); }

}  // namespace kvcal
