// The ops that treat every row alone.
#include <vector>

#include "kernels/cuda_backend.h"
#include "kernels/kernels.h"

namespace kvcal::cuda {

// ---------------------------------------------------------------- elementwise

Tensor CudaBackend::do_add(const Tensor& x, const Tensor& y) {
  const Tensor z = activation(x.shape);
  cuda::add(z.dtype, data_of(x), data_of(y), z.data, z.elements(), stream_.get());
  return z;
}

Tensor CudaBackend::do_scale(const Tensor& x, float factor) {
  const Tensor y = temporary(x.shape, x.dtype);
  cuda::scale(y.dtype, data_of(x), factor, y.data, y.elements(), stream_.get());
  return y;
}

Tensor CudaBackend::do_softcap(const Tensor& x, float c) {
  const Tensor y = activation(x.shape);
  cuda::softcap(y.dtype, data_of(x), c, y.data, y.elements(), stream_.get());
  return y;
}

Tensor CudaBackend::do_clamp(const Tensor& x, float least, float most) {
  const Tensor y = activation(x.shape);
  cuda::clamp(y.dtype, data_of(x), {least, most}, y.data, y.elements(), stream_.get());
  return y;
}

Tensor CudaBackend::do_xielu(const Tensor& x, const XieluWeights& w) {
  const Tensor y = activation(x.shape);
  cuda::xielu(y.dtype, data_of(x),
              {data_as<float>(w.alpha_p), data_as<float>(w.alpha_n), data_as<float>(w.beta), data_as<float>(w.eps)},
              y.data, y.elements(), stream_.get());
  return y;
}

Tensor CudaBackend::do_activate(const Tensor& x, Activation act) {
  const Tensor y = activation(x.shape);
  cuda::activate(y.dtype, data_of(x), act, y.data, y.elements(), stream_.get());
  return y;
}

Tensor CudaBackend::do_mul(const Tensor& x, const Tensor& y) {
  const Tensor z = activation(x.shape);
  if (y.elements() == x.elements())
    cuda::mul(z.dtype, data_of(x), data_of(y), y.dtype, z.data, z.elements(), stream_.get());
  else
    cuda::mul_rows(z.dtype, data_of(x), data_of(y), y.dtype, z.data, {rows_of(x), width_of(x)}, stream_.get());
  return z;
}

Tensor CudaBackend::do_glu(const Tensor& gate, const Tensor& up, Activation act) {
  const Tensor z = activation(gate.shape);
  cuda::glu(z.dtype, data_of(gate), data_of(up), act, z.data, z.elements(), stream_.get());
  return z;
}

Tensor CudaBackend::do_sigmoid_mul(const Tensor& x, const Tensor& gate) {
  const Tensor z = activation(x.shape);
  if (gate.elements() == x.elements())
    cuda::sigmoid_mul(z.dtype, data_of(x), data_of(gate), z.data, z.elements(), stream_.get());
  else
    cuda::sigmoid_mul_rows(z.dtype, data_of(x), data_of(gate), z.data, {rows_of(x), width_of(x)}, stream_.get());
  return z;
}

/// b may have one head where a has several.
Tensor CudaBackend::do_join(const Tensor& a, const Tensor& b) {
  const Tensor y = activation(with_last(a.shape, width_of(a) + width_of(b)));
  const auto bytes = [](const Tensor& t) { return width_of(t) * static_cast<int64_t>(size_of(t.dtype)); };
  const int64_t rows = width_of(y) > 0 ? y.elements() / width_of(y) : 0;
  const int64_t sharing = a.shape.rank() == 3 && b.dim(1) == 1 ? a.dim(1) : 1;
  cuda::join({data_of(a), data_of(b), y.data, rows, bytes(a), bytes(b), sharing}, stream_.get());
  return y;
}

Tensor CudaBackend::do_round_input(const Tensor& x, const InputRounding& rounding) {
  const Tensor y = activation(x.shape);
  cuda::round_input(x.dtype, data_of(x), rounding, y.data, {rows_of(x), width_of(x)}, stream_.get());
  return y;
}

Tensor CudaBackend::do_round_cache(const Tensor& x, const CacheRounding& rounding) {
  const Tensor y = activation(x.shape);
  const CacheRows rows{x.dim(0) * x.dim(1), x.dim(1), x.dim(2)};
  if (in_four_bits(rounding.format)) {
    round_in_four_bits(x.dtype, data_of(x), rounding.format, y.data, rows, stream_.get());
    return y;
  }
  CacheScales scales{};
  if (!rounding.is_dynamic())
    scales = {data_as<float>(rounding.write), data_as<float>(rounding.read), rounding.write.elements()};
  cuda::round_cache(x.dtype, data_of(x), rounding.format, scales, y.data, rows, stream_.get());
  return y;
}

// ---------------------------------------------------------------- norms

Tensor CudaBackend::do_rms_norm(const Tensor& x, const Tensor& gain, float eps) {
  const Tensor y = activation(x.shape);
  cuda::rms_norm(x.dtype, data_of(x), gain ? data_of(gain) : nullptr, gain ? gain.dtype : x.dtype, eps, y.data,
                 {rows_of(x), width_of(x)}, stream_.get());
  return y;
}

Tensor CudaBackend::do_layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps) {
  const Tensor y = activation(x.shape);
  const auto floats = [](const Tensor& t) -> const float* { return t ? data_as<float>(t) : nullptr; };
  const int64_t turns = gain && gain.shape.rank() == 2 ? gain.dim(0) : 1;
  cuda::layer_norm(x.dtype, {data_of(x), floats(gain), floats(bias), turns, eps, y.data}, {rows_of(x), width_of(x)},
                   stream_.get());
  return y;
}

Tensor CudaBackend::do_l2_norm(const Tensor& x, float eps) {
  const Tensor y = activation(x.shape);
  cuda::l2_norm(x.dtype, data_of(x), eps, y.data, {rows_of(x), width_of(x)}, stream_.get());
  return y;
}

Tensor CudaBackend::do_gated_rms_norm(const Tensor& x, const Tensor& z, const GatedNormSpec& spec) {
  const Tensor y = activation(x.shape);
  const int64_t width = width_of(x) / spec.n_groups;
  cuda::gated_rms_norm(
      x.dtype,
      {data_of(x), data_of(z), data_as<float>(spec.gain), spec.n_groups, spec.eps, spec.act, spec.order, y.data},
      {width > 0 ? x.elements() / width : 0, width}, stream_.get());
  return y;
}

// ---------------------------------------------------------------- streams

Tensor CudaBackend::do_mix_streams(const Tensor& x, const Tensor& w) {
  const int64_t n = x.dim(1), m = w.dim(1) / n;
  const Tensor y = activation({x.dim(0), m, x.dim(2)});
  cuda::mix_streams(x.dtype, {data_of(x), data_of(w), y.data, n, m}, x.dim(0), x.dim(2), stream_.get());
  return y;
}

Tensor CudaBackend::do_match_rms(const Tensor& x, const Tensor& like, float least) {
  const Tensor y = activation(x.shape);
  cuda::match_rms(x.dtype, data_of(x), data_of(like), least, y.data, {rows_of(x), width_of(x)}, stream_.get());
  return y;
}

Tensor CudaBackend::do_keep_above(const Tensor& x, float deviations) {
  const Tensor y = activation(x.shape);
  cuda::keep_above(x.dtype, data_of(x), deviations, y.data, {rows_of(x), width_of(x)}, stream_.get());
  return y;
}

// ---------------------------------------------------------------- rotary embedding, gates

Tensor CudaBackend::do_rope_table(std::span<const int32_t> positions, int64_t n_tokens, const RopeSpec& spec) {
  const int64_t half = spec.rotary_dim / 2;
  const Tensor table = activation({n_tokens, 2, half});
  std::vector<int32_t> axis(spec.axis.begin(), spec.axis.end());
  axis.resize(static_cast<size_t>(half));  // none given: row 0
  cuda::rope_table(table.dtype,
                   {device_copy(positions), device_copy(spec.inverse_frequency), device_copy(axis), spec.magnitude},
                   table.data, n_tokens, half, stream_.get());
  return table;
}

Tensor CudaBackend::do_rope(const Tensor& x, const Tensor& table, const RopeSpec& spec) {
  const int64_t heads = x.dim(1), head_dim = x.dim(2);
  const Tensor y = activation(x.shape);
  HeadsParts one;
  one.part[0] = {.n_heads = heads, .head_dim = head_dim, .turned = true, .to = y.data};
  cuda::project_heads(x.dtype, data_of(x), data_of(table), x.dtype, one,
                      {x.dim(0), heads * head_dim, heads, spec.rotary_dim / 2, spec.interleaved, 0.0f}, stream_.get());
  return y;
}

Ops::DeltaGates CudaBackend::do_delta_gates(const Tensor& a, const Tensor& b, const Tensor& a_log,
                                            const Tensor& dt_bias) {
  const DeltaGates gates{temporary(a.shape, DType::F32), temporary(a.shape, DType::F32)};
  cuda::delta_gates(a.dtype,
                    {data_of(a), data_of(b), data_as<float>(a_log), data_as<float>(dt_bias), data_as<float>(gates.g),
                     data_as<float>(gates.beta)},
                    a.dim(0), a.dim(1), stream_.get());
  return gates;
}

Ops::DeltaGates CudaBackend::do_channel_delta_gates(const Tensor& a, const Tensor& b, const Tensor& a_log,
                                                    const Tensor& dt_bias) {
  const int64_t tokens = b.dim(0), heads = b.dim(1), dk = a.dim(1) / heads;
  const DeltaGates gates{temporary({tokens, heads, dk}, DType::F32), temporary(b.shape, DType::F32)};
  cuda::channel_delta_gates(a.dtype,
                            {data_of(a), data_of(b), data_as<float>(a_log), data_as<float>(dt_bias),
                             data_as<float>(gates.g), data_as<float>(gates.beta)},
                            tokens, heads, dk, stream_.get());
  return gates;
}

}  // namespace kvcal::cuda
