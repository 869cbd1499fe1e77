#include <algorithm>
#include <array>

#include "doctor/diagnose.h"

namespace kvcal {
namespace {

struct CauseLine {
  Cause cause;
  std::string_view name, title;
};

constexpr std::array kCauses = {
    CauseLine{Cause::None, "none", "nothing known matches"},
    CauseLine{Cause::RuntimeScalesOfHybrid, "runtime-scales-of-hybrid",
              "the server measured its KV scales through recurrent layers that were not initialized"},
    CauseLine{Cause::RuntimeScalesFrozen, "runtime-scales-frozen",
              "the server froze its KV scales after its first forward pass"},
    CauseLine{Cause::RuntimeScalesIgnored, "runtime-scales-ignored",
              "the server ignored the option to measure KV scales and uses 1.0"},
    CauseLine{Cause::OptionUnknown, "option-unknown", "the command uses an option that this server does not have"},
    CauseLine{Cause::ScalesMissing, "scales-missing",
              "the {format} cache runs at scale 1.0 because there are no scales"},
    CauseLine{Cause::ScalesNotLoaded, "scales-not-loaded", "there are KV scales, but the cache does not use them"},
    CauseLine{Cause::ScalesRefused, "scales-refused", "the server refuses the scales, or how they are declared"},
    CauseLine{Cause::ScalesStale, "scales-stale", "the scales do not, or no longer, match the model being served"},
    CauseLine{Cause::ScalesInvalid, "scales-invalid", "some scales are not usable numbers"},
    CauseLine{Cause::PluginMissing, "plugin-missing", "the plug-in that should set the scales did not"},
    CauseLine{Cause::LatentAttention, "latent-attention",
              "{format} cache of an MLA model: this backend, or how it handles scales"},
    CauseLine{Cause::FormatUnsupported, "format-unsupported",
              "this server or GPU does not support the requested cache type"},
    CauseLine{Cause::KeyOutliers, "key-outliers", "outlier channels in the keys, which no scale can fix"},
    CauseLine{Cause::KernelDefect, "kernel-defect", "a defect of this server or its kernels"},
    CauseLine{Cause::NanLogits, "nan-logits", "the model computes NaN, for a reason that these inputs do not show"},
    CauseLine{Cause::NotTheCache, "not-the-cache", "not the KV cache, but weights, attention backend or kernels"},
    CauseLine{Cause::CacheTransfer, "cache-transfer",
              "handing the cache over, to another server or a store, does not work here"},
    CauseLine{Cause::AnswerInReasoning, "answer-in-reasoning",
              "the whole output is reasoning, so the answer is empty: max_tokens, or the reasoning parser"},
};

const CauseLine& line_of(Cause cause) { return kCauses.at(static_cast<size_t>(cause)); }

constexpr int kSaysSoItself = 9;

}  // namespace

std::string_view name_of(Cause cause) { return line_of(cause).name; }
std::string title_of(Cause cause, const CacheType& cache) {
  std::string title(line_of(cause).title);
  constexpr std::string_view kFormat = "{format}";
  if (const size_t at = title.find(kFormat); at != title.npos) title.replace(at, kFormat.size(), format_of(cache));
  return title;
}

std::string_view name_of(Confidence confidence) {
  constexpr std::array<std::string_view, 4> kNames = {"established", "computed", "reported", "inferred"};
  return kNames.at(static_cast<size_t>(confidence));
}

std::string_view name_of(Likelihood likelihood) {
  constexpr std::array<std::string_view, 3> kNames = {"possible", "likely", "certain"};
  return kNames.at(static_cast<size_t>(likelihood));
}

Likelihood likelihood_of(const Explanation& explanation) {
  const bool certain = explanation.strongest >= kSaysSoItself && !explanation.of_some_versions &&
                       explanation.best->confidence == Confidence::Established;
  if (certain) return Likelihood::Certain;
  return explanation.score >= 6 && !explanation.is_beside_exception ? Likelihood::Likely : Likelihood::Possible;
}

std::vector<Explanation> explain(const std::vector<Sign>& signs) {
  std::vector<Explanation> found;
  for (const Sign& sign : signs) {
    const Entry& entry = *sign.entry;
    const int weight = sign.weight();
    if (entry.cause == Cause::None) continue;
    auto same = std::find_if(found.begin(), found.end(), [&](const Explanation& e) { return e.cause == entry.cause; });
    if (same == found.end()) same = found.insert(same, Explanation{entry.cause, 0, weight, {}, &entry});
    // The strongest counts in full, the others as support.
    const int more = std::max(0, weight - same->strongest);
    same->score += same->because.empty() ? weight : 1 + more;
    if (more > 0) same->best = &entry;
    same->strongest += more;
    const bool first = same->best == &entry;
    if (first) same->of_some_versions = sign.of_some_versions;
    same->because.insert(first ? same->because.begin() : same->because.end(), std::string(entry.id));
  }
  std::stable_sort(found.begin(), found.end(), [](const Explanation& a, const Explanation& b) {
    const bool a_says = a.strongest >= kSaysSoItself, b_says = b.strongest >= kSaysSoItself;
    return a_says != b_says ? a_says : a.score > b.score;
  });
  return found;
}

}  // namespace kvcal
