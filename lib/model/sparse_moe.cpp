#include "model/sparse_moe.h"

namespace kvcal {
namespace {

std::vector<GluWeights> load_fused_experts(const MoeDims& d, Ops& op, WeightBinder& w) {
  const Tensor gate_up = w("experts.gate_up_proj", {d.n_experts, 2 * d.ffn, d.hidden});
  const Tensor down = w("experts.down_proj", {d.n_experts, d.hidden, d.ffn});
  std::vector<GluWeights> experts;
  for (int64_t e = 0; e < d.n_experts; ++e) {
    const Tensor both = gate_up.rows(e, 1).reshaped({2 * d.ffn, d.hidden});
    experts.push_back(op.load_glu({both.rows(0, d.ffn), {}}, {both.rows(d.ffn, d.ffn), {}},
                                  {down.rows(e, 1).reshaped({d.hidden, d.ffn}), {}}));
  }
  return experts;
}

std::vector<GluWeights> load_single_experts(const MoeDims& d, Ops& op, WeightBinder& w) {
  std::vector<GluWeights> experts;
  for (int64_t e = 0; e < d.n_experts; ++e)
    experts.push_back(GluMlp(op, w.at("experts." + std::to_string(e) + "."), d.hidden, d.ffn).w);
  return experts;
}

}  // namespace

SparseMoe::SparseMoe(const MoeDims& dims, Ops& op, WeightBinder w)
    : dims_(dims),
      router_(load_projection(op, w, "gate", dims.n_experts, dims.hidden)),
      experts_(w.has("experts.gate_up_proj") ? load_fused_experts(dims, op, w) : load_single_experts(dims, op, w)) {
  if (dims.shared_ffn == 0) return;
  shared_.emplace(op, w.at("shared_expert."), dims.hidden, dims.shared_ffn);
  shared_gate_ = load_projection(op, w, "shared_expert_gate", 1, dims.hidden);
}

Tensor SparseMoe::forward(Ops& op, const Tensor& x) const {
  const Routing routing = op.route(op.linear(x, router_), {.k = dims_.n_active, .renormalize = dims_.renormalize});
  const Tensor routed = op.experts(x, routing, experts_);
  if (!shared_) return routed;
  return op.add(routed, op.sigmoid_mul(shared_->forward(op, x), op.linear(x, shared_gate_)));
}

int64_t SparseMoe::parameters(const MoeDims& d) {
  const int64_t shared = d.shared_ffn ? 3 * d.hidden * d.shared_ffn + d.hidden : 0;
  return d.n_experts * (3 * d.hidden * d.ffn + d.hidden) + shared;
}

}  // namespace kvcal
