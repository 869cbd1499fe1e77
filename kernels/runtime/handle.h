// Owns one object of CUDA; moving transfers it, destruction never throws.
#pragma once

#include <utility>

#include "kernels/runtime/check.h"

namespace kvcal::cuda {

template <class H, cudaError_t (*Destroy)(H)>
class Handle {
 public:
  explicit Handle(H h = {}) : h_(h) {}
  Handle(Handle&& o) noexcept : h_(std::exchange(o.h_, H{})) {}
  Handle& operator=(Handle&& o) noexcept {
    std::swap(h_, o.h_);
    return *this;
  }
  ~Handle() {
    if (h_) static_cast<void>(Destroy(h_));
  }
  H get() const { return h_; }

 private:
  H h_;
};

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using DeviceBytes = Handle<void*, cudaFree>;

inline Stream make_stream() {
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "creating a stream");
  return Stream(stream);
}

}  // namespace kvcal::cuda
