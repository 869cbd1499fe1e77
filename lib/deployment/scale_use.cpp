#include "deployment/scale_use.h"

#include <algorithm>
#include <array>

#include "base/letter_case.h"

namespace kvcal {
namespace {

using enum ScaleUse;

enum class Rows : uint8_t { Heads, Latent, Sparse };

/// What a backend does with scales in these versions. vLLM's on a cache that is not quantized: see on_plain_of_vllm().
struct BackendUse {
  Engine server;
  std::string_view name;
  Rows rows;
  EngineVersions versions;
  ScaleUse quantized, plain;
};

constexpr EngineVersion kSglangChecked = {0, 5, 8};

// Run by check_scale_use.py: vLLM 0.33.0 and SGLang 0.5.23, whose older versions were read. SGLang's pools divide rows
// of heads where they convert them, and rows of MLA by nothing. Sparse MLA's packed rows have scales of their own.
constexpr std::array kUses = {
    BackendUse{Engine::Vllm, "flash_attn", Rows::Heads, {{0, 33, 0}, {}}, Both, Unknown},
    BackendUse{Engine::Vllm, "flashinfer", Rows::Heads, {{0, 33, 0}, {}}, Both, Unknown},
    BackendUse{Engine::Vllm, "triton_attn", Rows::Heads, {{0, 33, 0}, {}}, Both, Unknown},
    BackendUse{Engine::Vllm, "flashmla", Rows::Latent, {{0, 33, 0}, {}}, Both, Unknown},
    BackendUse{Engine::Vllm, "flashinfer_mla", Rows::Latent, {{0, 33, 0}, {}}, Both, Unknown},
    BackendUse{Engine::Vllm, "triton_mla", Rows::Latent, {{0, 33, 0}, {}}, Both, Unknown},
    BackendUse{Engine::Sglang, "fa3", Rows::Heads, {}, Both, Nowhere},
    BackendUse{Engine::Sglang, "fa4", Rows::Heads, {}, Unknown, Nowhere},
    BackendUse{Engine::Sglang, "flashinfer", Rows::Heads, {}, Both, ReadAlone},
    BackendUse{Engine::Sglang, "torch_native", Rows::Heads, {}, Nowhere, Nowhere},
    BackendUse{Engine::Sglang, "triton", Rows::Heads, {{}, {0, 5, 10}}, WrittenAlone, Nowhere},
    BackendUse{Engine::Sglang, "triton", Rows::Heads, {{0, 5, 10}, {}}, Both, ReadAlone},
    BackendUse{Engine::Sglang, "trtllm_mha", Rows::Heads, {{}, {0, 5, 14}}, Both, ReadAlone},
    BackendUse{Engine::Sglang, "trtllm_mha", Rows::Heads, {{0, 5, 14}, {}}, Both, Nowhere},
    BackendUse{Engine::Sglang, "fa3", Rows::Latent, {}, ReadAlone, Nowhere},
    BackendUse{Engine::Sglang, "fa4", Rows::Latent, {}, Unknown, Nowhere},
    BackendUse{Engine::Sglang, "flashinfer", Rows::Latent, {}, Nowhere, Nowhere},
    BackendUse{Engine::Sglang, "flashmla", Rows::Latent, {}, ReadAlone, Nowhere},
    BackendUse{Engine::Sglang, "torch_native", Rows::Latent, {}, Nowhere, Nowhere},
    BackendUse{Engine::Sglang, "triton", Rows::Latent, {{}, {0, 5, 10}}, Unknown, Nowhere},
    BackendUse{Engine::Sglang, "triton", Rows::Latent, {{0, 5, 10}, {0, 5, 12}}, ReadAlone, ReadAlone},
    BackendUse{Engine::Sglang, "triton", Rows::Latent, {{0, 5, 12}, {}}, Both, Both},
    BackendUse{Engine::Sglang, "trtllm_mla", Rows::Latent, {{}, {0, 5, 10}}, ReadAlone, ReadAlone},
    BackendUse{Engine::Sglang, "trtllm_mla", Rows::Latent, {{0, 5, 10}, {}}, ReadAlone, Nowhere},
    BackendUse{Engine::Sglang, "fa3", Rows::Sparse, {}, Unknown, Nowhere},
    BackendUse{Engine::Sglang, "flashmla_kv", Rows::Sparse, {}, Nowhere, Unknown},
    BackendUse{Engine::Sglang, "flashmla_sparse", Rows::Sparse, {}, Nowhere, Unknown},
    BackendUse{Engine::Sglang, "trtllm", Rows::Sparse, {{0, 5, 23}, {}}, ReadAlone, ReadAlone},
};

/// Of the versions that may be meant; not known where they differ.
ScaleUse by_backend(const ScaleReader& r, ScaleUse BackendUse::*use) {
  const std::string name = r.server == Engine::Vllm ? lower_case(r.backend) : r.backend;
  const Rows rows = !r.latent ? Rows::Heads : r.sparse ? Rows::Sparse : Rows::Latent;
  std::optional<ScaleUse> found;
  for (const BackendUse& b : kUses) {
    const bool here = b.server == r.server && b.name == name && b.rows == rows;
    if (!here || (r.version && !b.versions.hold(r.version))) continue;
    if (found && *found != b.*use) return Unknown;
    found = b.*use;
  }
  return found.value_or(Unknown);
}

/// Whether the checkpoint's quantization has the server look for scales at all.
bool makes_parameters(const ScaleReader& r) {
  const bool sglang = r.server == Engine::Sglang;
  const KvCarrier carrier = carrier_of(*r.declared, sglang ? ServerKind::Sglang : ServerKind::Vllm);
  const bool per_head = carrier == KvCarrier::PerHead && sglang;  // it takes one of a layer
  const bool dropped =
      sglang && r.declared->is_compressed_tensors() && r.version && *r.version < EngineVersion{0, 5, 19};
  return carrier != KvCarrier::None && carrier != KvCarrier::Other && !per_head && !dropped;
}

// Read in 0.8.5 to 0.33.0. The method of FP8 and ModelOpt took scales whenever the option named a type (until 0.14,
// that of compressed-tensors too), and sets them to 1.0 since where the cache is not quantized. That of
// compressed-tensors takes whatever there is, as floats since 0.20. FlashInfer's own kernels multiply by these floats;
// FlashAttention and Triton scale FP8 values only.
ScaleUse on_plain_of_vllm(const ScaleReader& r) {
  constexpr EngineVersion kChecked = {0, 8, 5}, kAsksForType = {0, 15, 0}, kFloats = {0, 20, 0};
  const std::string backend = lower_case(r.backend);
  if (backend == "flash_attn" || backend.starts_with("triton")) return Nowhere;
  if (!r.version || *r.version < kChecked) return r.asked ? Unknown : Nowhere;
  const bool takes_all = r.declared->is_compressed_tensors() && *r.version >= kFloats;
  if (!takes_all && (!r.asked || *r.version >= kAsksForType)) return Nowhere;
  if (!backend.starts_with("flashinfer") || (takes_all && r.latent)) return Unknown;
  // On datacenter Blackwell other kernels may be chosen, by shapes, and these ask for the cache's type since 0.19.
  const bool may_be_others = r.gpu != nullptr && r.gpu->capability >= 100 && r.gpu->capability < 110;
  return takes_all && may_be_others ? Unknown : ReadAlone;
}

ScaleUse on_quantized(const ScaleReader& r, const CacheType& cache) {
  if (cache.name.ends_with("_per_token_head") || cache.name.ends_with("_ds_mla")) return Nowhere;
  const bool sglang = r.server == Engine::Sglang;
  if (!holds_fp8(cache.name) || (sglang && r.version && *r.version < kSglangChecked)) return Unknown;
  // Before 0.20 vLLM never set the floats that FlashInfer reads.
  const bool unset =
      !sglang && r.declared->is_compressed_tensors() && r.version && *r.version < EngineVersion{0, 20, 0};
  if (unset && lower_case(r.backend) == "flashinfer") return WrittenAlone;
  const bool may_be_wide = r.backend == "fa3" && !r.latent && (r.head_dim == 0 || r.head_dim > 256);
  return may_be_wide ? Unknown : by_backend(r, &BackendUse::quantized);
}

}  // namespace

ScaleUse scale_use(const ScaleReader& r, const CacheType& cache) {
  const bool sglang = r.server == Engine::Sglang;
  if (r.declared == nullptr || (!sglang && r.server != Engine::Vllm)) return Unknown;
  if (cache.quantized == Trait::Unknown) return Unknown;
  const bool plain = cache.quantized == Trait::No;
  if (plain && sglang && (!r.version || *r.version < kSglangChecked || r.backend.empty())) return Unknown;
  if (!makes_parameters(r)) return Nowhere;
  if (!plain) return on_quantized(r, cache);
  return sglang ? by_backend(r, &BackendUse::plain) : on_plain_of_vllm(r);
}

}  // namespace kvcal
