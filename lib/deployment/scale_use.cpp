// Where a server applies a checkpoint's KV scales: they belong where the cache is written and where it is read. On a
// cache that is not quantized nothing is divided by them, and some backends multiply by them all the same.
#include <algorithm>
#include <array>

#include "base/letter_case.h"
#include "deployment/cache_choices.h"
#include "deployment/cache_type.h"

namespace kvcal {
namespace {

using enum ScaleUse;

enum class Rows : uint8_t { Heads, Latent, Sparse };

/// What a backend does with scales in these versions, on a quantized cache and on another.
struct BackendUse {
  std::string_view name;
  Rows rows;
  EngineVersions versions;
  ScaleUse quantized, plain;
};

constexpr EngineVersion kSglangChecked = {0, 5, 8};

// Read in SGLang 0.5.8 to 0.5.23, and of 0.5.23 run by check_scale_use.py, but for fa4, torch_native and Sparse. Its
// pools divide rows of heads where they convert them, and rows of MLA by nothing. fa3 multiplies where heads are up to
// 256 wide, and rows of MLA are wider; fa4 stops at scales beside a cache that is not quantized (B30). Before 0.5.14
// trtllm_mha divides keys and values, and multiplies by the scale of keys alone. Sparse MLA's packed rows have scales
// of their own.
constexpr std::array kSglangUses = {
    BackendUse{"fa3", Rows::Heads, {}, Both, Nowhere},
    BackendUse{"flashinfer", Rows::Heads, {}, Both, ReadAlone},
    BackendUse{"torch_native", Rows::Heads, {}, Nowhere, Nowhere},
    BackendUse{"triton", Rows::Heads, {{}, {0, 5, 10}}, Nowhere, Nowhere},
    BackendUse{"triton", Rows::Heads, {{0, 5, 10}, {}}, Both, ReadAlone},
    BackendUse{"trtllm_mha", Rows::Heads, {{}, {0, 5, 14}}, Unknown, ReadAlone},
    BackendUse{"trtllm_mha", Rows::Heads, {{0, 5, 14}, {}}, Both, Nowhere},
    BackendUse{"fa3", Rows::Latent, {}, Nowhere, Nowhere},
    BackendUse{"flashinfer", Rows::Latent, {}, Nowhere, Nowhere},
    BackendUse{"flashmla", Rows::Latent, {}, ReadAlone, Nowhere},
    BackendUse{"torch_native", Rows::Latent, {}, Nowhere, Nowhere},
    BackendUse{"triton", Rows::Latent, {{}, {0, 5, 10}}, Unknown, Nowhere},
    BackendUse{"triton", Rows::Latent, {{0, 5, 10}, {0, 5, 12}}, ReadAlone, ReadAlone},
    BackendUse{"triton", Rows::Latent, {{0, 5, 12}, {}}, Both, Both},
    BackendUse{"trtllm_mla", Rows::Latent, {{}, {0, 5, 9}}, ReadAlone, ReadAlone},
    BackendUse{"trtllm_mla", Rows::Latent, {{0, 5, 9}, {}}, ReadAlone, Nowhere},
    BackendUse{"fa3", Rows::Sparse, {}, Unknown, Nowhere},
    BackendUse{"flashmla_kv", Rows::Sparse, {}, Nowhere, Unknown},
    BackendUse{"flashmla_sparse", Rows::Sparse, {}, Nowhere, Unknown},
    BackendUse{"trtllm", Rows::Sparse, {{0, 5, 23}, {}}, ReadAlone, ReadAlone},
};

Rows rows_of(const ScaleReader& r) { return !r.latent ? Rows::Heads : r.sparse ? Rows::Sparse : Rows::Latent; }

ScaleUse by_sglang(const ScaleReader& r, ScaleUse BackendUse::*use) {
  for (const BackendUse& b : kSglangUses)
    if (b.name == r.backend && b.rows == rows_of(r) && b.versions.hold(r.version)) return b.*use;
  return Unknown;
}

/// vLLM's 0.33.0, run by check_scale_use.py.
ScaleUse on_quantized_of_vllm(const ScaleReader& r) {
  constexpr EngineVersion kFloats = {0, 20, 0}, kRun = {0, 33, 0};
  constexpr EngineVersions kBareProducts = {{0, 10, 2}, {0, 22, 0}};
  constexpr std::array<std::string_view, 3> kHeads = {"flash_attn", "flashinfer", "triton_attn"};
  constexpr std::array<std::string_view, 3> kLatent = {"flashmla", "flashinfer_mla", "triton_mla"};
  const std::string backend = lower_case(r.backend);
  // Before 0.20 nothing set the floats that FlashInfer reads.
  if (backend == "flashinfer" && r.declared->is_compressed_tensors() && !(r.version && *r.version >= kFloats))
    return r.version ? WrittenAlone : Unknown;
  // On NVIDIA queries come in FP8, and before 0.22 Triton's kernel multiplies FP8 values as they are stored.
  if (backend == "triton_attn" && r.version && kBareProducts.hold(r.version) && r.gpu != nullptr && !r.gpu->rocm)
    return WrittenAlone;
  const Rows rows = rows_of(r);
  const auto& applying = rows == Rows::Heads ? kHeads : kLatent;
  const bool applied = rows != Rows::Sparse && std::ranges::find(applying, backend) != applying.end();
  return applied && (!r.version || *r.version == kRun) ? Both : Unknown;
}

/// Whether the checkpoint's quantization has the server look for scales at all.
bool makes_parameters(const ScaleReader& r) {
  const bool sglang = r.server == Engine::Sglang;
  const KvCarrier carrier = carrier_of(*r.declared, kind_in_tables(r.server));
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
  if (!holds_fp8(cache.name)) return Unknown;
  if (r.server == Engine::Vllm) return on_quantized_of_vllm(r);
  const bool may_be_wide = r.backend == "fa3" && !r.latent && (r.head_dim == 0 || r.head_dim > 256);
  return may_be_wide || !r.version ? Unknown : by_sglang(r, &BackendUse::quantized);
}

/// Of vLLM before 0.8.5: on_plain_of_vllm().
bool is_checked(Engine server, const EngineVersion& version) {
  return version <= newest_known(server) && (server == Engine::Vllm || version >= kSglangChecked);
}

}  // namespace

ScaleUse scale_use(const ScaleReader& r, const CacheType& cache) {
  const bool sglang = r.server == Engine::Sglang;
  if (r.declared == nullptr || (!sglang && r.server != Engine::Vllm)) return Unknown;
  if (cache.quantized == Trait::Unknown || (r.version && !is_checked(r.server, *r.version))) return Unknown;
  const bool plain = cache.quantized == Trait::No;
  if (plain && sglang && (!r.version || r.backend.empty())) return Unknown;
  if (!makes_parameters(r)) return Nowhere;
  if (!plain) return on_quantized(r, cache);
  return sglang ? by_sglang(r, &BackendUse::plain) : on_plain_of_vllm(r);
}

}  // namespace kvcal
