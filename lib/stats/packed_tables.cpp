// Each array of statistics_layout.h in its order, its number of elements before it. Nothing is named: both sides know.
#include "stats/packed_tables.h"

#include <cstring>

#include "base/error.h"
#include "stats/state_arrays.h"
#include "stats/statistics_checks.h"
#include "stats/statistics_layout.h"

namespace kvcal {
namespace {

int64_t n_prompts(const RunRecord& run) { return static_cast<int64_t>(run.prompt_ids.size()); }

SiteExtents extents_in(const RunRecord& run, const KvLayout& layout, CacheSite site) {
  SiteExtents extents = extents_of(layout, site, run.n_passes, n_prompts(run));
  extents.has_kinds = true;  // of no element where they were not told apart
  return extents;
}

template <class Element>
void append(const std::vector<Element>& array, std::string& bytes) {
  const uint64_t n = array.size();
  bytes.append(reinterpret_cast<const char*>(&n), sizeof n);
  bytes.append(reinterpret_cast<const char*>(array.data()), n * sizeof(Element));
}

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <class Element>
  void read(std::vector<Element>& array) {
    uint64_t n = 0;
    take(&n, sizeof n);
    if (n > rest_.size() / sizeof(Element)) fail_short();
    array.resize(n);
    take(array.data(), n * sizeof(Element));
  }

  bool at_end() const { return rest_.empty(); }

 private:
  [[noreturn]] static void fail_short() { fail("the tables of another part end before they should"); }

  void take(void* to, size_t n) {
    if (n > rest_.size()) fail_short();
    if (n > 0) std::memcpy(to, rest_.data(), n);
    rest_.remove_prefix(n);
  }

  std::string_view rest_;
};

/// Kinds may be absent; everything else has its shape.
void check_elements(const char* name, const Shape& shape, size_t n) {
  const bool open = shape[0] == kAnyExtent;
  const int64_t row = open && shape.rank() == 2 ? shape[1] : 1;
  const auto actual = static_cast<int64_t>(n);
  if (open ? actual % row != 0
           : actual != shape.elements() && !(actual == 0 && std::string_view(name).starts_with("kind_")))
    fail("the tables of another part have " + std::to_string(n) + " elements of " + name + ", expected those of " +
         str(shape));
}

SiteStatistics unpacked_site(Unpacker& from, SiteExtents extents) {
  SiteArrays arrays;
  for_each_tensor(arrays, extents, [&](const char* name, DType, const Shape& shape, auto& array) {
    from.read(array);
    check_elements(name, shape, array.size());
  });
  extents.has_kinds = !arrays.kind_tokens.empty();
  return unflatten(arrays, extents);
}

StateStatistics unpacked_state(Unpacker& from, const StateLayout& layout, const RunRecord& run) {
  SiteArrays arrays;
  for_each_state_tensor(arrays, layout, run.n_passes, n_prompts(run),
                        [&](const char* name, DType, const Shape& shape, auto& array) {
                          from.read(array);
                          check_elements(name, shape, array.size());
                        });
  return unflatten_state(std::move(arrays), layout);
}

}  // namespace

std::string packed_tables(const Statistics& statistics) {
  std::string bytes;
  for (const CacheStatistics& cache : statistics.caches)
    for (const CacheSite site : sites_of(cache.layout)) {
      if (!site_exists(cache.layout, site)) continue;
      const SiteArrays arrays = flatten(cache.at(site));
      for_each_tensor(arrays, extents_in(statistics.run, cache.layout, site),
                      [&](const char*, DType, const Shape&, const auto& array) { append(array, bytes); });
    }
  for (const StateStatistics& state : statistics.states) {
    const SiteArrays arrays = flatten(state.counts);
    for_each_state_tensor(arrays, state.layout, statistics.run.n_passes, n_prompts(statistics.run),
                          [&](const char*, DType, const Shape&, const auto& array) { append(array, bytes); });
  }
  return bytes;
}

Statistics unpacked_tables(std::string_view bytes, const Statistics& like) {
  Unpacker from(bytes);
  Statistics statistics;
  statistics.run = like.run;
  for (const CacheStatistics& cache : like.caches) {
    CacheStatistics& made = statistics.caches.emplace_back();
    made.layout = cache.layout;
    for (const CacheSite site : sites_of(cache.layout))
      if (site_exists(cache.layout, site))
        made.at(site) = unpacked_site(from, extents_in(like.run, cache.layout, site));
  }
  for (const StateStatistics& state : like.states)
    statistics.states.push_back(unpacked_state(from, state.layout, like.run));
  if (!from.at_end()) fail("the tables of another part go on past their end");
  check_statistics(statistics);
  return statistics;
}

}  // namespace kvcal
