// What an error says.
#pragma once

#include <string>

#include "base/error.h"

namespace kvcal {

/// The message of the Error that f throws, or "no error".
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace kvcal
