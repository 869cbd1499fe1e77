// What quant_model_description.json says of the cache, against the tensors that vLLM-Ascend takes: it goes by the file,
// and what does not fit is passed over, or taken for something else, mostly without a word.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>

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
  ModelSlimChecks(const FolderUnderTest& f, const Json& description, Report& report)
      : f_(f), description_(description), report_(report) {}

  void int8(const KvLayout& cache) {
    const std::string module = module_name(f_.stored.tensor_prefix, cache);
    for (const auto& [projection, width] :
         {std::pair{".k_proj", cache.head_dim_k}, std::pair{".v_proj", cache.head_dim_v}})
      for (const char* member : {".kv_cache_scale", ".kv_cache_offset"})
        int8_tensor(module + projection + member, cache.n_kv_heads * width,
                    std::string_view(member).ends_with("scale"));
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

 private:
  void int8_tensor(const std::string& name, int64_t n, bool is_scale) {
    const TensorInfo* info = f_.checkpoint.find(name);
    const bool listed = said_of(name) != "none";
    if (!info && !listed) return;  // a layer in 16 bits
    if (!listed) return add(name, "the entry of the tensor", kModelSlimInt8, "none");
    if (!info) return add(name, "the tensor", wanted("F32", n), "none");
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

  std::string said_of(const std::string& key) const {
    const Json* value = find_member(description_, key.c_str());
    return value && value->is_string() ? value->get<std::string>() : "none";
  }

  void add(const std::string& path, const std::string& what, const std::string& expected, const std::string& actual) {
    report_.add({"C22", path, what, expected, actual, 0, f_.path_of(kModelSlimFile)});
  }

  const FolderUnderTest& f_;
  const Json& description_;
  Report& report_;
};

bool any_tensor(const Checkpoint& checkpoint, std::string_view suffix) {
  const auto& names = checkpoint.names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.ends_with(suffix); });
}

/// Which of the two, by the tensors; the file may say otherwise.
std::optional<AscendCache> kind_of(const Checkpoint& checkpoint, const Json& description) {
  if (find_member(description, "fa_quant_type"))
    return std::nullopt;  // of latent attention: other tensors by that name
  if (any_tensor(checkpoint, ".kv_cache_scale") || any_tensor(checkpoint, ".kv_cache_offset")) return AscendCache::Int8;
  if (any_tensor(checkpoint, ".fa_v.scale")) return AscendCache::Mxfp8;
  if (get_string_or(description, "kv_cache_type", "") == kModelSlimInt8) return AscendCache::Int8;
  for (const auto& [key, value] : description.items())
    if (value == kModelSlimMxfp8) return AscendCache::Mxfp8;
  return std::nullopt;
}

/// Of the folder; an empty object where there is no such file.
Json description_in(const FolderUnderTest& f) {
  const std::filesystem::path path = f.checkpoint.folder() / kModelSlimFile;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return Json::object();
  return while_doing(quoted(path.string()), [&] { return parse_json(read_file(path, kMostModelSlimBytes)); });
}

}  // namespace

bool has_modelslim_cache(const FolderUnderTest& f) { return kind_of(f.checkpoint, description_in(f)).has_value(); }

void check_modelslim(const FolderUnderTest& f, Report& report) {
  report.evaluated({"C22"});
  const Json description = description_in(f);
  const std::optional<AscendCache> kind = kind_of(f.checkpoint, description);
  if (!kind) return;
  ModelSlimChecks checks(f, description, report);
  checks.kind(*kind == AscendCache::Int8);
  for (const KvLayout& cache : f.spec.caches) {
    if (cache.is_mla()) continue;
    if (*kind == AscendCache::Int8)
      checks.int8(cache);
    else
      checks.mxfp8(cache);
  }
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
    std::vector<int> expected = value_exponents(l.value, a.quantization);
    for (int& exponent : expected) exponent += kE8m0Bias;
    differs(name, bytes_of(f.checkpoint, *info, static_cast<int64_t>(expected.size())), expected);
  }
}

}  // namespace kvcal
