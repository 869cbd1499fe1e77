#include "servers/gpu.h"

#include <algorithm>
#include <array>

namespace kvcal {
namespace {

struct KnownGpu {
  std::string_view part;  // of a name in upper case without separators
  int capability = 0;
  std::string_view gfx = "";
  uint64_t mib = 0;  // as nvidia-smi prints it
  bool unified = false;
};

// First match counts: "L40S" before "L4", "H20" behind "H200".
constexpr std::array kKnownGpus = {
    KnownGpu{"MI300", 0, "gfx942"},
    KnownGpu{"MI308", 0, "gfx942"},
    KnownGpu{"MI325", 0, "gfx942"},
    KnownGpu{"MI350", 0, "gfx950"},
    KnownGpu{"MI355", 0, "gfx950"},
    KnownGpu{"MI210", 0, "gfx90a"},
    KnownGpu{"MI250", 0, "gfx90a"},
    KnownGpu{"GH200", 90, "", 97'871},
    KnownGpu{"H100", 90, "", 81'559},
    KnownGpu{"H200", 90, "", 143'771},
    KnownGpu{"H800", 90, "", 81'559},
    KnownGpu{"H20", 90, "", 97'871},
    // No tool prints it; CUDA reports 128,501,256,192 bytes and, elsewhere, more.
    KnownGpu{"GB10", 121, "", 122'548, true},
    KnownGpu{"B300", 103},
    KnownGpu{"B200", 100, "", 183'359},
    KnownGpu{"RTXPRO", 120},
    KnownGpu{"RTX5090", 120, "", 32'607},
    KnownGpu{"RTX50", 120},
    KnownGpu{"RTX4090", 89, "", 24'564},
    KnownGpu{"RTX40", 89},
    KnownGpu{"6000ADA", 89, "", 49'140},
    KnownGpu{"L40", 89, "", 46'068},
    KnownGpu{"L4", 89, "", 23'034},
    KnownGpu{"RTX3090", 86, "", 24'576},
    KnownGpu{"RTX30", 86},
    KnownGpu{"RTXA", 86},
    KnownGpu{"A100", 80, "", 40'960},
    KnownGpu{"A800", 80, "", 81'920},
    KnownGpu{"A10", 86, "", 23'028},
    KnownGpu{"A40", 86, "", 46'068},
    KnownGpu{"A30", 80, "", 24'576},
    KnownGpu{"T4", 75, "", 15'360},
    KnownGpu{"V100", 70, "", 16'384},
};

std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
      out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

/// 90 of "9.0", 120 of "12.0"; 0 of anything else.
int dotted(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot > 2 || text.size() != dot + 2) return 0;
  int number = 0;
  for (const char c : text) {
    if (c == '.') continue;
    if (c < '0' || c > '9') return 0;
    number = number * 10 + (c - '0');
  }
  return number;
}

/// 120 of "SM120A".
int of_sm(std::string_view text) {
  if (!text.starts_with("SM")) return 0;
  int number = 0;
  for (size_t i = 2; i < text.size() && i < 5 && text[i] >= '0' && text[i] <= '9'; ++i)
    number = number * 10 + (text[i] - '0');
  return number >= 50 ? number : 0;
}

/// 80 of "NVIDIA_A100-SXM4-80GB"; 0 where the name says no size.
uint64_t gigabytes_in(std::string_view text) {
  const size_t end = text.find("GB", 1);
  if (end == std::string_view::npos) return 0;
  size_t first = end;
  while (first > 0 && text[first - 1] >= '0' && text[first - 1] <= '9' && end - first < 4) --first;
  uint64_t number = 0;
  for (const char c : text.substr(first, end - first)) number = 10 * number + static_cast<uint64_t>(c - '0');
  return number;
}

/// What the name says where that is another size than the table's: tools print up to 7 % less than names say.
uint64_t memory_of(const KnownGpu& gpu, std::string_view text) {
  const uint64_t known = gpu.mib << 20, named = gigabytes_in(text) << 30;
  const bool same = named == 0 || (known <= named && named - known <= named / 14);
  return same ? known : named;
}

}  // namespace

std::optional<Gpu> parse_gpu(std::string_view text) {
  Gpu gpu;
  gpu.name = text;
  const std::string name = squeezed(text);
  gpu.capability = std::max(dotted(text), of_sm(name));
  if (gpu.capability > 0) return gpu;
  if (const size_t at = name.find("GFX"); at != std::string::npos && name.size() > at + 3) {
    gpu.rocm = true;
    gpu.gfx = "gfx" + name.substr(at + 3);
    std::transform(gpu.gfx.begin(), gpu.gfx.end(), gpu.gfx.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return gpu;
  }
  const auto model = std::find_if(kKnownGpus.begin(), kKnownGpus.end(),
                                  [&](const KnownGpu& m) { return name.find(m.part) != std::string::npos; });
  if (model == kKnownGpus.end()) return std::nullopt;
  gpu.capability = model->capability;
  gpu.gfx = model->gfx;
  gpu.rocm = !model->gfx.empty();
  gpu.memory = memory_of(*model, text);
  gpu.unified = model->unified;
  return gpu;
}

}  // namespace kvcal
