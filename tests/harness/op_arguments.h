// Arguments of ops with other tensors: mapped(x, f) is x with f(t) in place of each of its tensors. A type that holds
// tensors and is not here stays as it is.
#pragma once

#include <vector>

#include "ops/ops.h"

namespace kvcal {

template <class T, class F>
T mapped(T x, const F&) {
  return x;
}

template <class F>
Tensor mapped(const Tensor& t, const F& f) {
  return f(t);
}

template <class F>
Ops::DeltaGates mapped(const Ops::DeltaGates& gates, const F& f) {
  return {f(gates.g), f(gates.beta)};
}

template <class F>
Routing mapped(const Routing& routing, const F& f) {
  return {f(routing.experts), f(routing.weights)};
}

template <class F>
RoutingSpec mapped(RoutingSpec spec, const F& f) {
  spec.bias = f(spec.bias);
  return spec;
}

template <class F>
AttentionSpec mapped(AttentionSpec spec, const F& f) {
  spec.sinks = f(spec.sinks);
  spec.picked = f(spec.picked);
  return spec;
}

template <class F>
CacheRounding mapped(CacheRounding rounding, const F& f) {
  rounding.write = f(rounding.write);
  rounding.read = f(rounding.read);
  return rounding;
}

template <class F>
SampleRequest mapped(SampleRequest request, const F& f) {
  request.column_norms = f(request.column_norms);
  request.stream = f(request.stream);
  return request;
}

template <class F>
XieluWeights mapped(const XieluWeights& w, const F& f) {
  return {f(w.alpha_p), f(w.alpha_n), f(w.beta), f(w.eps)};
}

template <class F>
ConvWeights mapped(const ConvWeights& w, const F& f) {
  return {f(w.w), f(w.bias), w.silu};
}

template <class F>
SsmInputs mapped(const SsmInputs& in, const F& f) {
  return {f(in.x), f(in.dt), f(in.b), f(in.c)};
}

template <class F>
SsmWeights mapped(const SsmWeights& w, const F& f) {
  return {f(w.a_log), f(w.dt_bias), f(w.d)};
}

template <class F>
GatedNormSpec mapped(GatedNormSpec spec, const F& f) {
  spec.gain = f(spec.gain);
  return spec;
}

/// With the parts that its spec points to.
struct MappedHeads {
  std::vector<HeadsPart> parts;
  HeadsSpec spec;
  operator const HeadsSpec&() const { return spec; }
};

template <class F>
MappedHeads mapped(const HeadsSpec& spec, const F& f) {
  std::vector<HeadsPart> parts(spec.parts.begin(), spec.parts.end());
  for (HeadsPart& part : parts) part.gain = f(part.gain);
  const std::span<const HeadsPart> view = parts;  // stays valid when the parts move
  return {std::move(parts), {view, spec.eps, f(spec.table), spec.rope}};
}

}  // namespace kvcal
