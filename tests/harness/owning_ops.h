// A backend of one test, and what ends there.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "ops/ops.h"

namespace kvcal::test {

/// Forgets the temporaries of a test; it fails when something was stored behind the end of one.
inline void end_of_test(Ops& op) {
  try {
    op.end_batch();
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

/// Base passes calls on to the backend that this one owns: UploadingOps, ForwardingOps.
template <class Base>
class Owning final : public Base {
 public:
  explicit Owning(std::unique_ptr<Ops> inner) : Base(*inner), owned_(std::move(inner)) {}
  ~Owning() override { end_of_test(*owned_); }

 private:
  std::unique_ptr<Ops> owned_;
};

}  // namespace kvcal::test
