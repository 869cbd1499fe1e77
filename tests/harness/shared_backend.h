// One backend for all tests of a process, where making one takes long: on a GPU that starts libraries and takes memory.
#pragma once

#include <map>
#include <memory>

#include "harness/forwarding_ops.h"
#include "harness/owning_ops.h"
#include "ops/residual_rows.h"

namespace kvcal::test {

/// What a test has of a backend that outlives it: the temporaries it leaves are forgotten when it goes.
class SharedBackend final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  ~SharedBackend() override { end_of_test(inner_); }

  WeightReader* reader() override { return inner_.reader(); }
  DeviceMemory device_memory() const override { return inner_.device_memory(); }
  void reserve(const MemoryReserve& bytes) override { inner_.reserve(bytes); }
  std::unique_ptr<ResidualRows> residual_rows(const ResidualShape& shape, ResidualPlace place) override {
    return inner_.residual_rows(shape, place);
  }
};

/// Of the one that make() makes for this precision when it is first asked for.
inline std::unique_ptr<Ops> shared_backend(Precision precision, std::unique_ptr<Ops> (*make)(Precision)) {
  static std::map<Precision, std::unique_ptr<Ops>> made;
  std::unique_ptr<Ops>& backend = made[precision];
  if (!backend) backend = make(precision);
  return std::make_unique<SharedBackend>(*backend);
}

}  // namespace kvcal::test
