#include "model/layers/learned_positions.h"

namespace kvcal {
namespace {

class PositionedEmbedding final : public Embedding {
 public:
  PositionedEmbedding(const Tensor& tokens, const Tensor& positions, int64_t offset)
      : tokens_(tokens), positions_(positions), offset_(offset) {}

  Tensor forward(Ops& op, const Batch& batch) override {
    std::vector<int32_t> rows(batch.positions.begin(), batch.positions.begin() + batch.n_tokens());
    for (int32_t& row : rows) {
      if (row + offset_ >= positions_.dim(0))
        fail("position " + std::to_string(row) + " is beyond the " + std::to_string(positions_.dim(0) - offset_) +
             " positions that the model has learned; give shorter prompts, or a smaller --max-length");
      row += static_cast<int32_t>(offset_);
    }
    return op.add(op.embed(tokens_, batch.ids), op.embed(positions_, rows));
  }

 private:
  Tensor tokens_, positions_;  // [vocab, hidden], [rows, hidden], host
  int64_t offset_;
};

}  // namespace

std::unique_ptr<Embedding> load_positioned_embedding(const ModelSpec& spec, const PositionTable& positions,
                                                     WeightBinder& weights) {
  return std::make_unique<PositionedEmbedding>(weights(spec.embedding, {spec.vocab, spec.hidden}),
                                               weights(positions.name, {positions.rows, spec.hidden}),
                                               positions.offset);
}

}  // namespace kvcal
