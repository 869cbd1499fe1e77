// Of inputs that may be something else: what they are not is no error.
#pragma once

#include "base/error.h"

namespace kvcal {

/// What f returns; its type's empty value where it throws Error.
template <class F>
auto or_nothing(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace kvcal
