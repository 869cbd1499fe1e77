#include "prefill/model_weights.h"

#include "model/architecture.h"
#include "model/binding_loader.h"

namespace kvcal {
ModelWeights locate_weights(const Checkpoint& checkpoint, const ModelSpec& spec) {
  const TextPrefix prefix = detect_prefix(checkpoint, spec.embedding, spec.head);
  const WeightBinder all(checkpoint);
  const std::string head = prefix.lm_head.ends_with(spec.head)
                               ? prefix.lm_head.substr(0, prefix.lm_head.size() - spec.head.size())
                               : std::string();
  if (spec.tied_head && !prefix.lm_head.empty())
    for (const std::string& name : checkpoint.names_below(prefix.head_module())) all.claim(name);
  return {all, all.at(prefix.model), all.at(head), prefix,
          SkipRules(prefix.model + spec.layer_prefix, static_cast<int64_t>(spec.layers.size()))};
}

WeightBinder ModelWeights::of_layer(const ModelSpec& spec, int layer) const {
  return spec.is_mtp(layer) ? of_mtp_layer(spec) : text.at(spec.names_of(layer));
}

WeightBinder ModelWeights::of_mtp_layer(const ModelSpec& spec) const {
  return (is_beside_prefix(spec.mtp_names) ? whole : text).at(spec.mtp_names);
}

ModelWeights ModelWeights::shapes_only() const {
  ModelWeights shapes = *this;
  for (WeightBinder* binder : {&shapes.text, &shapes.head, &shapes.whole}) *binder = binder->shapes_only();
  return shapes;
}

ModelWeights ModelWeights::as_stored() const {
  ModelWeights stored = *this;
  for (WeightBinder* binder : {&stored.text, &stored.head, &stored.whole}) *binder = binder->as_stored();
  return stored;
}

bool has_mtp_layer(const ModelSpec& spec, const ModelWeights& weights) {
  return !spec.mtp_names.empty() && weights.of_mtp_layer(spec).bytes() > 0;
}

std::unique_ptr<Block> load_layer(const Model& model, int layer, WeightLoader& loader, ModelWeights& weights) {
  if (!model.spec().is_mtp(layer)) return model.load_block(layer, loader, weights.text);
  WeightBinder w = weights.of_mtp_layer(model.spec());
  return model.load_mtp_layer(loader, weights.text, w);
}

void check_weights(const Model& model, ModelWeights& weights, int n_layers, bool with_head) {
  BindingLoader loader;
  ModelWeights shapes = weights.shapes_only();
  model.load_embedding(loader, shapes.text);
  for (int i = 0; i < n_layers; ++i) {
    while_doing("checking the weights of layer " + std::to_string(i),
                [&] { return load_layer(model, i, loader, shapes); });
    const WeightBinder layer = shapes.of_layer(model.spec(), i);
    layer.check_inputs_asked();
    layer.release();
  }
  if (with_head)
    while_doing("checking the output head", [&] { return model.load_head(loader, shapes.text, shapes.head); });
}

}  // namespace kvcal
