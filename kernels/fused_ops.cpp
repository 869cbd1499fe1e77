// Ops that belong together, in one product and one pass over its result.
#include <algorithm>
#include <vector>

#include "kernels/cuda_backend.h"
#include "kernels/kernels.h"

namespace kvcal::cuda {

/// One weight with the rows of all; the parts are views of it, so that whoever wants one part alone has it.
LinearGroup CudaBackend::do_load_linears(std::span<const HostLinear> weights) {
  const int64_t in = weights[0].weight.dim(1);
  int64_t out = 0;
  bool biased = false;
  DType bias_dtype = activation_dtype();
  for (const HostLinear& w : weights) {
    out += w.weight.dim(0);
    if (!w.bias) continue;
    biased = true;
    if (bias_type(w.bias) == DType::F32) bias_dtype = DType::F32;
  }
  const Owned weight = allocate({out, in}, activation_dtype()), bias = biased ? allocate({out}, bias_dtype) : Owned{};
  const auto part = [&](int64_t from, int64_t n, bool with_bias) {
    Linear linear{in, n, std::make_shared<const Owned>(Owned{weight.view.rows(from, n), weight.memory}), {}};
    if (with_bias) linear.bias = {bias.view.rows(from, n), bias.memory};
    return linear;
  };
  LinearGroup group{{}, part(0, out, biased)};
  int64_t row = 0;
  for (const HostLinear& w : weights) {
    group.parts.push_back(part(row, w.weight.dim(0), static_cast<bool>(w.bias)));
    load_into(weight.view.rows(row, w.weight.dim(0)), w.weight, 0.0f);
    if (w.bias) load_into(bias.view.rows(row, w.weight.dim(0)), w.bias, 0.0f);
    row += w.weight.dim(0);
  }
  return group;
}

Ops::SumAndNorm CudaBackend::do_add_rms_norm(const Tensor& x, const Tensor& y, const Tensor& gain, float eps) {
  const SumAndNorm result{activation(x.shape), activation(x.shape)};
  cuda::add_rms_norm(x.dtype,
                     {data_of(x), data_of(y), data_of(gain), gain.dtype, eps, result.sum.data, result.normed.data},
                     {rows_of(x), width_of(x)}, stream_.get());
  return result;
}

Tensor CudaBackend::do_glu_mlp(const Tensor& x, const GluWeights& w) {
  if (!w.gate_up) return Ops::do_glu_mlp(x, w);
  const Tensor both = do_linear(x, w.gate_up), hidden = activation(with_last(x.shape, w.gate.out));
  cuda::glu_halves(x.dtype, both.data, w.act, hidden.data, {rows_of(hidden), w.gate.out}, stream_.get());
  return do_linear(round_input(hidden, w.down.input), w.down);
}

namespace {

/// One kernel can do it: the norms are of one kind and one width.
bool one_kernel(const LinearGroup& w, const HeadsSpec& spec) {
  constexpr int64_t kWidestHead = 1024;  // whose norm a warp makes
  const HeadsPart* normed = nullptr;
  for (const HeadsPart& p : spec.parts) {
    if (p.head_dim > kWidestHead) return false;
    if (!p.gain) continue;
    if (normed && (normed->head_dim != p.head_dim || normed->gain.dtype != p.gain.dtype)) return false;
    normed = &p;
  }
  return w.all && spec.parts.size() <= kMostHeadsParts;
}

}  // namespace

std::vector<Tensor> CudaBackend::do_project_heads(const Tensor& x, const LinearGroup& w, const HeadsSpec& spec) {
  if (!one_kernel(w, spec)) return Ops::do_project_heads(x, w, spec);
  const Tensor from = do_linear(x, w.all);
  HeadsShape shape{x.dim(0), w.all.out, 0, spec.rope.rotary_dim / 2, spec.rope.interleaved, spec.eps};
  HeadsParts parts;
  DType gain_type = activation_dtype();
  std::vector<Tensor> heads;
  int64_t column = 0;
  for (size_t i = 0; i < spec.parts.size(); ++i) {
    const HeadsPart& p = spec.parts[i];
    const int64_t n = w.parts[i].out / p.head_dim;
    heads.push_back(activation({x.dim(0), n, p.head_dim}));
    if (p.gain) gain_type = p.gain.dtype;
    parts.part[i] = {shape.heads,      n, column, p.head_dim, p.gain ? data_of(p.gain) : nullptr, p.turned,
                     heads.back().data};
    shape.heads += n;
    column += w.parts[i].out;
  }
  cuda::project_heads(x.dtype, from.data, spec.table ? data_of(spec.table) : nullptr, gain_type, parts, shape,
                      stream_.get());
  return heads;
}

}  // namespace kvcal::cuda
