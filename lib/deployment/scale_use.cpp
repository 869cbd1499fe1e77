#include "deployment/scale_use.h"

#include <algorithm>
#include <string>

#include "base/letter_case.h"

namespace kvcal {
namespace {

constexpr EngineVersion kSglangChecked = {0, 5, 8};

Trait from(const std::optional<EngineVersion>& version, const EngineVersion& since) {
  return version ? trait_of(*version >= since) : Trait::Unknown;
}

/// Whether the checkpoint's quantization has the server look for scales at all.
bool makes_parameters(const KvDeclaration& declared, ServerKind server) {
  const KvCarrier carrier = carrier_of(declared, server);
  const bool per_head = carrier == KvCarrier::PerHead && server == ServerKind::Sglang;  // it takes one of a layer
  return carrier != KvCarrier::None && carrier != KvCarrier::Other && !per_head;
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

bool loads_in_sglang(const ScaleReader& r) {
  const bool dropped = r.declared->is_compressed_tensors() && r.version && *r.version < EngineVersion{0, 5, 19};
  return makes_parameters(*r.declared, ServerKind::Sglang) && !dropped;
}

// FlashInfer's backend multiplies them by nothing.
bool reads_latent_rows_as_stored(const ScaleReader& r) {
  return r.latent && (r.backend == "flashinfer" || divides_latent_rows(r) == Trait::Yes);
}

// The pool divides where it converts, so not here; each backend reads as it likes.
Trait in_sglang(const ScaleReader& r) {
  const std::string& backend = r.backend;
  if (!r.version || *r.version < kSglangChecked || backend.empty()) return Trait::Unknown;
  if (!loads_in_sglang(r) || backend == "fa3" || backend == "fa4" || backend == "torch_native" || backend == "flashmla")
    return Trait::No;
  if (reads_latent_rows_as_stored(r)) return Trait::No;
  if (backend == "flashinfer") return Trait::Yes;
  if (backend == "triton") return from(r.version, {0, 5, 10});
  if (backend == "trtllm_mha") return opposite(from(r.version, {0, 5, 14}));
  if (backend == "trtllm_mla") return opposite(from(r.version, {0, 5, 10}));
  return Trait::Unknown;
}

}  // namespace

Trait scales_reach_plain_cache(const ScaleReader& r) {
  const bool vllm = r.server == Engine::Vllm;
  if (r.declared == nullptr || (!vllm && r.server != Engine::Sglang)) return Trait::Unknown;
  if (!vllm) return in_sglang(r);
  return makes_parameters(*r.declared, ServerKind::Vllm) ? in_vllm(r, lower_case(r.backend)) : Trait::No;
}

Trait divides_latent_rows(const ScaleReader& r) {
  if (r.server != Engine::Sglang || !r.latent || (!r.backend.empty() && r.backend != "triton")) return Trait::No;
  return r.backend.empty() ? Trait::Unknown : from(r.version, {0, 5, 12});
}

// The pool divides by nothing. Backends by check_scale_use.py, which runs 0.5.23.
Trait misreads_latent_rows(const ScaleReader& r) {
  if (r.server != Engine::Sglang || !r.latent) return Trait::No;
  if (r.declared == nullptr || (r.version && *r.version < kSglangChecked)) return Trait::Unknown;
  if (!loads_in_sglang(r)) return Trait::No;
  const std::string& backend = r.backend;
  if (r.sparse)
    return backend.starts_with("flashmla") ? Trait::No : Trait::Unknown;  // its rows have scales of their own
  if (backend == "flashinfer" || backend == "torch_native" || divides_latent_rows(r) == Trait::Yes) return Trait::No;
  if (backend == "triton") return from(r.version, {0, 5, 10}) == Trait::Yes ? Trait::Yes : Trait::Unknown;
  const bool was_run = backend == "fa3" || backend == "flashmla" || backend == "trtllm_mla";
  return was_run ? Trait::Yes : Trait::Unknown;
}

}  // namespace kvcal
