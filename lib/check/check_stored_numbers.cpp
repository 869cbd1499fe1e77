// The KV scales of a checkpoint, as numbers.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "check/artifact_checks.h"
#include "check/folder_checks.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;
using Owner = StoredScale::Owner;

constexpr float kMostNeeded = 1.42e36F;  // the largest bf16 by the largest E4M3FNUZ
constexpr float kEpsilonOfFloat = 1.1920929e-07F;

/// measured: whether the magnitudes are known, which then tell whether a scale is too small or too large.
const char* rule_of(float scale, bool measured) {
  if (!std::isfinite(scale)) return "S01";
  if (!(scale > 0)) return "S02";
  if (scale < FLT_MIN) return "N01";
  if (std::fabs(scale / kEpsilonOfFloat - 1) < 1e-3F) return "S03";
  if (scale > kMostNeeded) return "S26";
  if (measured) return nullptr;
  if (scale < 1e-5F) return "S04";
  return scale > 64 ? "S05" : nullptr;
}

/// Half and FP8 reach down to 6e-8 and 2e-3: below, a scale becomes zero or coarse.
bool badly_held(const StoredScale& s, float scale) {
  const bool half = s.dtype == DType::F16, small = s.dtype == DType::F8E4M3 || s.dtype == DType::F8E5M2;
  return small || (half && scale < 6.2e-5F);
}

void check_value(const FolderUnderTest& f, const StoredScale& s, bool measured, Report& report) {
  for (const float scale : s.values) {
    const char* rule = rule_of(scale, true);  // what is no scale at all is not badly held
    if (!rule) rule = badly_held(s, scale) ? "S21" : rule_of(scale, measured);
    if (!rule) continue;
    report.add({rule, s.tensor, std::string(rule_named(rule).meaning), "", number_text(scale), 0, f.path_of(s.file)});
    return;
  }
}

int64_t heads_of(const StoredScale& s, const KvLayout& cache) {
  return s.site == Site::Query ? cache.n_heads : cache.n_kv_heads;
}

void check_count(const FolderUnderTest& f, const StoredScale& s, Report& report) {
  const int64_t n = s.shape.elements(), heads = heads_of(s, f.spec.caches[static_cast<size_t>(s.cache)]);
  if (((n == 1 || n == heads) && !s.values.empty()) || f.spec.caches[static_cast<size_t>(s.cache)].n_heads == 0) return;
  const bool cut = n > 1 && n < heads && heads % n == 0;
  report.add({cut ? "S19" : "S17", s.tensor, "the number of scales", "1 or " + std::to_string(heads),
              std::string(name_of(s.dtype)) + " " + str(s.shape), 0, f.path_of(s.file)});
}

/// Of the caches' own tensors of a site: those that are one plausible number.
std::vector<const StoredScale*> plausible(const FolderUnderTest& f, Site site) {
  std::vector<const StoredScale*> found;
  for (const StoredScale& s : f.stored.tensors)
    if (s.owner == Owner::Cache && s.site == site && !s.zero_point && s.values.size() == 1 &&
        !rule_of(s.values[0], false))
      found.push_back(&s);
  return found;
}

void check_outliers(const FolderUnderTest& f, Site site, Report& report) {
  const auto scales = plausible(f, site);
  if (scales.size() < 4) return;
  std::vector<float> sorted;
  for (const StoredScale* s : scales) sorted.push_back(s->values[0]);
  std::sort(sorted.begin(), sorted.end());
  const float median = sorted[sorted.size() / 2];
  for (const StoredScale* s : scales)
    if (s->values[0] > 16 * median || s->values[0] < median / 16)
      report.add({"S24", s->tensor, "the scale against the median of the layers",
                  number_text(median / 16) + " to " + number_text(16 * median), number_text(s->values[0]), 0,
                  f.path_of(s->file)});
}

/// ModelOpt writes 1.0 wherever 448 is enough: there it was measured.
void check_ones(const FolderUnderTest& f, Report& report) {
  if (f.stored.declaration.is_modelopt()) return;
  bool any = false;
  for (const StoredScale& s : f.stored.tensors) {
    if (s.owner != Owner::Cache || s.zero_point || s.site == Site::Query || s.site == Site::Probability) continue;
    any = true;
    if (std::any_of(s.values.begin(), s.values.end(), [](float x) { return x != 1; }) || s.values.empty()) return;
  }
  if (any)
    report.add({"S08", "", "the scales of keys and values", "measured ones", "1.0 everywhere", 0,
                f.path_of(f.stored.tensors.front().file)});
}

}  // namespace

void check_stored_numbers(const FolderUnderTest& f, bool measured, Report& report) {
  report.evaluated({"N01", "S01", "S02", "S03", "S17", "S19", "S21", "S26"});
  if (!measured) report.evaluated({"S04", "S05", "S08", "S24"});
  for (const StoredScale& s : f.stored.tensors) {
    if (s.zero_point) continue;
    check_value(f, s, measured, report);
    if (s.owner == Owner::Cache && s.site != Site::Probability) check_count(f, s, report);
  }
  if (measured) return;
  check_outliers(f, Site::Key, report);
  check_outliers(f, Site::Value, report);
  check_ones(f, report);
}

}  // namespace kvcal
