// A libkvcal_cuda.so of another build.
#include "ops/backend_library.h"

extern "C" const kvcal::BackendLibrary* kvcal_cuda_backend() {
  static const kvcal::BackendLibrary library = {"0.0.1-000000000000", nullptr};
  return &library;
}
