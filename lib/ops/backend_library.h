// A backend in a shared library of its own, opened when it is asked for: what the library exports.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace kvcal {

/// Names the text of the headers that a program and its libraries both compile: with another one they would read each
/// other's objects wrongly.
const char* backend_interface();

struct BackendLibrary {
  const char* interface;  // backend_interface() of the library's build; always first, so that it can always be read

  /// One for each device; several share what they read (WeightReader). folders: of libraries that the system's loader
  /// may not find. Throws Error when one of the devices cannot be used.
  std::vector<std::unique_ptr<Ops>> (*open)(Precision precision, std::span<const int> devices,
                                            std::span<const std::filesystem::path> folders);
};

/// The one symbol of libkvcal_cuda.so.
extern "C" const BackendLibrary* kvcal_cuda_backend();

}  // namespace kvcal
