#include "evaluate/variant_tap.h"

#include "evaluate/rounding_tap.h"

namespace kvcal {
namespace {

/// [b | a] of [a | b], whose cut is at an odd channel: processors add up products of channels in powers of two.
Tensor reordered(Ops& op, const Tensor& x) {
  const int64_t n = x.dim(-1), cut = (n / 3) | 1;
  return cut < n ? op.join(op.columns(x, cut, n - cut), op.columns(x, 0, cut)) : x;
}

class FloorTap final : public KvTap {
 public:
  FloorTap(const ModelSpec& spec, Ops& op) : spec_(spec), op_(op) {}

  Tensor query(int cache, const Tensor& q, const Batch&) override { return is_latent(cache) ? q : reordered(op_, q); }
  Tensor key(int, const Tensor& k, const Batch&) override { return reordered(op_, k); }
  Tensor value(int, const Tensor& v, const Batch&) override { return v; }
  Tensor latent(int, const Tensor& row, const Batch&) override { return row; }
  bool wants_absorbed_queries() const override { return false; }  // but where it reads them
  bool reads_absorbed_queries(int) const override { return true; }
  void layer_done(int) override {}

 private:
  bool is_latent(int cache) const { return spec_.caches[static_cast<size_t>(cache)].is_mla(); }

  const ModelSpec& spec_;
  Ops& op_;
};

}  // namespace

std::unique_ptr<KvTap> tap_of(const Variant& variant, const ModelSpec& spec, Ops& op, int64_t keep_recent,
                              RowErrors* errors) {
  if (variant.is_floor()) return std::make_unique<FloorTap>(spec, op);
  auto tap = std::make_unique<RoundingTap>(variant, op, keep_recent);
  if (errors) tap->measure(spec, *errors);
  return tap;
}

}  // namespace kvcal
