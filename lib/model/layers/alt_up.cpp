#include "model/layers/alt_up.h"

#include <algorithm>
#include <cmath>

#include "model/layers/gemma_parts.h"

namespace kvcal {
namespace {

/// `y` with the lengths of the rows of `x`; what is as good as zero stays so.
Tensor as_long(Ops& op, const Tensor& y, const Tensor& x) { return op.match_rms(y, x, std::sqrt(1e-5f)); }

/// A vector of the activation type: `first`, then `rest`.
Owned constant(WeightLoader& loader, int64_t n, float first, float rest) {
  const Storage values({n}, DType::F32);
  std::fill_n(values.tensor().as<float>(), n, rest);
  values.tensor().as<float>()[0] = first;
  return loader.load_gain(values.tensor(), Gain::Plain);
}

std::vector<Linear> load_projections(const AltUpShape& s, const std::string& name, WeightLoader& loader,
                                     WeightBinder& weights) {
  std::vector<Linear> all;
  for (int64_t i = 0; i + 1 < s.n_streams; ++i)
    all.push_back(load_projection(loader, weights, name + "." + std::to_string(i), s.hidden, s.hidden));
  return all;
}

class SpreadEmbedding final : public Embedding {
 public:
  SpreadEmbedding(std::unique_ptr<Embedding> rows, std::vector<Linear> projections)
      : rows_(std::move(rows)), projections_(std::move(projections)) {}

  Tensor forward(Ops& op, const Batch& batch) override { return rows_->forward(op, batch); }
  Tensor stream(Ops& op, const Tensor& rows) override {
    Tensor all = rows;
    for (const Linear& p : projections_) all = op.join(all, as_long(op, op.linear(rows, p), rows));
    return all;
  }

 private:
  std::unique_ptr<Embedding> rows_;
  std::vector<Linear> projections_;  // [hidden, hidden]
};

class MergingHead final : public Head {
 public:
  MergingHead(const AltUpShape& shape, std::unique_ptr<Head> head, std::vector<Linear> projections,
              WeightLoader& loader)
      : shape_(shape),
        head_(std::move(head)),
        projections_(std::move(projections)),
        shares_(constant(loader, shape.n_streams, 1.0f / static_cast<float>(shape.n_streams),
                         1.0f / static_cast<float>(shape.n_streams))) {}

  Tensor forward(Ops& op, const Tensor& x) override {
    const int64_t rows = x.dim(0), hidden = shape_.hidden;
    const Tensor first = op.columns(x, 0, hidden);
    Tensor all = first;
    for (size_t i = 0; i < projections_.size(); ++i) {
      const Tensor own = op.linear(op.columns(x, static_cast<int64_t>(i + 1) * hidden, hidden), projections_[i]);
      all = op.join(all, as_long(op, own, first));
    }
    const Tensor mean = op.mix_streams(all.reshaped({rows, shape_.n_streams, hidden}), repeated(op, shares_, rows));
    return head_->forward(op, mean.reshaped({rows, hidden}));
  }

 private:
  AltUpShape shape_;
  std::unique_ptr<Head> head_;
  std::vector<Linear> projections_;  // [hidden, hidden]
  Owned shares_;                     // [n_streams]
};

}  // namespace

Tensor repeated(Ops& op, const Tensor& v, int64_t n_tokens) {
  const std::vector<int64_t> rows(static_cast<size_t>(n_tokens), 0);
  return op.take_rows(v.reshaped({1, v.dim(0)}), rows);
}

AltUp::AltUp(const AltUpShape& s, WeightLoader& loader, WeightBinder w)
    : shape_(s),
      router_factor_(in_activation_type(loader, 1 / static_cast<float>(s.hidden))),
      router_norm_(load_f32_gain(loader, w, "router_norm", s.hidden)),
      others_(constant(loader, s.n_streams, 0, 1)),
      router_(load_projection(loader, w, "modality_router", s.n_streams, s.hidden)),
      predictions_(load_projection(loader, w, "prediction_coefs", s.n_streams * s.n_streams, s.n_streams)) {
  const HostLinear c = projection(w, "correction_coefs", s.n_streams, s.n_streams);
  const Storage ones({s.n_streams}, DType::F32);
  std::fill_n(ones.tensor().as<float>(), s.n_streams, 1.0f);
  corrections_ = loader.load_linear(c.weight, ones.tensor(), c.input);
}

/// x [tokens, hidden] -> [tokens, n_streams]
Tensor AltUp::modalities(Ops& op, const Tensor& x) const {
  return op.softcap(op.linear(op.scale(op.rms_norm(x, router_norm_, shape_.eps), router_factor_), router_), 1);
}

Tensor AltUp::predict(Ops& op, const Tensor& x) const {
  const Tensor streams = x.reshaped({x.dim(0), shape_.n_streams, shape_.hidden});
  return op.add(op.mix_streams(streams, op.linear(modalities(op, active(op, streams)), predictions_)), streams);
}

Tensor AltUp::correct(Ops& op, const Tensor& predicted, const Tensor& made) const {
  const Tensor change = op.add(made, op.scale(active(op, predicted), -1));
  const Tensor shares = op.linear(modalities(op, made), corrections_);  // [tokens, n_streams]
  return op.add(op.mix_streams(change.reshaped({made.dim(0), 1, shape_.hidden}), shares), predicted);
}

Tensor AltUp::add_to_others(Ops& op, const Tensor& streams, const Tensor& y) const {
  const Tensor change = y.reshaped({y.dim(0), 1, shape_.hidden});
  return op.add(streams, op.mix_streams(change, repeated(op, others_, y.dim(0))))
      .reshaped({y.dim(0), shape_.n_streams * shape_.hidden});
}

Tensor AltUp::active(Ops& op, const Tensor& streams) const {
  return op.columns(streams.reshaped({streams.dim(0), shape_.n_streams * shape_.hidden}), shape_.active * shape_.hidden,
                    shape_.hidden);
}

int64_t AltUp::activations(const AltUpShape& s) {
  // All streams but the row that every layer has of x; three mixtures and their sums; four active streams, the change
  // of one, and twice what the router reads.
  const int64_t n = s.n_streams;
  return (7 * n + 9) * s.hidden + n * n + 6 * n;
}

int64_t merging_activations(const AltUpShape& s) {
  // The streams, their projections and those of the right length, all that are joined so far, and the mean.
  const int64_t n = s.n_streams;
  return (3 * n + n * (n + 1) / 2) * s.hidden + n;
}

std::unique_ptr<Embedding> load_spread_embedding(const AltUpShape& shape, std::unique_ptr<Embedding> rows,
                                                 WeightLoader& loader, WeightBinder& weights) {
  return std::make_unique<SpreadEmbedding>(std::move(rows),
                                           load_projections(shape, "altup_projections", loader, weights));
}

std::unique_ptr<Head> load_merging_head(const AltUpShape& shape, std::unique_ptr<Head> head, WeightLoader& loader,
                                        WeightBinder& weights) {
  return std::make_unique<MergingHead>(shape, std::move(head), load_projections(shape, kMergingModule, loader, weights),
                                       loader);
}

}  // namespace kvcal
