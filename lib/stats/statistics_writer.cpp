// Writing *.kvstats. Tensors come in order of name, and the site's prefix decides that order first, so one site at a
// time is made flat: twice, once for the sizes and once for the bytes, instead of holding a second copy of everything.
#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "checkpoint/safetensors_writer.h"
#include "stats/state_arrays.h"
#include "stats/statistics_checks.h"
#include "stats/statistics_file.h"
#include "stats/statistics_layout.h"
#include "stats/statistics_metadata.h"

namespace kvcal {
namespace {

struct SiteToWrite {
  std::string prefix;
  const SiteStatistics* site;
  SiteExtents extents;
};

std::vector<SiteToWrite> sites_by_name(const Statistics& statistics) {
  std::vector<SiteToWrite> sites;
  const RunRecord& run = statistics.run;
  for (const CacheStatistics& cache : statistics.caches)
    for (const CacheSite site : sites_of(cache.layout))
      if (site_exists(cache.layout, site)) {
        sites.push_back({tensor_prefix(cache.layout.cache, site), &cache.at(site),
                         extents_of(cache.layout, site, run.n_passes, static_cast<int64_t>(run.prompt_ids.size()))});
        sites.back().extents.has_kinds = !cache.at(site).kind_tokens.empty();
      }
  std::ranges::sort(sites, {}, &SiteToWrite::prefix);
  return sites;
}

/// Calls visit(name, dtype, shape, array) for the tensors of all states; of one layer after the other in the order of
/// the names of layers, behind the tensors of caches.
template <class Visit>
void for_each_tensor_of_states(const Statistics& statistics, const Visit& visit) {
  std::vector<const StateStatistics*> states;
  for (const StateStatistics& state : statistics.states) states.push_back(&state);
  std::ranges::sort(states, {}, [](const StateStatistics* s) { return state_prefix(s->layout); });
  for (const StateStatistics* state : states) {
    const SiteArrays arrays = flatten(state->counts);
    for_each_state_tensor(arrays, state->layout, statistics.run.n_passes,
                          static_cast<int64_t>(statistics.run.prompt_ids.size()),
                          [&](const char* name, DType dtype, const Shape& shape, const auto& array) {
                            visit(state_prefix(state->layout) + name, dtype, shape, array);
                          });
  }
}

/// [n, 2]: prompt, tag; by tag.
std::vector<uint64_t> flat_tags(const PromptTags& tags) {
  std::vector<uint64_t> pairs;
  uint64_t index = 0;
  for (const auto& [tag, prompts] : tags) {
    for (const uint64_t prompt : prompts) pairs.insert(pairs.end(), {prompt, index});
    ++index;
  }
  return pairs;
}

/// `shape` with its open extent as the array has it.
Shape actual(const Shape& shape, size_t n_elements) {
  if (shape[0] != kAnyExtent) return shape;
  const auto n = static_cast<int64_t>(n_elements);
  return shape.rank() == 1 ? Shape{n} : Shape{n / shape[1], shape[1]};
}

}  // namespace

void write_statistics(const std::filesystem::path& path, const Statistics& statistics, Existing existing,
                      const StatisticsCompany& company) {
  while_doing("writing " + quoted(path.string()), [&] { check_statistics(statistics); });
  SafetensorsMetadata metadata = company.metadata;
  metadata["kvcal"] = metadata_of(statistics);
  SafetensorsWriter writer(path, existing, std::move(metadata), Seal::Sha256);
  const std::vector<SiteToWrite> sites = sites_by_name(statistics);
  const std::vector<uint64_t> tags = flat_tags(statistics.run.tags);
  std::string ids;
  std::vector<uint64_t> offsets = {0};
  for (const std::string& id : statistics.run.prompt_ids) {
    ids += id;
    offsets.push_back(ids.size());
  }

  for (const SiteToWrite& s : sites) {
    const SiteArrays arrays = flatten(*s.site);
    for_each_tensor(arrays, s.extents, [&](const char* name, DType dtype, const Shape& shape, const auto& array) {
      writer.declare(s.prefix + name, dtype, actual(shape, array.size()));
    });
  }
  for_each_tensor_of_states(statistics,
                            [&](const std::string& name, DType dtype, const Shape& shape, const auto& array) {
                              writer.declare(name, dtype, actual(shape, array.size()));
                            });
  writer.declare("prompt_ids", DType::U8, {static_cast<int64_t>(ids.size())});
  writer.declare("prompt_offsets", DType::U64, {static_cast<int64_t>(offsets.size())});
  if (!tags.empty()) writer.declare("prompt_tags", DType::U64, {static_cast<int64_t>(tags.size() / 2), 2});
  for (const auto& [name, tensor] : company.tensors) writer.declare(name, tensor.dtype, tensor.shape);
  for (const SiteToWrite& s : sites) {
    const SiteArrays arrays = flatten(*s.site);
    for_each_tensor(arrays, s.extents, [&](const char* name, DType, const Shape&, const auto& array) {
      writer.write(s.prefix + name, std::as_bytes(std::span(array)));
    });
  }
  for_each_tensor_of_states(statistics, [&](const std::string& name, DType, const Shape&, const auto& array) {
    writer.write(name, std::as_bytes(std::span(array)));
  });
  writer.write("prompt_ids", std::as_bytes(std::span(ids)));
  writer.write("prompt_offsets", std::as_bytes(std::span(offsets)));
  if (!tags.empty()) writer.write("prompt_tags", std::as_bytes(std::span(tags)));
  for (const auto& [name, tensor] : company.tensors) writer.write(name, tensor);
  writer.commit();
}

}  // namespace kvcal
