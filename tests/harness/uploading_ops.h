// Takes tensors of host memory where a backend wants its own: uploads them first. Results stay where they are.
#pragma once

#include <memory>

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

/// The same, with the backend it passes calls on to.
class OwningUploadingOps final : public UploadingOps {
 public:
  explicit OwningUploadingOps(std::unique_ptr<Ops> inner) : UploadingOps(*inner), owned_(std::move(inner)) {}

 private:
  std::unique_ptr<Ops> owned_;
};

}  // namespace kvcal
