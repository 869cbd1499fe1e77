// Takes tensors of host memory where a backend wants its own: uploads them first. Results stay where they are.
#pragma once

#include "harness/forwarding_ops.h"
#include "harness/op_arguments.h"

namespace kvcal {

class UploadingOps : public EachOp<UploadingOps> {
 public:
  using EachOp::EachOp;

 private:
  friend EachOp;

  template <class Op, class... Args>
  auto call(const char*, Op op, const Args&... args) {
    const auto up = [&](const Tensor& t) { return t && t.device == Device::Host ? upload(t) : t; };
    return (inner_.*op)(mapped(of_rounded(args), up)...);
  }
};

}  // namespace kvcal
