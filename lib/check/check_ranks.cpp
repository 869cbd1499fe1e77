// Scales per head and tensor parallelism: servers deal the heads to ranks, or copy each to several ranks.
#include "check/artifact_checks.h"
#include "check/folder_checks.h"

namespace kvcal {
namespace {

Finding finding_of(const std::string& path, int64_t n_heads, int64_t n_ranks) {
  return {"S18",
          path,
          "the number of KV heads",
          "a divisor or a multiple of " + std::to_string(n_ranks) + " ranks",
          std::to_string(n_heads),
          0,
          ""};
}

}  // namespace

bool can_deal(int64_t n_heads, int64_t n_ranks) { return n_heads % n_ranks == 0 || n_ranks % n_heads == 0; }

void check_ranks(const FolderUnderTest& f, int64_t n_ranks, Report& report) {
  report.evaluated({"S18"});
  for (const StoredScale& s : f.stored.tensors) {
    if (s.owner != StoredScale::Owner::Cache || s.zero_point || s.values.size() < 2) continue;
    const int64_t n_heads = f.spec.caches[static_cast<size_t>(s.cache)].n_kv_heads;
    if (can_deal(n_heads, n_ranks)) continue;
    Finding finding = finding_of(s.tensor, n_heads, n_ranks);
    finding.file = f.path_of(s.file);
    report.add(std::move(finding));
  }
}

void check_ranks(std::string_view text, int64_t n_ranks, Report& report) {
  report.evaluated({"S18"});
  const Artifact a = artifact_from_json(parse_json(text));
  if (a.quantization.granularity != Granularity::Head) return;
  for (size_t i = 0; i < a.layers.size(); ++i)
    if (!can_deal(a.layers[i].n_kv_heads, n_ranks))
      report.add(finding_of("layers[" + std::to_string(i) + "].n_kv_heads", a.layers[i].n_kv_heads, n_ranks));
}

}  // namespace kvcal
