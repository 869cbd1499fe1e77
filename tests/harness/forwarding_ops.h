// An Ops that passes every call on to another one. Tests derive from it to count, or to do something wrong on purpose.
#pragma once

#include "harness/each_op.h"

namespace kvcal {

/// Weights of an input that has been rounded on the way to a do_ function.
template <class T>
T of_rounded(T x) {
  return x;
}

inline Linear of_rounded(Linear w) {
  w.input = {};
  return w;
}

inline LinearGroup of_rounded(LinearGroup w) {
  for (Linear& part : w.parts) part.input = {};
  return w;
}

inline GluWeights of_rounded(GluWeights w) {
  for (Linear* first : {&w.gate, &w.up, &w.gate_up}) first->input = {};
  return w;
}

inline std::vector<GluWeights> of_rounded(std::span<const GluWeights> weights) {
  std::vector<GluWeights> all(weights.begin(), weights.end());
  for (GluWeights& w : all) w = of_rounded(std::move(w));
  return all;
}

class ForwardingOps : public EachOp<ForwardingOps> {
 public:
  using EachOp::EachOp;

 private:
  friend EachOp;

  template <class Op, class... Args>
  auto call(const char*, Op op, const Args&... args) {
    return (inner_.*op)(of_rounded(args)...);
  }
};

}  // namespace kvcal
