#include "deployment/scale_use.h"

#include <algorithm>
#include <string>

#include "base/letter_case.h"

namespace kvcal {
namespace {

Trait from(const std::optional<EngineVersion>& version, const EngineVersion& since) {
  return version ? trait_of(*version >= since) : Trait::Unknown;
}

Trait opposite(Trait t) { return t == Trait::Unknown ? t : trait_of(t == Trait::No); }

// Read in 0.8.5 to 0.33.0. The method of FP8 and ModelOpt took scales whenever the option named a type (until 0.14,
// that of compressed-tensors too), and sets them to 1.0 since where the cache is not quantized. That of
// compressed-tensors takes whatever there is, as floats since 0.20. FlashInfer's own kernels multiply by these floats;
// FlashAttention and Triton scale FP8 values only.
Trait in_vllm(const ScaleReader& r, const std::string& backend) {
  constexpr EngineVersion kChecked = {0, 8, 5}, kAsksForType = {0, 15, 0}, kFloats = {0, 20, 0};
  if (backend == "flash_attn" || backend.starts_with("triton")) return Trait::No;
  if (!r.version || *r.version < kChecked) return r.asked ? Trait::Unknown : Trait::No;
  const bool takes_all = r.declared->is_compressed_tensors() && *r.version >= kFloats;
  if (!takes_all && (!r.asked || *r.version >= kAsksForType)) return Trait::No;
  if (!backend.starts_with("flashinfer") || (takes_all && r.latent)) return Trait::Unknown;
  // On datacenter Blackwell other kernels may be chosen, by shapes, and these ask for the cache's type since 0.19.
  const bool may_be_others = r.gpu != nullptr && r.gpu->capability >= 100 && r.gpu->capability < 110;
  return takes_all && may_be_others ? Trait::Unknown : Trait::Yes;
}

// The pool divides where it converts, so not here; each backend reads as it likes.
Trait in_sglang(const ScaleReader& r, const std::string& backend) {
  constexpr EngineVersion kChecked = {0, 5, 8};
  if (!r.version || *r.version < kChecked || backend.empty()) return Trait::Unknown;
  const bool loads = !r.declared->is_compressed_tensors() || *r.version >= EngineVersion{0, 5, 19};
  if (!loads || backend == "fa3" || backend == "fa4") return Trait::No;
  if (backend == "flashinfer" && !r.latent) return Trait::Yes;
  if (backend == "triton") return from(r.version, {0, 5, 10});
  if (backend == "trtllm_mha") return opposite(from(r.version, {0, 5, 14}));
  if (backend == "trtllm_mla") return opposite(from(r.version, {0, 5, 10}));
  return Trait::Unknown;
}

}  // namespace

Trait scales_reach_plain_cache(const ScaleReader& r) {
  if (r.declared == nullptr) return Trait::Unknown;
  const std::string backend = lower_case(r.backend);
  if (r.server == Engine::Vllm) return in_vllm(r, backend);
  return r.server == Engine::Sglang ? in_sglang(r, backend) : Trait::Unknown;
}

}  // namespace kvcal
