#include "model/layers/decoder_block.h"

#include "model/layers/multipliers.h"

namespace kvcal {
namespace {

Tensor normed(Ops& op, const std::optional<Norm>& norm, const Tensor& x) { return norm ? norm->forward(op, x) : x; }

/// x + y, and that normed.
Ops::SumAndNorm sum_and_norm(Ops& op, const Tensor& x, const Tensor& y, const std::optional<Norm>& norm) {
  if (norm && norm->kind == Norm::Kind::Rms) return op.add_rms_norm(x, y, norm->gain, norm->eps);
  const Tensor sum = op.add(x, y);
  return {sum, normed(op, norm, sum)};
}

}  // namespace

Tensor DecoderBlock::forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) {
  if (!p_.mixer) return p_.ffn ? op.add(x, p_.ffn.forward(op, normed(op, p_.before_ffn, x))) : x;
  const Tensor h = normed(op, p_.before_mixer, x);
  const Tensor mixed = p_.mixer->forward(op, h, batch, states, tap, tail);
  if (tail == Tail::Skip) return x;
  const Tensor added = scaled(op, normed(op, p_.after_mixer, mixed), p_.factor);
  if (!p_.ffn) return op.add(x, added);
  if (p_.side_by_side)
    return op.add(x, op.add(added, p_.ffn.forward(op, p_.before_ffn ? p_.before_ffn->forward(op, x) : h)));
  const auto [y, read] = sum_and_norm(op, x, added, p_.before_ffn);
  return op.add(y, scaled(op, normed(op, p_.after_ffn, p_.ffn.forward(op, read)), p_.factor));
}

}  // namespace kvcal
