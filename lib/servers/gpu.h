// Which GPU the server runs on: the vendor, the generation of its kernels, and its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvcal {

struct Gpu {
  std::string name;      // as it was said
  bool rocm = false;     // AMD
  int capability = 0;    // of NVIDIA: 90 for 9.0
  std::string gfx;       // of AMD: "gfx942"
  uint64_t memory = 0;   // bytes that tools print; of several sizes the one in the name, or the smallest; 0: not known
  bool unified = false;  // the memory is the system's, too
};

/// "H100", "NVIDIA_H100_80GB_HBM3", "RTX 5090", "sm_120a", "9.0", "MI300X", "gfx942". Nothing for what is not known.
/// Whole words count: "H1000" is no H100.
std::optional<Gpu> parse_gpu(std::string_view text);

/// "9.0" of 90.
std::string capability_text(int capability);

/// The name that is likely meant by one that parse_gpu() does not know; "" for none.
std::string nearest_gpu(std::string_view text);

}  // namespace kvcal
