#include "model/decoders/mtp.h"

namespace kvcal {

MtpInput load_mtp_input(const ModelSpec& spec, const MtpNames& names, Gain gain, float eps, WeightLoader& loader,
                        WeightBinder& text, WeightBinder& w) {
  const auto norm = [&](const std::string& name) { return loader.load_gain(w(name + ".weight", {spec.hidden}), gain); };
  return {load_token_embedding(spec, text),
          eps,
          loader.load_gain(text(spec.final_norm, {spec.hidden}), gain),
          norm(names.hidden_norm),
          norm(names.embedding_norm),
          load_projection(loader, w, names.projection, spec.hidden, 2 * spec.hidden)};
}

void finish_mtp_layer(ModelSpec& spec, const MtpNames& names) {
  LayerSpec& layer = spec.layers.back();
  spec.caches.back().name = names.begin + names.layer + "self_attn";
  layer.attention.module = spec.caches.back().name + ".";
  layer.activations += 7 * spec.hidden;  // the embedding, three norms, both side by side, and the projection
  spec.n_mtp_layers = 1;
}

Tensor MtpBlock::forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) {
  const Tensor next = with_encoder_rows(op, in_.embedding->forward(op, batch), batch);
  const Tensor e = op.rms_norm(next, in_.embedding_norm, in_.eps);
  const bool bare = in_.order == MtpOrder::BareHiddenFirst;
  const Tensor h = op.rms_norm(bare ? x : op.rms_norm(x, in_.final_norm, in_.eps), in_.hidden_norm, in_.eps);
  const Tensor read = op.linear(bare ? op.join(h, e) : op.join(e, h), in_.projection);
  tap.layer_input(read);  // of which x is only a part
  return layer_->forward(op, read, batch, states, tap, tail);
}

}  // namespace kvcal
