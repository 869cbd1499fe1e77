// cuDNN's attention, for the probes that ask about it.
#pragma once

#include <memory>
#include <string>

#include "bench/probes/probe.h"
#include "kernels/cudnn/cudnn_attention.h"

namespace probe {

/// Null, and a line says why, where it cannot be used.
inline std::unique_ptr<kvcal::cuda::AttentionLibrary> open_attention(const std::string& name) {
  auto library = kvcal::cuda::make_cudnn_attention();
  if (library && !library->identity().empty()) return library;
  print_not_run(name, library ? library->notes().back() : "built without cuDNN");
  return nullptr;
}

}  // namespace probe
