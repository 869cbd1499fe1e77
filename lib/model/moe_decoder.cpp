#include "model/moe_decoder.h"

#include "model/nextn.h"

namespace kvcal {
namespace {

struct MoeDecoderBlock final : Block {
  float eps, residual;
  Owned attn_norm, ffn_norm;  // [hidden]
  SelfAttention attention;
  std::optional<SparseMoe> moe;
  std::optional<GluMlp> mlp;

  MoeDecoderBlock(const MoeDecoderConfig& c, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : eps(c.dims.eps),
        residual(c.multipliers ? c.multipliers->residual : 1),
        attn_norm(loader.load_gain(w("input_layernorm.weight", {c.dims.hidden}), c.gain)),
        ffn_norm(loader.load_gain(w("post_attention_layernorm.weight", {c.dims.hidden}), c.gain)),
        attention(c.dims, layout, c.rope_of(layout.layer), c.attention, loader, w) {
    if (c.picker) attention.pick_keys(c.picker(layout, c.rope_of(layout.layer), loader, w));
    if (c.sparse[static_cast<size_t>(layout.layer)]) {
      moe.emplace(c.moe, c.load(c.moe, loader, w));
    } else {
      mlp.emplace(loader, w.at("mlp."), c.dims.hidden, c.dims.ffn, Bias::None, c.moe.act);
    }
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor mixed = attention.forward(op, op.rms_norm(x, attn_norm, eps), batch, states, tap, tail);
    if (tail == Tail::Skip) return x;
    const auto [y, normed] = op.add_rms_norm(x, scaled(op, mixed, residual), ffn_norm, eps);
    return op.add(y, scaled(op, moe ? moe->forward(op, normed) : mlp->forward(op, normed), residual));
  }
};

}  // namespace

void make_uniform(MoeDecoderConfig& c) {
  c.sparse.assign(static_cast<size_t>(c.dims.n_layers), true);
  c.windows.assign(static_cast<size_t>(c.dims.n_layers), 0);
}

MoeDecoder::MoeDecoder(const Json& config, MoeDecoderConfig c) : c_(std::move(c)) {
  spec_ = general_spec(config, c_.dims);
  spec_.default_prefix = c_.default_prefix;
  spec_.embedding = c_.embedding;
  spec_.mtp_names = c_.mtp.begin;
  final_eps_ = c_.dims.eps;
  final_gain_ = c_.gain;
  for (size_t i = 0; i < c_.windows.size(); ++i) add_layer(i);
  if (!c_.multipliers) return;
  embedding_factor_ = c_.multipliers->embedding;
  logits_.factor = c_.multipliers->logits;
}

void MoeDecoder::add_layer(size_t i) {
  const DecoderDims& d = c_.dims;
  KvLayout& cache = add_attention_layer(spec_, d, c_.rope_of(static_cast<int>(i)), c_.windows[i]);
  cache.name = spec_.names_of(static_cast<int>(i)) + c_.attention.module;
  cache.learned_sinks = c_.attention.sinks;
  // A weighted norm behind RoPE changes the length of a pair.
  if (c_.attention.norm == QkNorm::PerHeadAfterRope) cache.pair_bound = PairBound::None;
  LayerSpec& layer = spec_.layers.back();
  layer.attention.module = cache.name + ".";
  name_tensors(layer.attention, c_.attention);
  if (c_.sparse[i]) count_moe_layer(layer, c_.moe, d.ffn);
  if (!c_.multipliers) return;
  cache.softmax_scale = c_.multipliers->attention;
  layer.activations += 2 * d.hidden;
}

void MoeDecoder::append_mtp_layer() {
  assert(c_.ropes.empty());
  c_.sparse.push_back(c_.mtp_is_sparse);
  c_.windows.push_back(0);
  add_layer(c_.windows.size() - 1);
  finish_nextn_layer(spec_, c_.mtp);
}

std::unique_ptr<Block> MoeDecoder::load_mtp_layer(WeightLoader& loader, WeightBinder& weights, WeightBinder& w) const {
  return std::make_unique<MtpBlock>(
      load_nextn_input(spec_, c_.mtp, c_.dims.eps, loader, weights, w),
      std::make_unique<MoeDecoderBlock>(c_, spec_.caches.back(), loader, w.at(c_.mtp.layer)));
}

std::unique_ptr<Block> MoeDecoder::make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                              WeightBinder w) const {
  return std::make_unique<MoeDecoderBlock>(c_, *cache, loader, w);
}

}  // namespace kvcal
