// The checks of loading weights, and what is made of several.
#include "ops/weight_loader.h"

#include "ops/column_norms.h"
#include "ops/op_check.h"

namespace kvcal {
namespace {

/// Servers that keep the weights as one have one rounding for all.
InputRounding common_input(const OpCheck& c, std::span<const HostLinear> weights) {
  InputRounding input = weights[0].input;
  for (const HostLinear& w : weights) {
    c.require(alike(input, w.input),
              "inputs of weights that multiply the same x are to be rounded in different ways; servers keep these "
              "weights as one and refuse that");
    input = common(input, w.input);
  }
  return input;
}

}  // namespace

std::shared_ptr<const ColumnNorms> WeightLoader::load_column_norms(const Tensor& weight, const Tensor& expansion,
                                                                   int64_t n_heads) {
  const OpCheck c("load_column_norms", activation_dtype());
  for (const Tensor& w : {weight, expansion}) {
    if (!w) continue;
    c.rank("weight", w, 2);
    c.real("weight", w);
    c.off_device("weight", w);
  }
  c.require(n_heads > 0 && weight.dim(1) % n_heads == 0 && (!expansion || expansion.dim(0) == weight.dim(1)),
            "weight " + str(weight) + ", expansion " + str(expansion) + " and " + std::to_string(n_heads) +
                " heads do not fit");
  return do_load_column_norms(weight, expansion, n_heads);
}

std::shared_ptr<const ColumnNorms> WeightLoader::do_load_column_norms(const Tensor& weight, const Tensor& expansion,
                                                                      int64_t n_heads) {
  auto on_host = std::make_shared<std::vector<float>>(column_norms(weight, expansion, n_heads));
  const auto n = static_cast<int64_t>(on_host->size());
  const Owned values = load_f32({on_host->data(), {n_heads, n / n_heads}, DType::F32});
  return std::make_shared<const ColumnNorms>(ColumnNorms{values, std::move(on_host)});
}

Linear WeightLoader::load_linear(const Tensor& weight, const Tensor& bias, const InputRounding& input) {
  const OpCheck c("load_linear", activation_dtype());
  c.linear({weight, bias});
  Linear linear = do_load_linear(weight, bias);
  linear.input = input;
  return linear;
}

Linear WeightLoader::load_linear_f32(const Tensor& weight, const Tensor& bias, const InputRounding& input) {
  const OpCheck c("load_linear_f32", activation_dtype());
  c.linear({weight, bias});
  Linear linear = do_load_linear_f32(weight, bias);
  linear.input = input;
  linear.f32_result = true;
  return linear;
}

Owned WeightLoader::load_gain(const Tensor& weight, Gain kind) {
  const OpCheck c("load_gain", activation_dtype());
  c.rank("weight", weight, 1);
  c.real("weight", weight);
  c.host("weight", weight);
  return kind == Gain::OnePlus ? do_load_vector(weight, DType::F32, 1.0f)
                               : do_load_vector(weight, activation_dtype(), 0.0f);
}

Owned WeightLoader::load_f32(const Tensor& weight) {
  const OpCheck c("load_f32", activation_dtype());
  c.real("weight", weight);
  c.off_device("weight", weight);
  return do_load_vector(weight, DType::F32, 0.0f);
}

LinearGroup WeightLoader::load_linears(std::span<const HostLinear> weights) {
  const OpCheck c("load_linears", activation_dtype());
  c.require(!weights.empty(), "no weights");
  for (const HostLinear& w : weights) {
    c.linear(w);
    c.require(w.weight.dim(1) == weights[0].weight.dim(1),
              "weights " + str(weights[0].weight) + " and " + str(w.weight) + " do not multiply the same x");
  }
  LinearGroup group = do_load_linears(weights);
  const InputRounding input = common_input(c, weights);
  for (Linear& part : group.parts) part.input = input;
  if (group.all) group.all.input = input;
  return group;
}

GluWeights WeightLoader::load_glu(const HostLinear& gate, const HostLinear& up, const HostLinear& down,
                                  Activation act) {
  const HostLinear both[] = {gate, up};
  const LinearGroup group = load_linears(both);
  return {group.parts[0], group.parts[1], load_linear(down.weight, down.bias, down.input), group.all, act};
}

GluWeights WeightLoader::load_mlp(const HostLinear& up, const HostLinear& down, Activation act) {
  return {{}, load_linear(up.weight, up.bias, up.input), load_linear(down.weight, down.bias, down.input), {}, act};
}

LinearGroup WeightLoader::do_load_linears(std::span<const HostLinear> weights) {
  LinearGroup group;
  for (const HostLinear& w : weights) group.parts.push_back(do_load_linear(w.weight, w.bias));
  return group;
}

}  // namespace kvcal
