#include "evaluate/attention_paths.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"
#include "evaluate/make_variants.h"

namespace kvcal {
namespace {

constexpr std::array kPaths = {
    AttentionPath{"vllm@0.33.0:TRITON_ATTN",
                  CacheHeads::Shared,
                  QueryScale::OfFile,
                  "backends/triton_attn.py:553",
                  {256, false},
                  "ops/triton_unified_attention.py:594"},
    AttentionPath{"vllm@0.33.0:TRITON_ATTN",
                  CacheHeads::Own,
                  QueryScale::OfFile,
                  "backends/triton_attn.py:553",
                  {256, false},
                  "ops/triton_unified_attention.py:594"},
    AttentionPath{"vllm@0.33.0:TRITON_MLA",
                  CacheHeads::Latent,
                  QueryScale::None,
                  "backends/mla/triton_mla.py:229",
                  {},
                  "ops/triton_decode_attention.py:437"},
    // A sink joins the sum behind the last key (:1010).
    AttentionPath{"sglang@0.5.23:triton",
                  CacheHeads::Shared,
                  QueryScale::One,
                  "ops/attention/decode_attention.py:661",
                  {1, true},
                  "ops/attention/decode_attention.py:762"},
    AttentionPath{"sglang@0.5.23:triton",
                  CacheHeads::Own,
                  QueryScale::None,
                  "ops/attention/decode_attention.py:352",
                  {},
                  "ops/attention/decode_attention.py:400"},
};

constexpr std::array kUnmodelled = {
    UnmodelledPath{"vllm@0.33.0:FLASH_ATTN", "E4M3, except FlashAttention 4 on Hopper",
                   "backends/flash_attn.py:1158 to 1163, 1285 to 1300"},
    UnmodelledPath{"vllm@0.33.0:FLASHINFER", "by GPU: E4M3 on B200, on Hopper in prompts alone",
                   "backends/flashinfer.py:1131, 2079"},
    UnmodelledPath{"sglang@0.5.23:fa3", "E4M3 at 1.0", "srt/layers/attention/flashattention_backend.py:1436"},
    UnmodelledPath{"sglang@0.5.23:flashinfer", "as they are", "srt/layers/attention/flashinfer_backend.py:1605"},
    UnmodelledPath{"sglang@0.5.23:trtllm_mha", "E4M3 at 1.0",
                   "srt/layers/attention/trtllm_mha_backend.py:692 to 704, 1636 to 1642"},
};

std::string modelled_names() {
  std::string text, last;
  for (const AttentionPath& path : kPaths)
    if (path.name != last) text += (text.empty() ? "" : ", ") + (last = path.name);
  return text;
}

CacheHeads heads_of(const KvLayout& layout) {
  if (layout.is_mla()) return CacheHeads::Latent;
  return layout.n_heads == layout.n_kv_heads ? CacheHeads::Own : CacheHeads::Shared;
}

const AttentionPath& path_of(std::string_view name, const KvLayout& layout) {
  const CacheHeads heads = heads_of(layout);
  const auto found =
      std::ranges::find_if(kPaths, [&](const AttentionPath& p) { return p.name == name && p.heads == heads; });
  if (found == kPaths.end())
    fail("--attention " + std::string(name) + ": not modelled for layer " + std::to_string(layout.layer) +
         ", which has " + std::string(text_of(heads)));
  return *found;
}

bool is_one_e4m3_scale(const std::optional<SiteRounding>& site) {
  return site && site->format == CacheFormat::E4m3 && site->write.size() == 1;
}

}  // namespace

std::string_view text_of(CacheHeads heads) {
  switch (heads) {
    case CacheHeads::Shared:
      return "query heads that share key heads";
    case CacheHeads::Own:
      return "a key head for each query head";
    case CacheHeads::Latent:
      return "latent rows (MLA)";
  }
  return "";
}

std::string text_of(const ProbabilityRounding& rounding) {
  if (rounding.factor == 0) return "as they are";
  return rounding.factor == 1 ? "in E4M3" : "in E4M3, times " + formatted("%g", rounding.factor);
}

std::span<const AttentionPath> attention_paths() { return kPaths; }
std::span<const UnmodelledPath> unmodelled_paths() { return kUnmodelled; }

void check_attention(std::string_view name) {
  if (std::ranges::find(kPaths, name, &AttentionPath::name) != kPaths.end()) return;
  const auto known = std::ranges::find(kUnmodelled, name, &UnmodelledPath::name);
  fail("--attention " + std::string(name) + ": not modelled" +
       (known == kUnmodelled.end() ? "" : ", as it is not known what its compiled kernels do to probabilities") +
       "; modelled: " + modelled_names());
}

std::string attention_text(const Variant& variant) {
  std::vector<std::string> texts;
  for (const CacheSites& sites : variant.caches) {
    const std::string text = std::string("queries ") + (sites.query ? "in E4M3" : "as they are") + ", probabilities " +
                             text_of(sites.probabilities);
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  }
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; in other layers ") + text;
  return all;
}

void attend_as(Variant& variant, const ModelSpec& spec, std::string_view name, const Artifact* artifact) {
  if (spec.n_pickers > 0 || spec.indexed_beyond > 0)
    fail("--attention " + std::string(name) + ": not modelled for " + quoted(spec.architecture) +
         ", whose layers pick the keys that a query sees");
  Variant of_file = variant, at_one = variant;
  round_queries(of_file, spec, artifact);
  round_queries(at_one, spec, nullptr);
  for (const KvLayout& layout : spec.caches) {
    CacheSites& sites = variant.caches[static_cast<size_t>(layout.cache)];
    const AttentionPath& path = path_of(name, layout);
    if (!is_one_e4m3_scale(sites.key) || (!layout.is_mla() && !is_one_e4m3_scale(sites.value)))
      fail("--attention " + std::string(name) + ": not modelled for " + quoted(variant.format) +
           ", only for fp8_e4m3 with a scale for each layer's keys and values");
    sites.probabilities = path.probabilities;
    if (path.query != QueryScale::None)
      sites.query = (path.query == QueryScale::One ? at_one : of_file).caches[static_cast<size_t>(layout.cache)].query;
  }
}

}  // namespace kvcal
