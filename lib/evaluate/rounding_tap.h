// Rounds what goes into a cache as a server stores it: what attention then reads is what comes back.
#pragma once

#include "evaluate/variant.h"
#include "model/kv_tap.h"
#include "ops/ops.h"

namespace kvcal {

class RoundingTap final : public KvTap {
 public:
  /// Refers to both.
  RoundingTap(const Variant& variant, Ops& op) : variant_(variant), op_(op) {}

  Tensor query(int cache, const Tensor& q, const Batch& batch) override;
  Tensor key(int cache, const Tensor& k, const Batch& batch) override;
  Tensor value(int cache, const Tensor& v, const Batch& batch) override;
  Tensor latent(int cache, const Tensor& row, const Batch& batch) override;
  void layer_done(int) override {}

 private:
  Tensor round(const std::optional<SiteRounding>& rounding, const Tensor& x);
  const CacheSites& sites(int cache) const { return variant_.caches[static_cast<size_t>(cache)]; }

  const Variant& variant_;
  Ops& op_;
};

}  // namespace kvcal
