#include "stats/head_union.h"

#include <algorithm>

#include "base/error.h"
#include "stats/model_info.h"

namespace kvcal {
namespace {

void check_same_recording(const Statistics& rank, const std::string& name, const Statistics& first,
                          const std::string& first_name) {
  const auto refuse = [&](const std::string& why) {
    fail(quoted(name) + " cannot be merged with " + quoted(first_name) + ": " + why);
  };
  if (!rank.run.heads || !first.run.heads) refuse("one has the heads of a rank, the other is no rank's");
  if (rank.run.model != first.run.model) refuse("it is from another model");
  const HeadShare &a = *rank.run.heads, &b = *first.run.heads;
  if (a.size != b.size || a.n_kv_heads != b.n_kv_heads || rank.caches.size() != first.caches.size())
    refuse("the heads are spread over ranks in another way");
  if (rank.run.prompt_ids.size() != first.run.prompt_ids.size() || rank.run.n_passes != first.run.n_passes)
    refuse("it has another number of intervals; are both of one recording, written at the same time?");
  for (size_t c = 0; c < rank.caches.size(); ++c)
    for (const CacheSite site : sites_of(first.caches[c].layout))
      if (rank.caches[c].at(site).n_tokens != first.caches[c].at(site).n_tokens)
        refuse("layer " + std::to_string(first.caches[c].layout.layer) + " has seen another number of tokens");
}

/// By rank. All must be there.
std::vector<const Statistics*> in_order(std::span<const Statistics> ranks, std::span<const std::string> names) {
  std::vector<const Statistics*> all(static_cast<size_t>(ranks[0].run.heads ? ranks[0].run.heads->size : 1));
  for (size_t i = 0; i < ranks.size(); ++i) {
    check_same_recording(ranks[i], names[i], ranks[0], names[0]);
    const Statistics*& place = all[static_cast<size_t>(ranks[i].run.heads->rank)];
    if (place) fail("rank " + std::to_string(ranks[i].run.heads->rank) + " is there twice: " + quoted(names[i]));
    place = &ranks[i];
  }
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank])
      fail("rank " + std::to_string(rank) + " of " + std::to_string(all.size()) + " is missing beside " +
           quoted(names[0]));
  return all;
}

template <class T>
void append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

void raise(const std::vector<uint16_t>& from, std::vector<uint16_t>& to) {
  to.resize(std::max(to.size(), from.size()));
  for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

/// A site of one rank behind those of the ranks before it.
void add(const SiteStatistics& from, SiteStatistics& to) {
  const auto n_before = static_cast<int64_t>(to.heads.size());
  for (HeadStatistics head : from.heads) {
    if (head.where.pass > 0) head.where.head += n_before;
    to.heads.push_back(std::move(head));
  }
  append(from.channels, to.channels);
  append(from.pair_norm, to.pair_norm);
  raise(from.position_absmax, to.position_absmax);
  raise(from.prompt_absmax, to.prompt_absmax);
  to.n_tokens = from.n_tokens;
}

/// Of how many neighboring ranks each has the same KV heads.
size_t copies_of(const KvLayout& layout, int64_t n_kv_heads, size_t n_ranks) {
  const auto size = static_cast<int64_t>(n_ranks);
  if (layout.n_kv_heads * size == n_kv_heads) return 1;
  if (layout.n_kv_heads == 1 && size % n_kv_heads == 0) return n_ranks / static_cast<size_t>(n_kv_heads);  // MLA: all
  fail("layer " + std::to_string(layout.layer) + ": " + std::to_string(layout.n_kv_heads) + " of " +
       std::to_string(n_kv_heads) + " KV heads on each of " + std::to_string(size) + " ranks");
}

CacheStatistics united(std::span<const Statistics* const> ranks, size_t c) {
  CacheStatistics all;
  all.layout = ranks[0]->caches[c].layout;
  const int64_t n_kv_heads = ranks[0]->run.heads->n_kv_heads[c];
  const size_t copies = copies_of(all.layout, n_kv_heads, ranks.size());
  all.layout.n_kv_heads = n_kv_heads;
  all.layout.n_heads *= static_cast<int64_t>(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const CacheSite site : sites_of(all.layout))
      if (site == CacheSite::Query || rank % copies == 0) add(ranks[rank]->caches[c].at(site), all.at(site));
  return all;
}

}  // namespace

Statistics united_heads(std::span<const Statistics> ranks, std::span<const std::string> names) {
  const std::vector<const Statistics*> all = in_order(ranks, names);
  Statistics whole;
  whole.run = all[0]->run;
  whole.run.heads.reset();
  for (size_t c = 0; c < all[0]->caches.size(); ++c) whole.caches.push_back(united(all, c));
  return whole;
}

}  // namespace kvcal
