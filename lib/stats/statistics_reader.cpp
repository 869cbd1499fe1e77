// Reading *.kvstats from anybody. The container has checked that every tensor's bytes are in the file; here every
// tensor is checked against the one shape that the layouts allow, so memory is bounded by the size of the file.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file_kind.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "stats/state_arrays.h"
#include "stats/statistics_checks.h"
#include "stats/statistics_file.h"
#include "stats/statistics_layout.h"
#include "stats/statistics_metadata.h"

namespace kvcal {
namespace {

/// Of kStatisticsVersion.
constexpr int64_t kKnownMinor = 5;

/// Files since this one have a seal.
constexpr int64_t kFirstSealedMinor = 3;

bool fits(const Shape& shape, const Shape& expected) {
  if (shape.rank() != expected.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (expected[i] != kAnyExtent && expected[i] != shape[i]) return false;
  return true;
}

std::string describe(DType dtype, const Shape& shape) {
  std::string text = str(shape);
  if (shape[0] == kAnyExtent) text.replace(1, 2, "n");
  return std::string(name_of(dtype)) + " " + text;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path) {}

  Statistics read(std::string_view company_prefix);

 private:
  template <class Array>
  void read_tensor(const std::string& name, DType dtype, const Shape& expected, Array& out);
  std::vector<std::string> read_prompt_ids();
  PromptTags read_tags(const std::vector<std::string>& names, size_t n_prompts);
  SiteStatistics read_site(const KvLayout& layout, CacheSite site, const RunRecord& run);
  StateStatistics read_state(const StateLayout& layout, const RunRecord& run);
  void refuse_unknown_tensors(std::string_view company_prefix) const;

  int64_t minor_version_ = 0;

  SafetensorsFile file_;
  std::set<std::string, std::less<>> used_;
};

template <class Array>
void Reader::read_tensor(const std::string& name, DType dtype, const Shape& expected, Array& out) {
  const TensorInfo* info = file_.find(name);
  if (!info) fail("tensor " + quoted(name) + " is missing");
  if (info->dtype != dtype || !fits(info->shape, expected))
    fail("tensor " + quoted(name) + " is " + str(*info) + ", expected " + describe(dtype, expected));
  used_.insert(name);
  out.resize(static_cast<size_t>(info->shape.elements()));
  if (info->bytes > 0) std::memcpy(out.data(), file_.tensor(*info).data, info->bytes);
  file_.drop(*info);
}

std::vector<std::string> Reader::read_prompt_ids() {
  std::string blob;
  std::vector<uint64_t> offsets;
  read_tensor("prompt_ids", DType::U8, {kAnyExtent}, blob);
  read_tensor("prompt_offsets", DType::U64, {kAnyExtent}, offsets);
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != blob.size() ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    fail("prompt_offsets does not ascend from 0 to the " + std::to_string(blob.size()) + " bytes of prompt_ids");
  std::vector<std::string> ids;
  for (size_t i = 1; i < offsets.size(); ++i) ids.push_back(blob.substr(offsets[i - 1], offsets[i] - offsets[i - 1]));
  return ids;
}

PromptTags Reader::read_tags(const std::vector<std::string>& names, size_t n_prompts) {
  PromptTags tags;
  if (names.empty()) return tags;
  std::vector<uint64_t> pairs;
  read_tensor("prompt_tags", DType::U64, {kAnyExtent, 2}, pairs);
  std::pair<uint64_t, uint64_t> before;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const std::pair entry(pairs[i + 1], pairs[i]);
    if (entry.first >= names.size() || entry.second >= n_prompts || (i > 0 && entry <= before))
      fail("prompt_tags has prompt " + std::to_string(entry.second) + ", tag " + std::to_string(entry.first) +
           ", expected ascending tags below " + std::to_string(names.size()) + " and of each ascending prompts below " +
           std::to_string(n_prompts));
    tags[names[entry.first]].push_back(entry.second);
    before = entry;
  }
  if (tags.size() != names.size()) fail("prompt_tags has no prompt of some tag");
  return tags;
}

StateStatistics Reader::read_state(const StateLayout& layout, const RunRecord& run) {
  SiteArrays arrays;
  for_each_state_tensor(arrays, layout, run.n_passes, static_cast<int64_t>(run.prompt_ids.size()),
                        [&](const char* name, DType dtype, const Shape& shape, auto& array) {
                          read_tensor(state_prefix(layout) + name, dtype, shape, array);
                        });
  return while_doing("layer " + std::to_string(layout.layer) + ", state",
                     [&] { return unflatten_state(std::move(arrays), layout); });
}

SiteStatistics Reader::read_site(const KvLayout& layout, CacheSite site, const RunRecord& run) {
  SiteExtents extents = extents_of(layout, site, run.n_passes, static_cast<int64_t>(run.prompt_ids.size()));
  if (minor_version_ < 1) extents.sampled = extents.weighted = extents.has_row_formats = false;
  if (minor_version_ < 2) extents.has_int4 = false;
  if (minor_version_ < 4) extents.octaves_of_rung = 2;
  const std::string prefix = tensor_prefix(layout.cache, site);
  extents.has_kinds = minor_version_ > 0 && file_.find(prefix + "kind_tokens") != nullptr;
  SiteArrays arrays;
  for_each_tensor(arrays, extents, [&](const char* name, DType dtype, const Shape& shape, auto& array) {
    read_tensor(prefix + name, dtype, shape, array);
  });
  return while_doing("cache " + std::to_string(layout.cache) + ", " + std::string(name_of(site)),
                     [&] { return unflatten(arrays, extents); });
}

void Reader::refuse_unknown_tensors(std::string_view company_prefix) const {
  for (const TensorInfo& info : file_.tensors())
    if (!used_.contains(info.name) && (company_prefix.empty() || !info.name.starts_with(company_prefix)))
      fail("tensor " + quoted(info.name) + " does not belong into a statistics file 1." +
           std::to_string(minor_version_));
}

Statistics Reader::read(std::string_view company_prefix) {
  const auto metadata = file_.metadata().find("kvcal");
  if (metadata == file_.metadata().end())
    fail("has no '__metadata__' entry 'kvcal', so it is no statistics file; is it a checkpoint?");
  check_seal(file_);
  StatisticsMetadata parsed = while_doing("metadata", [&] { return parse_metadata(metadata->second); });
  Statistics statistics;
  statistics.run = std::move(parsed.run);
  statistics.run.prompt_ids = read_prompt_ids();
  minor_version_ = parsed.minor_version;
  if (minor_version_ >= kFirstSealedMinor && !is_sealed(file_))
    fail("is damaged: version 1." + std::to_string(minor_version_) + " without the entry '" + kSealKey + "'");
  if (minor_version_ > 0) statistics.run.tags = read_tags(parsed.tags, statistics.run.prompt_ids.size());
  for (const KvLayout& layout : parsed.layouts) {
    CacheStatistics cache;
    cache.layout = layout;
    for (const CacheSite site : sites_of(layout))
      if (site_exists(layout, site)) cache.at(site) = read_site(layout, site, statistics.run);
    statistics.caches.push_back(std::move(cache));
  }
  if (minor_version_ > 4)
    for (const StateLayout& layout : parsed.states) statistics.states.push_back(read_state(layout, statistics.run));
  if (minor_version_ <= kKnownMinor) refuse_unknown_tensors(company_prefix);
  check_statistics(statistics);
  return statistics;
}

}  // namespace

Statistics read_statistics(const std::filesystem::path& path, std::string_view company_prefix) {
  return reading(FileKind::Statistics, kExpectedStatistics, path, [&] {
    Reader reader(path);  // its messages begin with the path
    return while_doing(quoted(path.string()), [&] { return reader.read(company_prefix); });
  });
}

}  // namespace kvcal
