// The CUDA backend, its kernels as nvcc made them, as what the parity tests test.
#include "emulator/emulator.h"
#include "harness/emulated_ops.h"
#include "harness/uploading_ops.h"
#include "parity/op_fixture.h"
#include "ptx/substitute.h"

namespace kvcal::test {
namespace {

class Substitution final : public testing::Environment {
 public:
  void SetUp() override { ptx::take_launches(KVCAL_PTX); }
};

const testing::Environment* const kSubstitution = testing::AddGlobalTestEnvironment(new Substitution);

}  // namespace

std::unique_ptr<Ops> backend(Precision precision) {
  return std::make_unique<OwningUploadingOps>(emulated_cuda_ops(precision));
}

Storage on_host(const Tensor& t) {
  emulator::synchronize_all();
  Storage copy(t.shape, t.dtype);  // device memory of the emulator is host memory
  if (t.bytes() > 0) std::memcpy(copy.tensor().data, t.data, t.bytes());
  return copy;
}

}  // namespace kvcal::test
