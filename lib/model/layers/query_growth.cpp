#include "model/layers/query_growth.h"

#include "base/portable_math.h"
#include "model/config_reading.h"

namespace kvcal {

QueryGrowth read_query_growth(const Json& text) {
  QueryGrowth g;
  const Json* own = find_member(text, "llama_4_scaling");
  const Json* rope = find_member(text, "rope_parameters");
  if (!rope) rope = find_member(text, "rope_scaling");
  if (own) {
    if (!own->is_object()) fail("llama_4_scaling is not an object");
    g.beta = get_number(*own, "beta", "llama_4_scaling.");
    g.original = read_size(*own, "original_max_position_embeddings");
  } else {
    if (!rope || !rope->is_object()) fail("rope_parameters is not an object");
    g.beta = get_number(*rope, "llama_4_scaling_beta", "rope_parameters.");
    g.original = read_size(*rope, "original_max_position_embeddings");
  }
  if (!(g.beta >= 0 && g.beta < 1e3)) fail("llama_4_scaling beta is " + std::to_string(g.beta));
  return g;
}

Tensor grown(Ops& op, const Tensor& x, const QueryGrowth& growth, const Batch& batch) {
  const Storage column({batch.n_tokens(), 1}, DType::F32);
  for (int64_t i = 0; i < batch.n_tokens(); ++i) {
    const int64_t steps = batch.positions[static_cast<size_t>(i)] / growth.original;
    column.tensor().as<float>()[i] = static_cast<float>(1 + growth.beta * portable_log(static_cast<double>(1 + steps)));
  }
  const Tensor flat = x.reshaped({batch.n_tokens(), x.elements() / batch.n_tokens()});
  return op.mul(flat, op.upload(column.tensor())).reshaped(x.shape);
}

}  // namespace kvcal
