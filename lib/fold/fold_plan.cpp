#include "fold/fold_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "fold/site_fold.h"
#include "solve/solution.h"

namespace kvcal {
namespace {

void check_is_of(const Statistics& statistics, const ModelInfo& model) {
  const std::optional<ModelInfo>& measured = statistics.run.model;
  if (!measured) fail("the statistics were merged from different models; measure this one");
  const bool same =
      measured->config_sha256 == model.config_sha256 && measured->weights_fingerprint == model.weights_fingerprint;
  if (!same)
    fail("the statistics are from another model: " + quoted(measured->architecture) + ", weights " +
         measured->weights_fingerprint.substr(0, 12) + ", the checkpoint is " + quoted(model.architecture) + ", " +
         model.weights_fingerprint.substr(0, 12) + "; calibrate this one (--stats)");
}

bool is_zero(const std::vector<int>& exponents) {
  return std::ranges::all_of(exponents, [](int e) { return e == 0; });
}

/// Why the tensors cannot be multiplied exactly; "" where they can.
std::string inexact(const Checkpoint& checkpoint, const std::vector<TensorFold>& tensors) {
  for (const TensorFold& t : tensors) {
    if (is_exact(checkpoint, t, Subnormals::Refuse)) continue;
    if (t.one_plus) return "keys are normed with a gain of 1 + w: a power of two times that is no such w";
    return "numbers of " + quoted(t.name) + " would leave the normal range of " +
           std::string(name_of(checkpoint.find(t.name)->dtype));
  }
  return "";
}

/// From the balance asked for to the coarsest.
std::vector<Balance> balances_from(Balance wanted) {
  std::vector<Balance> balances;
  for (int b = static_cast<int>(wanted); b >= 0; --b) balances.push_back(static_cast<Balance>(b));
  return balances;
}

class Planner {
 public:
  Planner(const OpenedModel& model, const FoldOptions& options, const SolveOptions& solving)
      : model_(model),
        options_(options),
        solving_(solving),
        format_(number_format(options.format)),
        folder_(model.checkpoint) {}

  void add(const CacheStatistics& cache, const SolvedCache& solved) {
    const KvLayout& layout = model_.spec().caches[static_cast<size_t>(cache.layout.cache)];
    const FoldedCache folded{model_.spec(), layout, folder_, model_.weights.prefix.model};
    if (layout.is_mla()) {
      add(cache, CacheSite::Latent, solved.latent.assessment, latent_weights(folded), folded);
      add(cache, CacheSite::Rope, solved.latent.assessment, rope_weights(folded), folded);
    } else {
      add(cache, CacheSite::Key, solved.key.assessment, key_weights(folded), folded);
      add(cache, CacheSite::Value, solved.value.assessment, value_weights(folded), folded);
    }
  }

  FoldPlan take() {
    for (auto& [place, fold] : merged_) plan_.tensors.push_back(std::move(fold));
    return std::move(plan_);
  }

 private:
  void add(const CacheStatistics& cache, CacheSite site, const Assessment& assessed, const SiteWeights& weights,
           const FoldedCache& folded) {
    const ScaleNeed need = assessed.scale;
    FoldedSite result{folded.layout.layer, site, heads_of(folded.layout, site), options_.balance, {}, false, ""};
    result.exponents.assign(cache.at(site).channels.size(), 0);
    if (need == ScaleNeed::Any && !options_.force) {
      result.why = "scale 1.0 is as good as any";
    } else if (const std::string why = first_obstacle(weights, folded); !why.empty()) {
      result.why = why;
    } else {
      fold(cache, weights, result);
    }
    result.left_to_scales = need == ScaleNeed::Needed && !result.is_folded();
    if (!cache.layout.is_mla() && is_worse_at_its_place(cache, result, assessed)) {
      result.left_to_scales = true;
      result.why = "its place is still clearly worse than its scale: few channels are far above the others";
    }
    plan_.sites.push_back(std::move(result));
  }

  /// By channel there is no scale per head to judge it by, and no channel far above the others.
  bool is_worse_at_its_place(const CacheStatistics& cache, const FoldedSite& site, const Assessment& assessed) const {
    if (!site.is_folded() || site.balance == Balance::Channel) return false;
    std::vector<float> scales;
    const size_t width = site.exponents.size() / static_cast<size_t>(site.n_heads);
    for (size_t i = 0; i < site.exponents.size(); i += width) scales.push_back(std::ldexp(1.0f, -site.exponents[i]));
    const Assessment placed = assess(cache, site.site, solving_, scales);
    // The site is folded since its scale is needed: a third more than at the scale, of what is felt, is too much.
    constexpr double kWorse = 4.0 / 3, kFelt = 0.5;
    return placed.at_scale.severity > std::max(kFelt, kWorse * assessed.at_scale.severity);
  }

  static std::string first_obstacle(const SiteWeights& weights, const FoldedCache& folded) {
    const std::string& model = folded.owner().attention.obstacle;
    return model.empty() ? weights.obstacle : model;
  }

  void fold(const CacheStatistics& cache, const SiteWeights& weights, FoldedSite& result) {
    for (const Balance balance : balances_from(options_.balance)) {
      const std::vector<int> exponents = place(cache, result.site, format_, balance, weights.limits);
      if (is_zero(exponents)) {
        result.why = "its values lie there already";
        return;
      }
      Folded folded = weights.fold(exponents);
      std::string why = folded.obstacle.empty() ? inexact(model_.checkpoint, folded.tensors) : folded.obstacle;
      if (why.empty()) {
        result.balance = balance;
        result.exponents = exponents;
        merge(folded.tensors);
        std::ranges::move(folded.layers, std::back_inserter(plan_.layers));
        return;
      }
      if (result.why.empty()) result.why = std::move(why);
    }
  }

  void merge(const std::vector<TensorFold>& tensors) {
    for (const TensorFold& t : tensors) {
      const TensorFold empty{t.name, t.axis, {}, t.one_plus};
      TensorFold& fold = merged_.try_emplace({t.name, t.axis}, empty).first->second;
      std::vector<int>& all = fold.exponents;
      all.resize(t.exponents.size(), 0);
      for (size_t i = 0; i < all.size(); ++i) all[i] += t.exponents[i];
    }
  }

  const OpenedModel& model_;
  const FoldOptions& options_;
  const SolveOptions& solving_;
  const NumberFormat& format_;
  WeightFolder folder_;
  FoldPlan plan_;
  std::map<std::pair<std::string, Axis>, TensorFold> merged_;
};

}  // namespace

bool FoldedSite::is_folded() const { return !is_zero(exponents); }

FoldPlan plan_fold(const OpenedModel& model, const Statistics& statistics, const FoldOptions& options) {
  check_is_of(statistics, describe(model));
  SolveOptions solving;
  solving.format = options.format;
  const Solution solution = solve(statistics, solving);
  Planner planner(model, options, solving);
  for (size_t i = 0; i < statistics.caches.size(); ++i)
    if (i < model.spec().caches.size())  // else of an MTP layer that this copy leaves out
      planner.add(statistics.caches[i], solution.caches[i]);
  return planner.take();
}

}  // namespace kvcal
