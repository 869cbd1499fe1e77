// A bias of keys is in every key at every position: it alone tells whether FP8 can hold them.
#include <algorithm>
#include <cmath>

#include "check/artifact_checks.h"
#include "check/folder_checks.h"
#include "checkpoint/quantization.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;

constexpr int64_t kMostBias = int64_t{1} << 20;
constexpr double kMaxOfFp8 = 448, kDrowns = 100, kLarge = 30;

/// [n_kv_heads * head_dim]; empty where there is none, or where a norm behind it takes its size away.
std::vector<float> bias_of(const FolderUnderTest& f, const KvLayout& cache) {
  const std::string module = module_name(f.stored.tensor_prefix, cache);
  const TensorInfo* info = f.checkpoint.find(module + ".k_proj.bias");
  const bool normed = f.checkpoint.has(module + ".k_norm.weight") || f.checkpoint.has(module + ".k_layernorm.weight");
  if (!info || normed || !is_plain(*info) || info->shape.elements() != cache.n_kv_heads * cache.head_dim_k ||
      info->shape.elements() > kMostBias)
    return {};
  return floats_of(f.checkpoint, *info);
}

double largest_of(const std::vector<float>& bias) {
  double largest = 0;
  for (const float b : bias) largest = std::max(largest, static_cast<double>(std::fabs(b)));
  return largest;
}

/// The largest that any channel of a head can get of the bias at some position: RoPE rotates pairs.
double reach_of(const std::vector<float>& head, const KvLayout& cache) {
  double reach = largest_of(head);
  if (cache.pair_bound == PairBound::None) return reach;
  const bool neox = cache.pair_bound == PairBound::Neox;
  const auto half = static_cast<size_t>(cache.rotary_dim / 2);
  for (size_t i = 0; i < half; ++i) {
    const double a = head[neox ? i : 2 * i], b = head[neox ? i + half : 2 * i + 1];
    reach = std::max(reach, std::sqrt(a * a + b * b));  // of floats: a double holds the squares
  }
  return reach;
}

float scale_of(const FolderUnderTest& f, int cache, size_t head) {
  const auto keys = f.stored.of(cache, Site::Key);
  if (keys.empty() || keys[0]->values.empty()) return 1;
  const std::vector<float>& values = keys[0]->values;
  return values.size() > head ? values[head] : values[0];
}

std::string name_of_bias(const FolderUnderTest& f, const KvLayout& cache) {
  return module_name(f.stored.tensor_prefix, cache) + ".k_proj.bias";
}

void check_layer(const FolderUnderTest& f, const KvLayout& cache, Report& report) {
  const std::vector<float> bias = bias_of(f, cache);
  if (bias.empty()) return;
  const std::string path = name_of_bias(f, cache);
  const auto width = static_cast<size_t>(cache.head_dim_k);
  const double largest = largest_of(bias);
  bool clipped = false;
  for (size_t head = 0; head * width < bias.size(); ++head) {
    const std::vector<float> channels(bias.begin() + static_cast<std::ptrdiff_t>(head * width),
                                      bias.begin() + static_cast<std::ptrdiff_t>((head + 1) * width));
    const double reach = reach_of(channels, cache) * cache.rope_magnitude,
                 limit = kMaxOfFp8 * static_cast<double>(scale_of(f, cache.cache, head));
    if (reach > limit && !clipped)
      report.add("C01", path, "the largest key bias of head " + std::to_string(head), "at most " + number_text(limit),
                 number_text(reach));
    clipped = clipped || reach > limit;
  }
  if (largest > kLarge)
    report.add(largest > kDrowns ? "C02" : "C03", path, "the largest key bias",
               "at most " + number_text(largest > kDrowns ? kDrowns : kLarge), number_text(largest));
}

}  // namespace

std::vector<KeyBias> key_biases(const FolderUnderTest& f) {
  std::vector<KeyBias> found;
  for (const KvLayout& cache : f.spec.caches)
    if (const double largest = cache.is_mla() ? 0 : largest_of(bias_of(f, cache)); largest > 0)
      found.push_back({name_of_bias(f, cache), largest});
  return found;
}

void check_key_bias(const FolderUnderTest& f, Report& report) {
  report.evaluated({"C01", "C02", "C03"});
  for (const KvLayout& cache : f.spec.caches)
    if (!cache.is_mla()) check_layer(f, cache, report);
}

}  // namespace kvcal
