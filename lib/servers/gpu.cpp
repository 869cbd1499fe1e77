#include "servers/gpu.h"

#include <algorithm>
#include <array>
#include <regex>

namespace kvcal {
namespace {

struct KnownGpu {
  const char* name;     // as it is suggested
  const char* pattern;  // whole words of a name in upper case, words divided by a space
  int capability = 0;
  std::string_view gfx = "";
  uint64_t mib = 0;  // as nvidia-smi or rocm-smi print it
  bool unified = false;
};

constexpr std::array kKnownGpus = {
    KnownGpu{"MI300X", "MI ?300X", 0, "gfx942", 196'592},  // rocm-smi: 206,141,652,992 bytes
    KnownGpu{"MI300A", "MI ?300A?", 0, "gfx942"},
    KnownGpu{"MI308X", "MI ?308X?", 0, "gfx942"},
    KnownGpu{"MI325X", "MI ?325X?", 0, "gfx942"},
    KnownGpu{"MI350X", "MI ?350X?", 0, "gfx950"},
    KnownGpu{"MI355X", "MI ?355X?", 0, "gfx950"},
    KnownGpu{"MI210", "MI ?210", 0, "gfx90a"},
    KnownGpu{"MI250X", "MI ?250X?", 0, "gfx90a"},
    KnownGpu{"GH200", "GH200", 90, "", 97'871},
    KnownGpu{"H100", "H100", 90, "", 81'559},
    KnownGpu{"H200", "H200", 90, "", 143'771},
    KnownGpu{"H800", "H800", 90, "", 81'559},
    KnownGpu{"H20", "H20", 90, "", 97'871},
    // No tool prints it; CUDA reports 128,501,256,192 bytes and, elsewhere, more.
    KnownGpu{"GB10", "GB10", 121, "", 122'548, true},
    KnownGpu{"B300", "G?B300", 103},
    KnownGpu{"B200", "G?B200", 100, "", 183'359},
    KnownGpu{"RTX PRO 6000", "RTX ?PRO( ?\\d{4})?", 120},
    KnownGpu{"RTX 5090", "RTX ?5090", 120, "", 32'607},
    KnownGpu{"RTX 5080", "RTX ?50\\d\\d", 120},
    KnownGpu{"RTX 4090", "RTX ?4090", 89, "", 24'564},
    KnownGpu{"RTX 4080", "RTX ?40\\d\\d", 89},
    KnownGpu{"RTX 6000 Ada", "(RTX ?)?6000 ?ADA", 89, "", 49'140},
    KnownGpu{"L40", "L40[SG]?", 89, "", 46'068},
    KnownGpu{"L4", "L4", 89, "", 23'034},
    KnownGpu{"RTX 3090", "RTX ?3090", 86, "", 24'576},
    KnownGpu{"RTX 3080", "RTX ?30\\d\\d", 86},
    KnownGpu{"RTX A6000", "RTX ?A\\d{4}", 86},
    KnownGpu{"A100", "A100", 80, "", 40'960},
    KnownGpu{"A800", "A800", 80, "", 81'920},
    KnownGpu{"A10", "A10G?", 86, "", 23'028},
    KnownGpu{"A40", "A40", 86, "", 46'068},
    KnownGpu{"A30", "A30", 80, "", 24'576},
    KnownGpu{"T4", "T4", 75, "", 15'360},
    KnownGpu{"V100", "V100", 70, "", 16'384},
};

// What may be joined to a name: "H100SXM5", "RTX4070Ti", "RTX 5090D".
constexpr const char* kJoined = "(SXM\\d?|PCIE|NVL|D|TI|SUPER|TI ?SUPER)?";
constexpr size_t kLongestName = 200;  // regular expressions recurse

/// Upper case, other characters than letters and digits as one space.
std::string words_in(std::string_view text) {
  std::string out;
  for (const char c : text)
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
      out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  return out;
}

bool names(std::string_view words, const KnownGpu& gpu) {
  const std::regex whole("(^|.* )" + std::string(gpu.pattern) + kJoined + "( .*|$)");
  return std::regex_match(words.begin(), words.end(), whole);
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

/// 120 of "SM 120A".
int of_sm(const std::string& words) {
  static const std::regex sm("SM ?(\\d{2,3})[A-F]?");
  std::smatch match;
  if (!std::regex_match(words, match, sm)) return 0;
  const int number = std::stoi(match[1]);
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
  if (text.size() > kLongestName) return std::nullopt;
  const std::string name = words_in(text);
  gpu.capability = std::max(dotted(text), of_sm(name));
  if (gpu.capability > 0) return gpu;
  if (const size_t at = name.find("GFX"); at != std::string::npos && name.size() > at + 3) {
    gpu.rocm = true;
    gpu.gfx = "gfx" + name.substr(at + 3, name.find(' ', at) - at - 3);
    std::transform(gpu.gfx.begin(), gpu.gfx.end(), gpu.gfx.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return gpu;
  }
  const auto model = std::ranges::find_if(kKnownGpus, [&](const KnownGpu& known) { return names(name, known); });
  if (model == kKnownGpus.end()) return std::nullopt;
  gpu.capability = model->capability;
  gpu.gfx = model->gfx;
  gpu.rocm = !model->gfx.empty();
  gpu.memory = memory_of(*model, text);
  gpu.unified = model->unified;
  return gpu;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const KnownGpu& gpu : kKnownGpus) names.emplace_back(gpu.name);
  return names;
}

}  // namespace kvcal
