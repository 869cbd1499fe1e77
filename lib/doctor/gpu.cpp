#include "doctor/gpu.h"

#include <algorithm>
#include <array>

namespace kvcal {
namespace {

struct Model {
  std::string_view part;  // of a name in upper case without separators
  int capability = 0;
  std::string_view gfx = "";
};

// First match counts: "L40S" before "L4", "H20" behind "H200".
constexpr std::array kModels = {
    Model{"MI300", 0, "gfx942"},
    Model{"MI308", 0, "gfx942"},
    Model{"MI325", 0, "gfx942"},
    Model{"MI350", 0, "gfx950"},
    Model{"MI355", 0, "gfx950"},
    Model{"MI210", 0, "gfx90a"},
    Model{"MI250", 0, "gfx90a"},
    Model{"H100", 90},
    Model{"H200", 90},
    Model{"H800", 90},
    Model{"H20", 90},
    Model{"GB10", 121},
    Model{"B300", 103},
    Model{"B200", 100},
    Model{"RTXPRO", 120},
    Model{"RTX50", 120},
    Model{"RTX40", 89},
    Model{"6000ADA", 89},
    Model{"L40", 89},
    Model{"L4", 89},
    Model{"RTX30", 86},
    Model{"RTXA", 86},
    Model{"A100", 80},
    Model{"A800", 80},
    Model{"A10", 86},
    Model{"A40", 86},
    Model{"A30", 80},
    Model{"T4", 75},
    Model{"V100", 70},
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
  const auto model = std::find_if(kModels.begin(), kModels.end(),
                                  [&](const Model& m) { return name.find(m.part) != std::string::npos; });
  if (model == kModels.end()) return std::nullopt;
  gpu.capability = model->capability;
  gpu.gfx = model->gfx;
  gpu.rocm = !model->gfx.empty();
  return gpu;
}

}  // namespace kvcal
