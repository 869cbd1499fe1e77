// What libkvcal_cuda.so exports; apps/device.cpp looks it up.
#include "kernels/cuda_ops.h"
#include "kernels/cudnn/cudnn_attention.h"
#include "ops/backend_library.h"

namespace kvcal {

namespace {

std::vector<std::unique_ptr<Ops>> open(Precision precision, std::span<const int> devices,
                                       std::span<const std::filesystem::path> folders) {
  CudaOptions options{.precision = precision};
  options.reader.group = std::make_shared<cuda::ReaderGroup>();
  std::vector<std::unique_ptr<Ops>> opened;
  for (const int device : devices) {
    options.device = device;
    opened.push_back(make_cuda_ops(options, cuda::make_cudnn_attention(folders)));
  }
  return opened;
}

}  // namespace

extern "C" const BackendLibrary* kvcal_cuda_backend() {
  static const BackendLibrary library = {backend_interface(), open};
  return &library;
}

}  // namespace kvcal
