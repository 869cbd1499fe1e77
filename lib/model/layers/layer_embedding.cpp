#include "model/layers/layer_embedding.h"

#include <cmath>

#include "model/layers/gemma_parts.h"

namespace kvcal {

LayerEmbedding::LayerEmbedding(const LayerEmbeddingShape& s, int layer, WeightLoader& loader, WeightBinder& model,
                               WeightBinder& w)
    : shape_(s),
      layer_(layer),
      input_factor_(in_activation_type(loader, std::sqrt(static_cast<float>(s.hidden)))),
      own_factor_(in_activation_type(loader, std::sqrt(static_cast<float>(s.width)))),
      projection_factor_(1 / std::sqrt(static_cast<float>(s.hidden))) {
  const int64_t all = s.n_layers * s.width;
  inputs_ = model("embed_tokens.weight", {s.vocab, s.hidden});
  // Row id · n_layers + layer of the table as [table_vocab · n_layers, width].
  table_ = model.uncounted("embed_tokens_per_layer.weight", {s.table_vocab, all})
               .reshaped({s.table_vocab * s.n_layers, s.width});
  const char* projection = "per_layer_model_projection.weight";
  projection_ = loader.load_linear(model.rows(projection, {all, s.hidden}, layer * s.width, s.width), {},
                                   model.inputs_of(projection));
  norm_ = load_f32_gain(loader, model, "per_layer_projection_norm", s.width);
  gate_ = load_projection(loader, w, "per_layer_input_gate", s.width, s.hidden);
  out_ = load_projection(loader, w, "per_layer_projection", s.hidden, s.width);
  out_norm_ = load_f32_gain(loader, w, "post_per_layer_input_norm", s.hidden);
}

Tensor LayerEmbedding::forward(Ops& op, const Tensor& x, const Batch& batch) const {
  const Tensor own = op.scale(op.embed(table_, rows_of(batch)), own_factor_);
  const Tensor inputs = with_encoder_rows(op, op.scale(op.embed(inputs_, batch.ids), input_factor_), batch);
  const Tensor projected = op.scale(op.linear(inputs, projection_), projection_factor_);
  const Tensor both = op.scale(op.add(op.rms_norm(projected, norm_, shape_.eps), own), shape_.sum_factor);
  const Tensor gated = op.glu(op.linear(x, gate_), both, Activation::GeluTanh);
  return op.rms_norm(op.linear(gated, out_), out_norm_, shape_.eps);
}

/// As servers do, tokens beyond this table take its row 0.
std::vector<int32_t> LayerEmbedding::rows_of(const Batch& batch) const {
  std::vector<int32_t> rows, ids = batch.ids;
  if (shape_.image_token)
    for (const EncodedToken& t : batch.encoded) ids[static_cast<size_t>(t.row)] = *shape_.image_token;
  rows.reserve(ids.size());
  for (const int32_t id : ids)
    rows.push_back(static_cast<int32_t>((id < shape_.table_vocab ? id : 0) * shape_.n_layers + layer_));
  return rows;
}

}  // namespace kvcal
