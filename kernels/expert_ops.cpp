// Mixture of experts: routing, and the experts' products over the rows that chose them. Other products with a weight
// for each group of rows.
#include <algorithm>
#include <vector>

#include "kernels/cuda_backend.h"
#include "kernels/kernels.h"

namespace kvcal::cuda {

Routing CudaBackend::do_route(const Tensor& logits, const RoutingSpec& spec) {
  const int64_t tokens = logits.dim(0);
  const Routing r{temporary({tokens, spec.k}, DType::I32), temporary({tokens, spec.k}, DType::F32)};
  cuda::route(logits.dtype, data_of(logits), data_as<int32_t>(r.experts), data_as<float>(r.weights),
              {tokens, logits.dim(1), spec.k, spec.scoring, spec.jitter, spec.renormalize, spec.least_sum, spec.scale,
               spec.bias ? data_as<float>(spec.bias) : nullptr, spec.n_groups, spec.k_groups, spec.group_best},
              stream_.get());
  return r;
}

// ---------------------------------------------------------------- products by group

namespace {

bool in_vectors(const void* begin, int64_t elements, DType t) {
  return reinterpret_cast<uintptr_t>(begin) % 16 == 0 && static_cast<size_t>(elements) * size_of(t) % 16 == 0;
}

}  // namespace

/// The weights make the rest of the product's description.
void CudaBackend::multiply_groups(GroupedProduct p, std::span<const Linear* const> weights) {
  p.n_groups = static_cast<int64_t>(weights.size());
  p.in = weights[0]->in;
  p.out = weights[0]->out;
  p.vectors = in_vectors(p.x, p.x_stride, p.t) && in_vectors(p.x, p.x_group, p.t) && in_vectors(p.x, p.in, p.t);
  p.pairs = p.out % 2 == 0 && p.y_stride % 2 == 0 && p.y_group % 2 == 0 && in_vectors(p.y, 0, p.t);
  std::vector<GroupWeight> list;
  for (const Linear* l : weights) {
    const Tensor& bias = l->bias.view;
    list.push_back({data_of(weight_of(*l)), bias ? data_of(bias) : nullptr, bias && bias.dtype == DType::BF16});
    p.vectors = p.vectors && in_vectors(list.back().w, 0, p.t);
  }
  p.weights = device_copy(list);
  p.warpgroups = warpgroups_;
  grouped_product(p, stream_.get());
}

Tensor CudaBackend::do_linear_per_head(const Tensor& x, std::span<const Linear> heads) {
  const int64_t tokens = x.dim(0), n = x.dim(1), in = x.dim(2), out = heads[0].out;
  const Tensor y = activation({tokens, n, out});
  std::vector<const Linear*> weights;
  for (const Linear& l : heads) weights.push_back(&l);
  GroupedProduct p{};
  p.x = data_of(x);
  p.y = y.data;
  p.t = p.y_type = y.dtype;
  p.rows = tokens;
  p.x_stride = n * in;
  p.x_group = in;
  p.y_stride = n * out;
  p.y_group = out;
  multiply_groups(p, weights);
  return y;
}

/// Rows of x by expert times one weight of each.
void CudaBackend::multiply_experts(const ExpertRows& rows, std::span<const GluWeights> experts,
                                   Linear GluWeights::*weight, const Tensor& to) {
  std::vector<const Linear*> weights;
  for (const GluWeights& e : experts) weights.push_back(&(e.*weight));
  GroupedProduct p{};
  p.x = rows.x.data;
  p.y = to.data;
  p.t = rows.x.dtype;
  p.y_type = to.dtype;
  p.rows = to.dim(0);
  p.first = rows.first;
  p.row_of = rows.row_of;
  p.x_stride = rows.x.dim(1);
  p.y_stride = to.dim(1);
  multiply_groups(p, weights);
}

/// [slots, ffn] of what the experts' first half makes of the rows of x.
Tensor CudaBackend::hidden_of_experts(const ExpertRows& rows, int64_t slots, std::span<const GluWeights> experts) {
  const GluWeights& any = experts[0];
  const int64_t ffn = any.up.out;
  const Tensor hidden = activation({slots, ffn});
  const auto product = [&](Linear GluWeights::*weight) {
    const Tensor y = activation({slots, (any.*weight).out});
    multiply_experts(rows, experts, weight, y);
    return y;
  };
  if (!any.gate) {
    const Tensor up = product(&GluWeights::up);
    cuda::activate(hidden.dtype, up.data, any.act, hidden.data, hidden.elements(), stream_.get());
  } else if (std::all_of(experts.begin(), experts.end(), [](const GluWeights& e) { return bool{e.gate_up}; })) {
    const Tensor both = product(&GluWeights::gate_up);
    cuda::glu_halves(hidden.dtype, both.data, any.act, hidden.data, {slots, ffn}, stream_.get());
  } else {
    const Tensor gate = product(&GluWeights::gate), up = product(&GluWeights::up);
    cuda::glu(hidden.dtype, gate.data, up.data, any.act, hidden.data, hidden.elements(), stream_.get());
  }
  return hidden;
}

/// Nothing waits for the device: which rows are whose stays there.
Tensor CudaBackend::do_experts(const Tensor& x, const Routing& routing, std::span<const GluWeights> experts) {
  const RoutingShape shape{x.dim(0), static_cast<int64_t>(experts.size()), routing.experts.dim(1)};
  const int64_t slots = shape.tokens * shape.k, dim = x.dim(1);
  const Tensor y = activation(x.shape);
  if (slots == 0) return y;
  data_of(x);
  const ExpertSort sort{data_as<int32_t>(temporary({sort_blocks(shape), shape.n_experts}, DType::I32)),
                        data_as<int32_t>(temporary({shape.n_experts + 1}, DType::I32)),
                        data_as<int64_t>(temporary({slots}, DType::I64)),
                        data_as<int32_t>(temporary({slots}, DType::I32))};
  sort_by_expert(data_as<int32_t>(routing.experts), sort, shape, stream_.get());
  const Tensor hidden = hidden_of_experts({x, sort.offsets, sort.token_of_slot}, slots, experts),
               results = temporary({slots, dim}, DType::F32);
  multiply_experts({round_input(hidden, experts[0].down.input), sort.offsets, nullptr}, experts, &GluWeights::down,
                   results);
  combine_experts(x.dtype, data_as<float>(results), data_as<float>(routing.weights), sort.slot_of_choice, y.data, shape,
                  dim, stream_.get());
  return y;
}

}  // namespace kvcal::cuda
