#include "model/layers/lightning_scan.h"

#include <algorithm>

namespace kvcal {
namespace {

constexpr float kStepOfOne = 0.54132485f;  // ln(e - 1): softplus of it is 1

Owned load_constant(float value, int64_t n, WeightLoader& loader) {
  const Storage all({n}, DType::F32);
  std::fill_n(all.tensor().as<float>(), n, value);
  return loader.load_f32(all.tensor());
}

Owned load_rates(const std::vector<double>& log_rates, WeightLoader& loader) {
  const Storage rates({static_cast<int64_t>(log_rates.size())}, DType::F32);
  std::ranges::transform(log_rates, rates.tensor().as<float>(), [](double rate) { return static_cast<float>(rate); });
  return loader.load_f32(rates.tensor());
}

}  // namespace

LightningScan::LightningScan(const std::vector<double>& log_rates, WeightLoader& loader)
    : n_heads_(static_cast<int64_t>(log_rates.size())),
      a_log_(load_rates(log_rates, loader)),
      dt_bias_(load_constant(kStepOfOne, n_heads_, loader)),
      skip_(load_constant(0, n_heads_, loader)) {}

Tensor LightningScan::forward(Ops& op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& h,
                              const Batch& batch, LayerStates& states) const {
  const Tensor no_step = op.scale(op.columns(h, 0, n_heads_), 0);
  return op.ssd({v, no_step, k, q}, {a_log_, dt_bias_, skip_}, batch.spans, states.ssm_states(batch));
}

MixerSize lightning_size(int64_t n_heads, int64_t head_dim) {
  MixerSize s;
  s.activations = n_heads * head_dim + 6 * n_heads;  // with its steps and decays
  s.state_bytes = n_heads * head_dim * head_dim * 4;
  s.state_row = head_dim;
  s.state_heads = n_heads;
  return s;
}

}  // namespace kvcal
