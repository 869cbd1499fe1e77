// The CPU backend as what the parity tests test.
#include "harness/forwarding_ops.h"
#include "harness/owning_ops.h"
#include "parity/op_fixture.h"

namespace kvcal::test {

std::unique_ptr<Ops> backend(Precision precision) { return std::make_unique<Owning<ForwardingOps>>(cpu(precision)); }

Storage on_host(const Tensor& t) {
  Storage copy(t.shape, t.dtype);
  if (t.bytes() > 0) std::memcpy(copy.tensor().data, t.data, t.bytes());
  return copy;
}

}  // namespace kvcal::test
