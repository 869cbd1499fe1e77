#include "model/decoders/moe_decoder.h"

#include "model/decoders/nextn.h"
#include "model/layers/decoder_block.h"

namespace kvcal {
namespace {

std::unique_ptr<Block> load_moe_block(const MoeDecoderConfig& c, const KvLayout& layout, WeightLoader& loader,
                                      WeightBinder w) {
  const RmsNorms norm{loader, w, c.dims.hidden, c.dims.eps, c.gain};
  DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
  const RopeSpec& rope = c.rope_of(layout.layer);
  auto attention = std::make_unique<SelfAttention>(c.dims, layout, rope, c.attention, loader, w);
  if (c.picker) attention->pick_keys(c.picker(layout, rope, loader, w));
  parts.mixer = std::move(attention);
  if (c.sparse[static_cast<size_t>(layout.layer)])
    parts.ffn = SparseMoe(c.moe, c.load(c.moe, loader, w));
  else
    parts.ffn = GluMlp(loader, w.at("mlp."), c.dims.hidden, c.dims.ffn, Bias::None, c.moe.act);
  if (c.multipliers) parts.factor = c.multipliers->residual;
  return std::make_unique<DecoderBlock>(std::move(parts));
}

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
  return std::make_unique<MtpBlock>(load_nextn_input(spec_, c_.mtp, c_.dims.eps, loader, weights, w),
                                    load_moe_block(c_, spec_.caches.back(), loader, w.at(c_.mtp.layer)));
}

std::unique_ptr<Block> MoeDecoder::make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                              WeightBinder w) const {
  return load_moe_block(c_, *cache, loader, w);
}

}  // namespace kvcal
