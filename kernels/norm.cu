// Norms over the last dimension: half a warp for a short row (the heads' norms), a block for a long one.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

template <class T, class G, int kRowThreads, bool kWhole>
__device__ void scale_row(const T* x, const G* gain, T* y, int64_t width, float inverse) {
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack], g[kPack];
    read_pack(v, x, part);
    if (gain) read_pack(g, gain, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) v[j] = gain ? with_gain<T, G>(v[j] * inverse, g[j]) : v[j] * inverse;
    write_pack(v, y, part);
  });
}

template <class T, class G, int kRowThreads, bool kWhole>
__global__ void rms_norm_kernel(const T* __restrict__ x, const G* __restrict__ gain, T* __restrict__ y, int64_t n_rows,
                                int64_t width, float eps) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  const float inverse = inverse_rms(sum_of_squares<kRowThreads, kWhole>(x, width), width, eps);
  scale_row<T, G, kRowThreads, kWhole>(x, gain, y + row * width, width, inverse);
}

/// The norm reads the rounded sum back: a thread reads what it has written itself.
template <class T, class G, int kRowThreads, bool kWhole>
__global__ void add_rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ y, const G* __restrict__ gain,
                                    T* sum, T* __restrict__ normed, int64_t n_rows, int64_t width, float eps) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  y += row * width;
  sum += row * width;
  float squares = 0.0f;
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack], w[kPack];
    read_pack(v, x, part);
    read_pack(w, y, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      v[j] = rounded_to<T>(v[j] + w[j]);
      squares = fmaf(v[j], v[j], squares);
    }
    write_pack(v, sum, part);
  });
  const float inverse = inverse_rms(row_reduce<kRowThreads>(squares, Sum()), width, eps);
  scale_row<T, G, kRowThreads, kWhole>(sum, gain, normed + row * width, width, inverse);
}

template <class T, int kRowThreads, bool kWhole>
__global__ void l2_norm_kernel(const T* __restrict__ x, T* __restrict__ y, int64_t n_rows, int64_t width, float eps) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  const float inverse = 1.0f / sqrtf(sum_of_squares<kRowThreads, kWhole>(x, width) + eps);
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack];
    read_pack(v, x, part);
    for (float& e : v) e *= inverse;
    write_pack(v, y + row * width, part);
  });
}

/// The values are read three times, not kept: what was read before is near.
template <class T, int kRowThreads, bool kWhole>
__global__ void layer_norm_kernel(const T* __restrict__ x, const float* __restrict__ gain,
                                  const float* __restrict__ bias, T* __restrict__ y, int64_t n_rows, int64_t width,
                                  int64_t turns, float eps) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  if (gain) gain += row % turns * width;
  const Moments about = moments<kRowThreads, kWhole>(x, width);
  const float mean = about.mean, inverse = inverse_rms(about.squares, width, eps);
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack], g[kPack] = {}, b[kPack] = {};  // nvcc multiplies before it asks for a gain
    read_pack(v, x, part);
    if (gain) read_pack(g, gain, part);
    if (bias) read_pack(b, bias, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      v[j] = (v[j] - mean) * inverse;
      if (gain) v[j] *= g[j];
      if (bias) v[j] += b[j];
    }
    write_pack(v, y + row * width, part);
  });
}

struct Gate {
  bool silu, first;  // first: it multiplies what is normed
  __device__ float operator()(float x) const { return silu ? x * sigmoid(x) : sigmoid(x); }
};

template <class T, int kRowThreads, bool kWhole>
__global__ void gated_rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ z, const float* __restrict__ gain,
                                      T* __restrict__ y, int64_t n_rows, int64_t width, int64_t n_groups, float eps,
                                      Gate gate) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  z += row * width;
  gain += row % n_groups * width;
  float squares = 0.0f;
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack], g[kPack];
    read_pack(v, x, part);
    if (gate.first) read_pack(g, z, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      if (gate.first) v[j] *= gate(g[j]);
      squares = fmaf(v[j], v[j], squares);
    }
  });
  const float inverse = inverse_rms(row_reduce<kRowThreads>(squares, Sum()), width, eps);
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack], g[kPack], w[kPack];
    read_pack(v, x, part);
    read_pack(g, z, part);
    read_pack(w, gain, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float open = gate(g[j]);
      v[j] = gate.first ? v[j] * open * inverse * w[j] : v[j] * inverse * w[j] * open;
    }
    write_pack(v, y + row * width, part);
  });
}

/// f(T, G) as tags.
template <class F>
void visit_gain(DType t, DType gain_type, F&& f) {
  visit_activation(t, [&](auto tag) { visit_activation(gain_type, [&](auto gain_tag) { f(tag, gain_tag); }); });
}

}  // namespace

// ---------------------------------------------------------------- launchers

void rms_norm(DType t, const void* x, const void* gain, DType gain_type, float eps, void* y, const Rows& rows,
              cudaStream_t stream) {
  const bool whole = whole_parts(rows.width, x, gain, y);
  visit_gain(t, gain_type, [&]<class T, class G>(T, G) {
    with_row_threads(rows.count, rows.width, whole,
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(rms_norm_kernel<T, G, kRowThreads, kWhole>), grid, block, 0, stream,
                              static_cast<const T*>(x), static_cast<const G*>(gain), static_cast<T*>(y), rows.count,
                              rows.width, eps);
                     });
  });
}

void add_rms_norm(DType t, const AddedNorm& norm, const Rows& rows, cudaStream_t stream) {
  const bool whole = whole_parts(rows.width, norm.x, norm.y, norm.gain, norm.sum, norm.normed);
  visit_gain(t, norm.gain_type, [&]<class T, class G>(T, G) {
    with_row_threads(
        rows.count, rows.width, whole, [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
          launch(KVCAL_KERNEL(add_rms_norm_kernel<T, G, kRowThreads, kWhole>), grid, block, 0, stream,
                 static_cast<const T*>(norm.x), static_cast<const T*>(norm.y), static_cast<const G*>(norm.gain),
                 static_cast<T*>(norm.sum), static_cast<T*>(norm.normed), rows.count, rows.width, norm.eps);
        });
  });
}

void l2_norm(DType t, const void* x, float eps, void* y, const Rows& rows, cudaStream_t stream) {
  const bool whole = whole_parts(rows.width, x, y);
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, whole,
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(l2_norm_kernel<T, kRowThreads, kWhole>), grid, block, 0, stream,
                              static_cast<const T*>(x), static_cast<T*>(y), rows.count, rows.width, eps);
                     });
  });
}

void layer_norm(DType t, const LayerNorm& norm, const Rows& rows, cudaStream_t stream) {
  const bool whole = whole_parts(rows.width, norm.x, norm.gain, norm.bias, norm.y);
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, whole,
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(layer_norm_kernel<T, kRowThreads, kWhole>), grid, block, 0, stream,
                              static_cast<const T*>(norm.x), norm.gain, norm.bias, static_cast<T*>(norm.y), rows.count,
                              rows.width, norm.turns, norm.eps);
                     });
  });
}

void gated_rms_norm(DType t, const GatedNorm& norm, const Rows& rows, cudaStream_t stream) {
  const Gate gate{norm.activation == GateActivation::Silu, norm.order == GateOrder::BeforeNorm};
  const bool whole = whole_parts(rows.width, norm.x, norm.z, norm.gain, norm.y);
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, whole,
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(gated_rms_norm_kernel<T, kRowThreads, kWhole>), grid, block, 0, stream,
                              static_cast<const T*>(norm.x), static_cast<const T*>(norm.z), norm.gain,
                              static_cast<T*>(norm.y), rows.count, rows.width, norm.n_groups, norm.eps, gate);
                     });
  });
}

}  // namespace kvcal::cuda
