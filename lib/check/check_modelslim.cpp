// What quant_model_description.json says of the cache, against the tensors that vLLM-Ascend takes: it goes by the file,
// and what does not fit is passed over, or taken for something else, mostly without a word.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "artifact/e8m0_scale.h"
#include "artifact/nvfp4_scale.h"
#include "base/read_file.h"
#include "check/artifact_checks.h"
#include "check/folder_checks.h"
#include "servers/ascend_support.h"

namespace kvcal {
namespace {

/// A tensor of one number for each channel; none where it has another type or size.
std::vector<float> scales_of(const Checkpoint& checkpoint, const TensorInfo& info, int64_t n) {
  const bool is_float = info.dtype == DType::F32 || info.dtype == DType::BF16 || info.dtype == DType::F16;
  return is_float && info.shape.elements() == n ? floats_of(checkpoint, info) : std::vector<float>{};
}

std::vector<int> bytes_of(const Checkpoint& checkpoint, const TensorInfo& info, int64_t n) {
  if (info.dtype != DType::U8 || info.shape.elements() != n) return {};
  std::vector<std::byte> bytes(info.bytes);
  checkpoint.read(info.name, 0, bytes);
  std::vector<int> numbers(bytes.size());
  std::ranges::transform(bytes, numbers.begin(), [](std::byte b) { return static_cast<int>(b); });
  return numbers;
}

std::string text_of(float scale) { return number_text(scale); }
std::string text_of(int byte) { return std::to_string(byte); }

class ModelSlimChecks {
 public:
  ModelSlimChecks(const FolderUnderTest& f, Report& report) : f_(f), report_(report) {}

  /// Whether the layer has anything of the cache: one that has nothing stays in 16 bits.
  bool int8(const KvLayout& cache) {
    const std::string module = module_name(f_.stored.tensor_prefix, cache);
    const std::string key = module + ".k_proj.kv_cache_", value = module + ".v_proj.kv_cache_";
    if (!is_named(key + "scale") && !is_named(value + "scale") && !is_named(key + "offset") &&
        !is_named(value + "offset"))
      return false;
    for (const auto& [tensor, width] : {std::pair{key, cache.head_dim_k}, std::pair{value, cache.head_dim_v}}) {
      int8_tensor(tensor + "scale", cache.n_kv_heads * width, true);
      if (is_named(tensor + "offset")) int8_tensor(tensor + "offset", cache.n_kv_heads * width, false);
    }
    return true;
  }

  void mxfp8(const KvLayout& cache) {
    const std::string module = module_name(f_.stored.tensor_prefix, cache), name = module + ".fa_v.scale";
    if (said_of(module + ".quant_type") != kModelSlimMxfp8)
      add(module + ".quant_type", "the kind of the cache", kModelSlimMxfp8, said_of(module + ".quant_type"));
    const int64_t n = cache.n_kv_heads * cache.head_dim_v;
    const TensorInfo* info = f_.checkpoint.find(name);
    if (!info) return add(name, "the scales of values", wanted("U8", n), "none, so 1.0");
    const std::vector<int> bytes = bytes_of(f_.checkpoint, *info, n);
    if (bytes.empty()) return add(name, "the scales of values", wanted("U8", n), str(*info));
    const auto bad = std::ranges::find_if(bytes, [](int b) { return b == 0 || b == 255; });
    if (bad != bytes.end())
      add(name, "byte " + std::to_string(bad - bytes.begin()), "1 to 254, a power of two",
          *bad == 0 ? "0, which is taken for 127" : "255, which is no number");
  }

  void kind(bool is_int8) {
    const std::string said = said_of("kv_cache_type");
    if (is_int8 != (said == kModelSlimInt8))
      add("kv_cache_type", "the kind of the cache", is_int8 ? kModelSlimInt8 : "none", said);
  }

  void no_layer() { add("kv_cache_type", "the layers with scales", "at least one", "none"); }

  void unreadable() { add("", "the description", "a JSON object", f_.modelslim.fault); }

 private:
  bool is_named(const std::string& name) const { return f_.checkpoint.has(name) || said_of(name) != "none"; }

  void int8_tensor(const std::string& name, int64_t n, bool is_scale) {
    const TensorInfo* info = f_.checkpoint.find(name);
    if (!info) return add(name, "the tensor", wanted("F32", n), "none");
    if (said_of(name) == "none") return add(name, "the entry of the tensor", kModelSlimInt8, "none");
    const std::vector<float> values = scales_of(f_.checkpoint, *info, n);
    if (values.empty()) return add(name, "the tensor", wanted("F32", n), str(*info));
    const auto bad =
        std::ranges::find_if(values, [&](float x) { return is_scale ? !(x > 0) || std::isinf(x) : x != 0; });
    if (bad != values.end())
      add(name, "channel " + std::to_string(bad - values.begin()), is_scale ? "a finite number above 0" : "0",
          number_text(*bad));
  }

  static std::string wanted(const char* type, int64_t n) {
    return std::string(type) + " of " + std::to_string(n) + " channels";
  }

  std::string said_of(const std::string& key) const { return f_.modelslim.said_of(key); }

  void add(const std::string& path, const std::string& what, const std::string& expected, const std::string& actual) {
    report_.add({"C23", path, what, expected, actual, 0, f_.path_of(kModelSlimFile)});
  }

  const FolderUnderTest& f_;
  Report& report_;
};

/// Which of the two, by the tensors.
std::optional<AscendCache> kind_of_tensors(const FolderUnderTest& f) {
  if (f.modelslim.words.contains("fa_quant_type"))
    return std::nullopt;  // of latent attention: other tensors by that name
  const std::vector<std::string>& names = f.checkpoint.names();
  const auto any = [&](std::string_view suffix) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.ends_with(suffix); });
  };
  if (any("_proj.kv_cache_scale") || any("_proj.kv_cache_offset")) return AscendCache::Int8;
  return any(".fa_v.scale") ? std::optional(AscendCache::Mxfp8) : std::nullopt;
}

/// By the file where there are no tensors.
std::optional<AscendCache> kind_of(const FolderUnderTest& f) {
  const auto by_tensors = kind_of_tensors(f);
  const auto& words = f.modelslim.words;
  if (by_tensors || words.contains("fa_quant_type")) return by_tensors;
  if (f.modelslim.said_of("kv_cache_type") == kModelSlimInt8) return AscendCache::Int8;
  const bool names_mxfp8 =
      std::any_of(words.begin(), words.end(), [](const auto& word) { return word.second == kModelSlimMxfp8; });
  return names_mxfp8 ? std::optional(AscendCache::Mxfp8) : std::nullopt;
}

bool is_all_latent(const ModelSpec& spec) {
  return std::ranges::all_of(spec.caches, [](const KvLayout& cache) { return cache.is_mla(); });
}

}  // namespace

std::string ModelSlimDescription::said_of(const std::string& key) const {
  const auto found = words.find(key);
  return found == words.end() ? "none" : found->second;
}

ModelSlimDescription read_modelslim(const std::filesystem::path& folder) {
  ModelSlimDescription result;
  const std::filesystem::path path = folder / kModelSlimFile;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return result;
  try {
    const Json json = parse_json(read_file(path, kMostModelSlimBytes));
    if (!json.is_object()) fail("another value");
    for (const auto& [key, value] : json.items())
      if (value.is_primitive() && !value.is_null())
        result.words[key] = value.is_string() ? value.get<std::string>() : value.dump();
  } catch (const Error& e) {
    result.fault = e.what();
  }
  return result;
}

bool has_modelslim_scales(const FolderUnderTest& f) { return kind_of_tensors(f).has_value(); }

void check_modelslim(const FolderUnderTest& f, Report& report) {
  report.evaluated({"C23"});
  ModelSlimChecks checks(f, report);
  if (!f.modelslim.fault.empty()) return checks.unreadable();
  const std::optional<AscendCache> kind = kind_of(f);
  if (!kind || is_all_latent(f.spec)) return;
  checks.kind(*kind == AscendCache::Int8);
  bool any_layer = false;
  for (const KvLayout& cache : f.spec.caches) {
    if (cache.is_mla()) continue;
    if (*kind == AscendCache::Int8)
      any_layer = checks.int8(cache) || any_layer;
    else
      checks.mxfp8(cache);
  }
  if (*kind == AscendCache::Int8 && !any_layer) checks.no_layer();
}

void check_modelslim_against(const FolderUnderTest& f, const Artifact& a, Report& report) {
  if (a.quantization.granularity != Granularity::Channel) return;
  const auto differs = [&](const std::string& name, const auto& found, const auto& expected) {
    for (size_t c = 0; c < found.size() && c < expected.size(); ++c)
      if (found[c] != expected[c])
        return report.add({"V06", name, "channel " + std::to_string(c), text_of(expected[c]), text_of(found[c]), 0,
                           f.checkpoint.folder().string()});
  };
  for (const auto& [l, path] : listed_layers(a)) {
    const std::string module = l.name;
    for (const auto& [name, site] :
         {std::pair{module + ".k_proj.kv_cache_scale", &l.key}, std::pair{module + ".v_proj.kv_cache_scale", &l.value}})
      if (const TensorInfo* info = f.checkpoint.find(name)) {
        std::vector<float> expected = site->scale_per_channel;
        for (float& scale : expected) scale = bf16_rounded_up(scale);
        differs(name, scales_of(f.checkpoint, *info, static_cast<int64_t>(expected.size())), expected);
      }
    const std::string name = module + ".fa_v.scale";
    const TensorInfo* info = f.checkpoint.find(name);
    if (!info) continue;
    if (!has_ranges(a.quantization)) {
      report.add({"V06", name, "the policy of the scale file", "absmax", a.quantization.policy, 0,
                  f.checkpoint.folder().string()});
      continue;
    }
    std::vector<int> expected = value_exponents(l.value, a.quantization);
    for (int& exponent : expected) exponent += kE8m0Bias;
    differs(name, bytes_of(f.checkpoint, *info, static_cast<int64_t>(expected.size())), expected);
  }
}

}  // namespace kvcal
