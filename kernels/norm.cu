// Norms over the last dimension: half a warp for a short row (the heads' norms), a block for a long one.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

template <class T, class G, int kRowThreads>
__device__ void scale_row(const T* x, const G* gain, T* y, int64_t width, float inverse, bool vectors) {
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack];
    read_pack(v, x, i, n, vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j)  // the bound is a constant: the pack stays in registers
      if (j < n) v[j] = with_gain<T>(v[j] * inverse, gain[i + j]);
    write_pack(v, y, i, n, vectors);
  });
}

template <class T, class G, int kRowThreads>
__global__ void rms_norm_kernel(const T* __restrict__ x, const G* __restrict__ gain, T* __restrict__ y, int64_t n_rows,
                                int64_t width, float eps, bool vectors) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  const float inverse = inverse_rms(sum_of_squares<kRowThreads>(x, width, vectors), width, eps);
  scale_row<T, G, kRowThreads>(x, gain, y + row * width, width, inverse, vectors);
}

/// The norm reads the rounded sum back: a thread reads what it has written itself.
template <class T, class G, int kRowThreads>
__global__ void add_rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ y, const G* __restrict__ gain,
                                    T* sum, T* __restrict__ normed, int64_t n_rows, int64_t width, float eps,
                                    bool vectors) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  y += row * width;
  sum += row * width;
  float squares = 0.0f;
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack], w[kPack];
    read_pack(v, x, i, n, vectors);
    read_pack(w, y, i, n, vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      v[j] = rounded_to<T>(v[j] + w[j]);
      squares += v[j] * v[j];
    }
    write_pack(v, sum, i, n, vectors);
  });
  const float inverse = inverse_rms(row_reduce<kRowThreads>(squares, Sum()), width, eps);
  scale_row<T, G, kRowThreads>(sum, gain, normed + row * width, width, inverse, vectors);
}

template <class T, int kRowThreads>
__global__ void l2_norm_kernel(const T* __restrict__ x, T* __restrict__ y, int64_t n_rows, int64_t width, float eps,
                               bool vectors) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  const float inverse = 1.0f / sqrtf(sum_of_squares<kRowThreads>(x, width, vectors) + eps);
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack];
    read_pack(v, x, i, n, vectors);
    for (float& e : v) e *= inverse;
    write_pack(v, y + row * width, i, n, vectors);
  });
}

template <class T, int kRowThreads>
__global__ void gated_rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ z, const float* __restrict__ gain,
                                      T* __restrict__ y, int64_t n_rows, int64_t width, float eps, bool use_silu,
                                      bool vectors) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  z += row * width;
  const float inverse = inverse_rms(sum_of_squares<kRowThreads>(x, width, vectors), width, eps);
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack], gate[kPack];
    read_pack(v, x, i, n, vectors);
    read_pack(gate, z, i, n, vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      if (j < n) v[j] *= inverse * gain[i + j] * (use_silu ? silu(gate[j]) : sigmoid(gate[j]));
    write_pack(v, y + row * width, i, n, vectors);
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
  visit_gain(t, gain_type, [&]<class T, class G>(T, G) {
    with_row_threads(rows.count, rows.width, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(rms_norm_kernel<T, G, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(x),
             static_cast<const G*>(gain), static_cast<T*>(y), rows.count, rows.width, eps,
             rows_in_vectors(rows.width, x, y));
    });
  });
}

void add_rms_norm(DType t, const AddedNorm& norm, const Rows& rows, cudaStream_t stream) {
  visit_gain(t, norm.gain_type, [&]<class T, class G>(T, G) {
    with_row_threads(rows.count, rows.width, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(add_rms_norm_kernel<T, G, kRowThreads>), grid, block, 0, stream,
             static_cast<const T*>(norm.x), static_cast<const T*>(norm.y), static_cast<const G*>(norm.gain),
             static_cast<T*>(norm.sum), static_cast<T*>(norm.normed), rows.count, rows.width, norm.eps,
             rows_in_vectors(rows.width, norm.x, norm.y, norm.sum, norm.normed));
    });
  });
}

void l2_norm(DType t, const void* x, float eps, void* y, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(l2_norm_kernel<T, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(x),
             static_cast<T*>(y), rows.count, rows.width, eps, rows_in_vectors(rows.width, x, y));
    });
  });
}

void gated_rms_norm(DType t, const GatedNorm& norm, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(gated_rms_norm_kernel<T, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(norm.x),
             static_cast<const T*>(norm.z), norm.gain, static_cast<T*>(norm.y), rows.count, rows.width, norm.eps,
             norm.activation == GateActivation::Silu, rows_in_vectors(rows.width, norm.x, norm.z, norm.y));
    });
  });
}

}  // namespace kvcal::cuda
