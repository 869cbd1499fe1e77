#include "model/decoders/nextn.h"

#include <algorithm>

namespace kvcal {
namespace {

/// Rows of another embedding, zeros at position 0.
class EmbeddingBehindFirst final : public Embedding {
 public:
  explicit EmbeddingBehindFirst(std::unique_ptr<Embedding> tokens) : tokens_(std::move(tokens)) {}

  Tensor forward(Ops& op, const Batch& batch) override {
    const Tensor rows = tokens_->forward(op, batch);
    const std::span positions(batch.positions.data(), batch.ids.size());
    if (std::ranges::find(positions, 0) == positions.end()) return rows;
    const Storage kept({batch.n_tokens(), 1}, DType::F32);
    std::ranges::transform(positions, kept.tensor().as<float>(), [](int32_t p) { return p == 0 ? 0.0F : 1.0F; });
    return op.mul(rows, op.upload(kept.tensor()));
  }

 private:
  std::unique_ptr<Embedding> tokens_;
};

}  // namespace

bool has_one_nextn(const Json& text) { return get_int_or(text, "num_nextn_predict_layers", 1) == 1; }

MtpNames read_nextn(const Json& text, int64_t n_layers) {
  if (!has_one_nextn(text)) return {};
  return {"layers." + std::to_string(n_layers) + ".", "", "eh_proj", "enorm", "hnorm"};
}

MtpInput load_nextn_input(const ModelSpec& spec, const MtpNames& names, float eps, WeightLoader& loader,
                          WeightBinder& text, WeightBinder& w) {
  MtpInput input = load_mtp_input(spec, names, Gain::Plain, eps, loader, text, w);
  input.embedding = std::make_unique<EmbeddingBehindFirst>(std::move(input.embedding));
  return input;
}

void finish_nextn_layer(ModelSpec& spec, const MtpNames& names) {
  finish_mtp_layer(spec, names);
  spec.layers.back().activations += spec.hidden + 2;  // the rows without the first, and a float per row
}

}  // namespace kvcal
