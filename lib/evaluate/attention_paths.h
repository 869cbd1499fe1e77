// How servers compute attention over an E4M3 cache: what is rounded beside the rows, as far as it is known.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "artifact/artifact.h"
#include "evaluate/variant.h"
#include "model/model_spec.h"

namespace kvcal {

/// What a path tells apart: layers whose query heads share key heads, have one each, or share latent rows (MLA).
enum class CacheHeads : uint8_t { Shared, Own, Latent };

/// Where queries become E4M3: at the scale of a file, 1.0 without one; at 1.0 whatever the file says; nowhere.
enum class QueryScale : uint8_t { OfFile, One, None };

/// What one server does in layers of one kind. Sources: files and lines, vLLM's below vllm/v1/attention, SGLang's below
/// sglang/kernels, those in srt/ below sglang.
struct AttentionPath {
  std::string_view name;  // "vllm@0.33.0:TRITON_ATTN": server, version, its name of the backend
  CacheHeads heads;
  QueryScale query;
  std::string_view query_source;
  ProbabilityRounding probabilities;
  std::string_view probability_source;
};
std::span<const AttentionPath> attention_paths();

/// A backend whose kernels are compiled: what it does to queries is known, what to probabilities is not.
struct UnmodelledPath {
  std::string_view name, queries, source;
};
std::span<const UnmodelledPath> unmodelled_paths();

/// Error, which says why, where no path has the name.
void check_attention(std::string_view name);

/// "queries in E4M3, probabilities in E4M3, times 256": what a variant does.
std::string attention_text(const Variant& variant);

/// "as they are", "in E4M3", "in E4M3, times 256"
std::string text_of(const ProbabilityRounding& rounding);
std::string_view text_of(CacheHeads heads);

/// Adds to a variant that rounds all caches what the named server rounds beside rows. artifact: has the scales of
/// queries; null: 1.0. Error where that is not modelled for a layer or the format.
void attend_as(Variant& variant, const ModelSpec& spec, std::string_view name, const Artifact* artifact);

}  // namespace kvcal
