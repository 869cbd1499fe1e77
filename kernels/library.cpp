// What libkvcal_cuda.so exports; apps/device.cpp looks it up.
#include "kernels/cuda_ops.h"
#include "kernels/cudnn/cudnn_attention.h"
#include "ops/backend_library.h"

namespace kvcal {

extern "C" const BackendLibrary* kvcal_cuda_backend() {
  static const BackendLibrary library = {
      backend_interface(), [](Precision precision, int device, std::span<const std::filesystem::path> folders) {
        return make_cuda_ops({.precision = precision, .device = device}, cuda::make_cudnn_attention(folders));
      }};
  return &library;
}

}  // namespace kvcal
