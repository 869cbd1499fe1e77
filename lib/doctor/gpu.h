// Which GPU the server runs on, as far as rules need it: the vendor, and the generation of its kernels.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvcal {

struct Gpu {
  std::string name;    // as it was said
  bool rocm = false;   // AMD
  int capability = 0;  // of NVIDIA: 90 for 9.0
  std::string gfx;     // of AMD: "gfx942"
};

/// "H100", "NVIDIA_H100_80GB_HBM3", "RTX 5090", "sm_120a", "9.0", "MI300X", "gfx942". Nothing for what is not known.
std::optional<Gpu> parse_gpu(std::string_view text);

}  // namespace kvcal
