// Rounds what goes into a cache as a server stores it: what attention then reads is what comes back.
#pragma once

#include <map>

#include "evaluate/moved_rows.h"
#include "evaluate/row_errors.h"
#include "evaluate/variant.h"
#include "model/kv_tap.h"
#include "ops/ops.h"

namespace kvcal {

class RoundingTap final : public KvTap {
 public:
  /// Refers to both. keep_recent: above 0, rows are rounded once their block of so many positions is complete.
  RoundingTap(const Variant& variant, Ops& op, int64_t keep_recent)
      : variant_(variant), op_(op), keep_recent_(keep_recent) {}

  /// From now on the errors of sampled rows are added there; refers to both.
  void measure(const ModelSpec& spec, RowErrors& errors) {
    spec_ = &spec;
    errors_ = &errors;
  }

  Tensor query(int cache, const Tensor& q, const Batch& batch) override;
  Tensor key(int cache, const Tensor& k, const Batch& batch) override;
  Tensor value(int cache, const Tensor& v, const Batch& batch) override;
  Tensor latent(int cache, const Tensor& row, const Batch& batch) override;
  Tensor index_key(const Tensor& key, const Batch& batch) override;
  bool wants_absorbed_queries() const override { return false; }  // but where it rounds them
  bool reads_absorbed_queries(int cache) const override { return sites(cache).query.has_value(); }
  ProbabilityRounding probabilities(int cache) const override { return sites(cache).probabilities; }
  int64_t block() const override { return keep_recent_; }
  Rows stored(int cache, const Rows& block) override;
  void layer_done(int) override {}

 private:
  Tensor round(const std::optional<SiteRounding>& rounding, const Tensor& x);
  struct Shown {
    int cache;
    CacheSite site;
    const std::optional<SiteRounding>& rounding;
  };
  /// What is written: attention may read some of it as it was.
  Tensor written(const Shown& shown, const Tensor& x, const Batch& batch);
  void measure_rows(const Shown& shown, const Tensor& x, const Batch& batch);
  /// Of a row that attention is about to read.
  Tensor now(const std::optional<SiteRounding>& rounding, const Tensor& x) {
    return keep_recent_ > 0 ? x : round(rounding, x);
  }
  const CacheSites& sites(int cache) const { return variant_.caches[static_cast<size_t>(cache)]; }

  const Variant& variant_;
  Ops& op_;
  int64_t keep_recent_;
  const ModelSpec* spec_ = nullptr;
  RowErrors* errors_ = nullptr;  // null: not measured
  MovingMatrices matrices_;
  std::map<const SiteRounding*, MovedRows> moved_;  // made for the first rows
};

}  // namespace kvcal
