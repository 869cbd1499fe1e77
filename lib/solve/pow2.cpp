#include "solve/pow2.h"

#include <algorithm>
#include <cmath>

#include "base/enum_names.h"
#include "solve/damage.h"
#include "solve/policies.h"

namespace kvcal {
namespace {

// How much larger a rounding error may be. A site that departs from 1.0 depends on the server, and all that lies behind
// it is rounded anew, which alone moves a model's KL by some percent either way: it has to buy more than a tenth of the
// site's error. Once it departs nothing is to be lost: a hundredth of the error is a fiftieth of the KL.
constexpr double kWorthDeparting = 1.1, kAlike = 1.01;

template <class T>
std::vector<T> part_of(const std::vector<T>& all, size_t part, size_t n_parts) {
  const auto n = static_cast<std::ptrdiff_t>(all.size() / n_parts);
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(part) * n;
  return {first, first + n};
}

/// What predictions read of one of so many heads.
SiteStatistics head_of(const SiteStatistics& site, size_t head, size_t n_heads) {
  SiteStatistics one;
  one.n_tokens = site.n_tokens;
  one.heads = part_of(site.heads, head, n_heads);
  one.channels = part_of(site.channels, head, n_heads);
  one.column_norms = part_of(site.column_norms, head, n_heads);
  return one;
}

/// The cache as if it had one head of the site: a key or value head with the query heads that read it, or a query head
/// with the keys that it reads. The row of a latent site is one already.
CacheStatistics alone(const CacheStatistics& cache, CacheSite site, size_t head) {
  CacheStatistics one;
  one.layout = cache.layout;
  const auto n_heads = static_cast<size_t>(cache.layout.n_heads), n_kv = static_cast<size_t>(cache.layout.n_kv_heads);
  const bool of_queries = site == CacheSite::Query;
  const size_t n_parts = of_queries ? n_heads : n_kv, kv_head = of_queries ? head / (n_heads / n_kv) : head;
  for (const CacheSite s : sites_of(cache.layout)) {
    const bool is_row = cache.layout.is_mla() && s != CacheSite::Query;
    one.at(s) = s == CacheSite::Query ? head_of(cache.at(s), head, n_parts)
                                      : head_of(cache.at(s), is_row ? 0 : kv_head, is_row ? 1 : n_kv);
  }
  one.layout.n_heads = cache.layout.n_heads / static_cast<int64_t>(n_parts);
  one.layout.n_kv_heads = 1;
  return one;
}

bool is_within(double factor, const PredictedDamage& damage, const PredictedDamage& least) {
  return damage.noise <= factor * least.noise && damage.rel <= factor * least.rel &&
         damage.rel_raw <= factor * least.rel_raw && damage.flushed_tokens <= least.flushed_tokens;
}

/// One head at powers of two.
class Head {
 public:
  Head(const CacheStatistics& cache, CacheSite site, size_t head, const NumberFormat& format, float least)
      : cache_(alone(cache, site, head)), site_(site), format_(format), least_(damage_at(least)) {}
  bool is_as_good_at(float scale) const {
    return is_within(scale == 1 ? kWorthDeparting : kAlike, damage_at(scale), least_);
  }

 private:
  PredictedDamage damage_at(float scale) const { return predict_damage(cache_, site_, format_, std::span(&scale, 1)); }

  CacheStatistics cache_;
  CacheSite site_;
  const NumberFormat& format_;
  PredictedDamage least_;
};

/// The nearest to 1.0 from `least` on at which all of them are as good.
float nearest_to_one(const std::vector<Head>& heads, float least) {
  float scale = std::max(1.0F, least);
  while (scale > least && !std::ranges::all_of(heads, [&](const Head& h) { return h.is_as_good_at(scale); }))
    scale /= 2;
  return scale;
}

constexpr EnumNames<Departure, 3> kDepartures{"reason", {"clipped", "headroom", "small_values"}};

}  // namespace

std::string_view name_of(Departure departure) { return kDepartures[departure]; }
Departure departure_from_name(std::string_view name) { return kDepartures.find(name); }

std::optional<Departure> departure_of(float scale, double range, const NumberFormat& format) {
  if (scale == 1) return std::nullopt;
  if (scale < 1) return Departure::SmallValues;
  return range > format.max ? Departure::Clipped : Departure::Headroom;
}

double pow2_scale(const PolicyInput& in) {
  int exponent = 0;
  const double fraction = std::frexp(absmax_scale(in), &exponent);  // in [0.5, 1)
  return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

std::vector<float> raised_towards_one(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                      std::vector<float> least) {
  if (std::ranges::min(least) >= 1) return least;
  const size_t n_heads = site == CacheSite::Latent ? 1 : cache.at(site).heads.size();
  std::vector<Head> all;
  for (size_t h = 0; h < n_heads; ++h) {
    const float own = least[least.size() == 1 ? 0 : h];
    Head head(cache, site, h, format, own);
    if (least.size() == 1)
      all.push_back(std::move(head));
    else
      least[h] = nearest_to_one({head}, own);
  }
  if (least.size() == 1) least[0] = nearest_to_one(all, least[0]);
  return least;
}

}  // namespace kvcal
