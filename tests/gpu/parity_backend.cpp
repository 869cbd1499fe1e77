// What the parity tests test on a GPU.
#include "gpu/backend.h"
#include "harness/uploading_ops.h"
#include "kernels/runtime/check.h"
#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

/// Owns the backend it passes calls on to.
class OwningOps final : public UploadingOps {
 public:
  explicit OwningOps(std::unique_ptr<Ops> inner) : UploadingOps(*inner), owned_(std::move(inner)) {}

 private:
  std::unique_ptr<Ops> owned_;
};

}  // namespace

std::unique_ptr<Ops> backend(Precision precision) { return std::make_unique<OwningOps>(gpu_ops(precision)); }

Storage on_host(const Tensor& t) {
  Storage copy(t.shape, t.dtype);
  cuda::check(cudaDeviceSynchronize(), "waiting for a result");
  if (t.bytes() > 0)
    cuda::check(cudaMemcpy(copy.tensor().data, t.data, t.bytes(), cudaMemcpyDefault), "reading a result");
  return copy;
}

}  // namespace kvcal::test
