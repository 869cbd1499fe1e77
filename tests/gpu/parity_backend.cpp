// What the parity tests test on a GPU.
#include "gpu/backend.h"
#include "harness/owning_ops.h"
#include "harness/uploading_ops.h"
#include "kernels/runtime/check.h"
#include "parity/op_fixture.h"

namespace kvcal::test {
std::unique_ptr<Ops> backend(Precision precision) { return std::make_unique<Owning<UploadingOps>>(gpu_ops(precision)); }

Storage on_host(const Tensor& t) {
  Storage copy(t.shape, t.dtype);
  cuda::check(cudaDeviceSynchronize(), "waiting for a result");
  if (t.bytes() > 0)
    cuda::check(cudaMemcpy(copy.tensor().data, t.data, t.bytes(), cudaMemcpyDefault), "reading a result");
  return copy;
}

}  // namespace kvcal::test
