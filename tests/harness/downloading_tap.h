// Shows tensors of a device to a tap that reads them on the host.
#pragma once

#include "model/kv_tap.h"
#include "ops/ops.h"

namespace kvcal {

class DownloadingTap final : public KvTap {
 public:
  DownloadingTap(Ops& op, KvTap& inner, StateCounter* states = nullptr) : op_(op), inner_(inner), states_(states) {}
  Tensor query(int cache, const Tensor& q, const Batch& b) override { return show(cache, q, b, &KvTap::query); }
  Tensor key(int cache, const Tensor& k, const Batch& b) override { return show(cache, k, b, &KvTap::key); }
  Tensor value(int cache, const Tensor& v, const Batch& b) override { return show(cache, v, b, &KvTap::value); }
  Tensor latent(int cache, const Tensor& x, const Batch& b) override { return show(cache, x, b, &KvTap::latent); }
  StateCounter* state_counter() override { return states_; }
  void layer_done(int layer) override { inner_.layer_done(layer); }

 private:
  Tensor show(int cache, const Tensor& t, const Batch& batch, Tensor (KvTap::*site)(int, const Tensor&, const Batch&)) {
    const Storage host(t.shape, t.dtype);
    op_.download(t, host.tensor());
    (inner_.*site)(cache, host.tensor(), batch);
    return t;
  }

  Ops& op_;
  KvTap& inner_;
  StateCounter* states_;
};

}  // namespace kvcal
