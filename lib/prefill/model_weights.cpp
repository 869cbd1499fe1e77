#include "prefill/model_weights.h"

#include "model/architecture.h"

namespace kvcal {
namespace {

// Takes weights and forgets them.
class BindingLoader final : public WeightLoader {
 public:
  BindingLoader() : WeightLoader(Precision::BF16) {}

 private:
  Linear do_load_linear(const Tensor& weight, const Tensor&) override {
    return {weight.dim(1), weight.dim(0), std::make_shared<int>(0), {}};
  }
  Linear do_load_linear_f32(const Tensor& weight, const Tensor& bias) override { return do_load_linear(weight, bias); }
  Owned do_load_vector(const Tensor& weight, DType, float) override { return {weight, nullptr}; }
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor&, const Tensor&, int64_t) override { return {}; }
};

}  // namespace

ModelWeights locate_weights(const Checkpoint& checkpoint, const ModelSpec& spec) {
  const TextPrefix prefix = detect_prefix(checkpoint, spec.embedding, spec.head);
  const WeightBinder all(checkpoint);
  const std::string head = prefix.lm_head.ends_with(spec.head)
                               ? prefix.lm_head.substr(0, prefix.lm_head.size() - spec.head.size())
                               : std::string();
  if (spec.tied_head && !prefix.lm_head.empty())
    for (const std::string& name : checkpoint.names_below(prefix.head_module())) all.claim(name);
  return {all.at(prefix.model), all.at(head), prefix,
          SkipRules(prefix.model + spec.layer_prefix, static_cast<int64_t>(spec.layers.size()))};
}

void check_weights(const Model& model, ModelWeights& weights, int n_layers, bool with_head) {
  BindingLoader loader;
  WeightBinder text = weights.text.shapes_only(), head = weights.head.shapes_only();
  model.load_embedding(loader, text);
  for (int i = 0; i < n_layers; ++i) {
    while_doing("checking the weights of layer " + std::to_string(i),
                [&] { return model.load_block(i, loader, text); });
    const WeightBinder layer = text.at(model.spec().names_of(i));
    layer.check_inputs_asked();
    layer.release();
  }
  if (with_head) while_doing("checking the output head", [&] { return model.load_head(loader, text, head); });
}

}  // namespace kvcal
