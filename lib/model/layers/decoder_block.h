// The decoder layer of nearly all families: a branch that mixes tokens and a feed-forward, each with norms before and
// after it, which add to the residual stream in turn or side by side.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "model/layers/mixer.h"

namespace kvcal {

/// Anything with forward(op, x [tokens, hidden]) -> [tokens, hidden]: a dense feed-forward, experts, both; or nothing.
class FeedForward {
 public:
  FeedForward() = default;
  template <class Part>
  FeedForward(Part part)
      : forward_([part = std::move(part)](Ops& op, const Tensor& x) { return part.forward(op, x); }) {}

  explicit operator bool() const { return static_cast<bool>(forward_); }
  Tensor forward(Ops& op, const Tensor& x) const { return forward_(op, x); }

 private:
  std::function<Tensor(Ops&, const Tensor&)> forward_;
};

/// Norms [hidden] that are absent change nothing; a layer may also be without a mixer, or without a feed-forward.
struct DecoderBlockParts {
  std::optional<Norm> before_mixer{}, after_mixer{}, before_ffn{}, after_ffn{};
  std::unique_ptr<Mixer> mixer{};
  FeedForward ffn{};
  float factor = 1;  // of what a branch adds
  // Both branches read x: the feed-forward what the mixer reads, where it has no norm of its own.
  bool side_by_side = false;
};

/// In turn: h = x + f · after(mixer(before x)), out = h + f · after(ffn(before h)).
/// Side by side: out = x + (after(mixer(before x)) + ffn(before x)).
class DecoderBlock final : public Block {
 public:
  explicit DecoderBlock(DecoderBlockParts parts) : p_(std::move(parts)) {}
  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override;

 private:
  DecoderBlockParts p_;
};

}  // namespace kvcal
