// Mixture of experts: routing, and the experts' products over the rows that chose them.
#include <algorithm>
#include <vector>

#include "kernels/cuda_backend.h"
#include "kernels/kernels.h"

namespace kvcal::cuda {
namespace {

/// Slots of expert e: [first[e], first[e + 1]).
struct ExpertRows {
  std::span<const int32_t> first;
  Tensor of(const Tensor& rows, size_t e) const { return rows.rows(first[e], first[e + 1] - first[e]); }
};

/// What lives between two products, in memory that is used twice: the rows and both halves of what they give are not
/// needed any more when the results come.
struct ExpertBuffers {
  Tensor rows;     // [slots, dim]: x of each slot's token
  Tensor both;     // [slots, 2 ffn]: gate, up
  Tensor hidden;   // [slots, ffn]
  Tensor results;  // F32 [slots, dim]

  ExpertBuffers(Ops& op, int64_t slots, int64_t dim, int64_t ffn) {
    const DType t = op.activation_dtype();
    rows = {nullptr, {slots, dim}, t, Device::Cuda};
    both = {nullptr, {slots, 2 * ffn}, t, Device::Cuda};
    results = {nullptr, {slots, dim}, DType::F32, Device::Cuda};
    constexpr size_t kAlignment = 256;
    const size_t second = (rows.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    const size_t bytes = std::max(second + both.bytes(), results.bytes());
    rows.data = results.data = op.temporary({static_cast<int64_t>(bytes)}, DType::U8).data;
    both.data = static_cast<char*>(rows.data) + second;
    hidden = op.temporary({slots, ffn}, t);
  }
};

}  // namespace

Routing CudaBackend::do_route(const Tensor& logits, const RoutingSpec& spec) {
  const int64_t tokens = logits.dim(0);
  const Routing r{temporary({tokens, spec.k}, DType::I32), temporary({tokens, spec.k}, DType::F32)};
  cuda::route(
      logits.dtype, data_of(logits), data_as<int32_t>(r.experts), data_as<float>(r.weights),
      {tokens, logits.dim(1), spec.k, spec.scoring == Scoring::Softmax, spec.renormalize, spec.least_sum, spec.scale,
       spec.bias ? data_as<float>(spec.bias) : nullptr, spec.n_groups, spec.k_groups, spec.group_best},
      stream_.get());
  return r;
}

/// x times the weight of every expert, for the rows that are its own.
void CudaBackend::multiply_experts(const Tensor& x, std::span<const GluWeights> experts, Linear GluWeights::*weight,
                                   std::span<const int32_t> first, const Tensor& to) {
  const ExpertRows slots{first};
  for (size_t e = 0; e < experts.size(); ++e)
    if (first[e + 1] > first[e])
      gemm_->multiply(slots.of(x, e), static_cast<const Owned*>((experts[e].*weight).packed.get())->view, {},
                      slots.of(to, e), stream_.get());
}

Tensor CudaBackend::do_experts(const Tensor& x, const Routing& routing, std::span<const GluWeights> experts) {
  const RoutingShape shape{x.dim(0), static_cast<int64_t>(experts.size()), routing.experts.dim(1)};
  const int64_t slots = shape.tokens * shape.k, dim = x.dim(1), ffn = experts[0].gate.out;
  const Tensor y = activation(x.shape);
  if (slots == 0) return y;
  const Tensor offsets = temporary({shape.n_experts + 1}, DType::I32);
  const ExpertSort sort{data_as<int32_t>(temporary({sort_blocks(shape), shape.n_experts}, DType::I32)),
                        data_as<int32_t>(offsets), data_as<int64_t>(temporary({slots}, DType::I64)),
                        data_as<int32_t>(temporary({slots}, DType::I32))};
  sort_by_expert(data_as<int32_t>(routing.experts), sort, shape, stream_.get());
  const ExpertBuffers b(*this, slots, dim, ffn);
  cuda::take_rows(data_of(x), b.rows.data, sort.token_of_slot, slots, static_cast<int64_t>(x.bytes()) / x.dim(0),
                  stream_.get());

  std::vector<int32_t> first(experts.size() + 1);  // the products' extents have to be known here: one wait a call
  download(offsets, {first.data(), offsets.shape, DType::I32});
  if (std::all_of(experts.begin(), experts.end(), [](const GluWeights& e) { return bool{e.gate_up}; })) {
    multiply_experts(b.rows, experts, &GluWeights::gate_up, first, b.both);
    cuda::glu_halves(x.dtype, b.both.data, experts[0].act, b.hidden.data, {slots, ffn}, stream_.get());
  } else {
    const Tensor gate{b.both.data, b.hidden.shape, x.dtype, Device::Cuda}, up = activation(b.hidden.shape);
    multiply_experts(b.rows, experts, &GluWeights::gate, first, gate);
    multiply_experts(b.rows, experts, &GluWeights::up, first, up);
    cuda::glu(x.dtype, gate.data, up.data, experts[0].act, b.hidden.data, b.hidden.elements(), stream_.get());
  }
  multiply_experts(b.hidden, experts, &GluWeights::down, first, b.results);
  combine_experts(x.dtype, data_as<float>(b.results), data_as<float>(routing.weights), sort.slot_of_choice, y.data,
                  shape, dim, stream_.get());
  return y;
}

}  // namespace kvcal::cuda
