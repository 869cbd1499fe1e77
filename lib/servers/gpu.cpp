#include "servers/gpu.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <regex>

#include "base/error.h"
#include "base/letter_case.h"

namespace kvcal {
namespace {

struct KnownGpu {
  const char* name;     // as it is suggested
  const char* pattern;  // whole words of a name in upper case, words divided by a space
  int capability = 0;
  std::string_view gfx = "";
  uint64_t mib = 0;  // as nvidia-smi or rocm-smi print it; 0: not known
  bool unified = false;
};

// Of GPUs that a name fits, the first with the size that the name says; where it says none, the first.
constexpr std::array kKnownGpus = {
    KnownGpu{"MI300X", "MI ?300X", 0, "gfx942", 196'592},  // rocm-smi: 206,141,652,992 bytes
    KnownGpu{"MI300A", "MI ?300A?", 0, "gfx942"},
    KnownGpu{"MI308X", "MI ?308X?", 0, "gfx942"},
    KnownGpu{"MI325X", "MI ?325X?", 0, "gfx942", 262'128},
    KnownGpu{"MI350X", "MI ?350X?", 0, "gfx950", 294'896},
    KnownGpu{"MI355X", "MI ?355X?", 0, "gfx950", 294'896},
    KnownGpu{"MI210", "MI ?210", 0, "gfx90a"},
    KnownGpu{"MI250X", "MI ?250X?", 0, "gfx90a"},
    KnownGpu{"RX 7900 XTX", "RX ?7900 ?XTX", 0, "gfx1100", 24'560},
    KnownGpu{"RX 7900 XT", "RX ?7900( ?(XT|GRE))?", 0, "gfx1100"},
    KnownGpu{"W7900", "W7900", 0, "gfx1100"},
    KnownGpu{"RX 9070 XT", "RX ?9070( ?(XT|GRE))?", 0, "gfx1201"},
    KnownGpu{"R9700", "R9700", 0, "gfx1201"},
    KnownGpu{"Strix Halo", "STRIX HALO|RYZEN AI MAX( .*)?", 0, "gfx1151", 0, true},
    // "GH200 480GB" names the memory of the CPU beside it.
    KnownGpu{"GH200", "GH200(?!.* 14\\d ?G)", 90, "", 97'871},
    KnownGpu{"GH200 144G", "GH200", 90, "", 146'831},
    KnownGpu{"H100 NVL", "H100( .*)? ?NVL", 90, "", 95'830},
    KnownGpu{"H100", "H100", 90, "", 81'559},
    KnownGpu{"H100 NVL", "H100", 90, "", 95'830},
    KnownGpu{"H200", "H200", 90, "", 143'771},
    KnownGpu{"H800 NVL", "H800( .*)? ?NVL", 90},
    KnownGpu{"H800", "H800", 90, "", 81'559},
    KnownGpu{"H20", "H20(?! 3E)", 90, "", 97'871},
    KnownGpu{"H20 141GB", "H20", 90, "", 143'771},
    // No tool prints it; CUDA reports 128,501,256,192 bytes and, elsewhere, more.
    KnownGpu{"GB10", "GB10|DGX ?SPARK", 121, "", 122'548, true},
    // What tools print of a Jetson's memory differs by release.
    KnownGpu{"Jetson Thor", "(JETSON )?(AGX )?THOR|T5000", 110, "", 0, true},
    KnownGpu{"Jetson Orin", "(JETSON )?(AGX )?ORIN( NX| NANO)?", 87, "", 0, true},
    KnownGpu{"Jetson Xavier", "(JETSON )?(AGX )?XAVIER( NX)?", 72, "", 0, true},
    KnownGpu{"B300", "B300", 103, "", 275'040},
    KnownGpu{"DGX Station", "DGX ?STATION GB300", 103},  // has less than those of racks
    KnownGpu{"GB300", "GB300", 103, "", 284'208},
    KnownGpu{"B200", "B200", 100, "", 183'359},
    KnownGpu{"GB200", "GB200", 100, "", 189'471},
    KnownGpu{"Quadro RTX 8000", "QUADRO RTX ?\\d{4}(?! ADA)|RTX ?8000|TITAN RTX", 75},
    KnownGpu{"RTX PRO 6000", "RTX ?PRO ?6000", 120, "", 97'887},
    KnownGpu{"RTX PRO 5000", "RTX ?PRO( ?\\d{4})?", 120},
    KnownGpu{"RTX 6000D", "RTX ?(PRO ?)?6000D", 120},
    KnownGpu{"RTX 6000 Ada", "(RTX ?)?6000 ?ADA", 89, "", 49'140},
    KnownGpu{"RTX 5000 Ada", "RTX ?[2-5][05]00( SFF)? ?ADA", 89},
    KnownGpu{"RTX 5090", "RTX ?5090", 120, "", 32'607},
    KnownGpu{"RTX 5080", "RTX ?5080", 120, "", 16'303},
    KnownGpu{"RTX 5070 Ti", "RTX ?5070 ?TI", 120, "", 16'303},
    KnownGpu{"RTX 5070", "RTX ?5070", 120, "", 12'227},
    KnownGpu{"RTX 5060", "RTX ?50[5-9]0", 120},
    KnownGpu{"RTX 4090", "RTX ?4090", 89, "", 24'564},
    KnownGpu{"RTX 4080", "RTX ?4080", 89, "", 16'376},
    KnownGpu{"RTX 4070", "RTX ?40[5-9]0", 89},
    KnownGpu{"L40", "L40S?", 89, "", 46'068},
    KnownGpu{"L40G", "L40G", 89},
    KnownGpu{"L20", "L20", 89, "", 46'068},
    KnownGpu{"L4", "L4", 89, "", 23'034},
    KnownGpu{"L2", "L2", 89},
    KnownGpu{"RTX 3090", "RTX ?3090", 86, "", 24'576},
    KnownGpu{"RTX 3080", "RTX ?(30[5-9]|205)0", 86},
    KnownGpu{"RTX A6000", "RTX ?A6000", 86, "", 49'140},
    KnownGpu{"RTX A5000", "RTX ?A5000", 86, "", 24'564},
    KnownGpu{"RTX A4000", "RTX ?A\\d{4}", 86},
    KnownGpu{"A100 40GB", "A100", 80, "", 40'960},
    KnownGpu{"A100 80GB", "A100", 80, "", 81'920},
    KnownGpu{"A800 40GB", "A800", 80, "", 40'960},
    KnownGpu{"A800 80GB", "A800", 80, "", 81'920},
    KnownGpu{"A10", "A10G?", 86, "", 23'028},
    KnownGpu{"A40", "A40", 86, "", 46'068},
    KnownGpu{"A16", "A16|A2", 86},
    KnownGpu{"A30", "A30", 80, "", 24'576},
    KnownGpu{"T4", "T4G?", 75, "", 15'360},
    KnownGpu{"RTX 2080 Ti", "RTX ?2080 ?TI", 75, "", 11'264},
    KnownGpu{"RTX 2080", "RTX ?20[6-8]0", 75},
    KnownGpu{"GTX 1660", "GTX ?16\\d\\d", 75},
    KnownGpu{"TITAN V", "TITAN V", 70},
    KnownGpu{"V100 16GB", "V100S?", 70, "", 16'384},
    KnownGpu{"V100 32GB", "V100S?", 70, "", 32'768},
    KnownGpu{"P100", "P100", 60},
    KnownGpu{"P100 16GB", "P100", 60, "", 16'280},
    KnownGpu{"P40", "P40|P4", 61},
    KnownGpu{"GTX 1080 Ti", "GTX ?1080 ?TI", 61},
    KnownGpu{"GTX 1080", "GTX ?1080", 61, "", 8'192},
    KnownGpu{"GTX 1070", "GTX ?10\\d\\d", 61},
};

// Slices of a GPU by what their names say, "1g.5gb": of A100 and H100, where they differ the smaller ones.
struct Slice {
  uint64_t gigabytes, mib;
};
constexpr std::array kSlices = {Slice{5, 4'864}, Slice{10, 9'728}, Slice{20, 19'968}, Slice{40, 40'192}};

// What may be joined to a name: "H100SXM5", "RTX4070Ti", "RTX 5090D".
constexpr const char* kJoined = "(SXM\\d?|PCIE|NVL|D|TI|SUPER|TI ?SUPER)?";
constexpr size_t kLongestName = 200;  // regular expressions recurse

/// Upper case, other characters than letters and digits as one space.
std::string words_in(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (is_letter_or_digit(c) || (!out.empty() && out.back() != ' ')) out += is_letter_or_digit(c) ? c : ' ';
  return upper_case(out);
}

bool names(std::string_view words, const KnownGpu& gpu) {
  const std::regex whole("(^|.* )(" + std::string(gpu.pattern) + ")" + kJoined + "( .*|$)");
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

/// 80 of "NVIDIA A100 SXM4 80GB"; 0 where the name says no size.
uint64_t gigabytes_in(const std::string& words) {
  static const std::regex size("(^|.* )(\\d{1,4}) ?GB?( .*|$)");
  std::smatch match;
  return std::regex_match(words, match, size) ? std::stoul(match[2]) : 0;
}

/// Tools print up to 7 % less than names say.
bool has_size(const KnownGpu& gpu, uint64_t gigabytes) {
  const uint64_t named = gigabytes << 10;
  return gpu.mib > 0 && gpu.mib <= named && named - gpu.mib <= named / 14;
}

/// "3G 40GB" of a MIG slice.
bool is_slice(const std::string& words) {
  static const std::regex slice("(^|.* )(\\dC )?[1-7]G \\d{1,3}GB( .*|$)");
  return words.find("MIG") != words.npos || std::regex_match(words, slice);
}

/// Laptops' GPUs and shares of a virtualized one ("A10-12Q") have other sizes than the GPU of that name.
bool is_another_size(const std::string& words) {
  static const std::regex other(".* (LAPTOP|MOBILE|\\d{1,3}[ABCQ])( .*|$)");
  return std::regex_match(words, other);
}

/// Of the GPUs that the words name; 0: not known.
uint64_t mib_of(const std::vector<KnownGpu>& named, const std::string& words) {
  const uint64_t gigabytes = gigabytes_in(words);
  if (is_slice(words)) {
    const auto slice = std::ranges::find(kSlices, gigabytes, &Slice::gigabytes);
    return slice == kSlices.end() ? 0 : slice->mib;
  }
  if (is_another_size(words)) return 0;
  const bool of_cpu = named[0].name == std::string_view("GH200") && (gigabytes == 120 || gigabytes == 480);
  if (gigabytes == 0 || of_cpu) return named[0].mib;
  const auto same = std::ranges::find_if(named, [&](const KnownGpu& gpu) { return has_size(gpu, gigabytes); });
  return same == named.end() ? 0 : same->mib;
}

std::string characters_in(std::string_view words, char first, char last) {
  std::string out;
  std::ranges::copy_if(words, std::back_inserter(out), [&](char c) { return c >= first && c <= last; });
  return out;
}

std::string sorted_letters(std::string_view words) {
  std::string out = characters_in(words, 'A', 'Z');
  std::ranges::sort(out);
  return out;
}

/// Whether one is likely meant by the other: another number, or another letter, is another GPU.
bool is_misspelt(const std::string& words, const std::string& known) {
  const std::string a = sorted_letters(words), b = sorted_letters(known);
  const std::string digits = characters_in(words, '0', '9'), expected = characters_in(known, '0', '9');
  const bool one_off = digits == expected || (digits.size() == expected.size() + 1 && digits.starts_with(expected)) ||
                       (expected.size() == digits.size() + 1 && expected.starts_with(digits));
  return one_off && (std::ranges::includes(a, b) || std::ranges::includes(b, a));
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
    gpu.gfx = "gfx" + lower_case(name.substr(at + 3, name.find(' ', at) - at - 3));
    return gpu;
  }
  std::vector<KnownGpu> named;
  std::ranges::copy_if(kKnownGpus, std::back_inserter(named),
                       [&](const KnownGpu& known) { return names(name, known); });
  if (named.empty()) return std::nullopt;
  gpu.capability = named[0].capability;
  gpu.gfx = named[0].gfx;
  gpu.rocm = !gpu.gfx.empty();
  gpu.memory = mib_of(named, name) << 20;
  gpu.unified = named[0].unified;
  return gpu;
}

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string nearest_gpu(std::string_view text) {
  std::vector<std::string> likely;
  for (const KnownGpu& gpu : kKnownGpus)
    if (is_misspelt(words_in(text), words_in(gpu.name))) likely.emplace_back(gpu.name);
  return nearest_match(text, likely);
}

}  // namespace kvcal
