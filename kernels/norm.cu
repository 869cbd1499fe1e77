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
      if (j < n) v[j] = gain ? with_gain<T>(v[j] * inverse, gain[i + j]) : v[j] * inverse;
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

/// The values are read three times, not kept: what was read before is near.
template <class T, int kRowThreads>
__global__ void layer_norm_kernel(const T* __restrict__ x, const float* __restrict__ gain,
                                  const float* __restrict__ bias, T* __restrict__ y, int64_t n_rows, int64_t width,
                                  int64_t turns, float eps, bool vectors) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  if (gain) gain += row % turns * width;
  float sum = 0.0f, squares = 0.0f;
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack];
    read_pack(v, x, i, n, vectors);
    for (const float e : v) sum += e;
  });
  const float mean = row_reduce<kRowThreads>(sum, Sum()) / static_cast<float>(width);
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack];
    read_pack(v, x, i, n, vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      if (j < n) squares += (v[j] - mean) * (v[j] - mean);
  });
  const float inverse = inverse_rms(row_reduce<kRowThreads>(squares, Sum()), width, eps);
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack];
    read_pack(v, x, i, n, vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      if (j >= n) break;
      v[j] = (v[j] - mean) * inverse;
      if (gain) v[j] *= gain[i + j];
      if (bias) v[j] += bias[i + j];
    }
    write_pack(v, y + row * width, i, n, vectors);
  });
}

struct Gate {
  bool silu, first;  // first: it multiplies what is normed
  __device__ float operator()(float x) const { return silu ? cuda::silu(x) : sigmoid(x); }
};

template <class T, int kRowThreads>
__global__ void gated_rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ z, const float* __restrict__ gain,
                                      T* __restrict__ y, int64_t n_rows, int64_t width, int64_t n_groups, float eps,
                                      Gate gate, bool vectors) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  z += row * width;
  gain += row % n_groups * width;
  float squares = 0.0f;
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack], g[kPack];
    read_pack(v, x, i, n, vectors);
    if (gate.first) read_pack(g, z, i, n, vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      if (gate.first) v[j] *= gate(g[j]);
      squares += v[j] * v[j];
    }
  });
  const float inverse = inverse_rms(row_reduce<kRowThreads>(squares, Sum()), width, eps);
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack], g[kPack];
    read_pack(v, x, i, n, vectors);
    read_pack(g, z, i, n, vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      if (j < n)
        v[j] = gate.first ? v[j] * gate(g[j]) * inverse * gain[i + j] : v[j] * inverse * gain[i + j] * gate(g[j]);
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

void layer_norm(DType t, const LayerNorm& norm, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(layer_norm_kernel<T, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(norm.x),
             norm.gain, norm.bias, static_cast<T*>(norm.y), rows.count, rows.width, norm.turns, norm.eps,
             rows_in_vectors(rows.width, norm.x, norm.y));
    });
  });
}

void gated_rms_norm(DType t, const GatedNorm& norm, const Rows& rows, cudaStream_t stream) {
  const Gate gate{norm.activation == GateActivation::Silu, norm.order == GateOrder::BeforeNorm};
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(gated_rms_norm_kernel<T, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(norm.x),
             static_cast<const T*>(norm.z), norm.gain, static_cast<T*>(norm.y), rows.count, rows.width, norm.n_groups,
             norm.eps, gate, rows_in_vectors(rows.width, norm.x, norm.z, norm.y));
    });
  });
}

}  // namespace kvcal::cuda
