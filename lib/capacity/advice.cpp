#include "capacity/advice.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/size_text.h"

namespace kvcal {
namespace {

// Sequences that servers let run at a time unless told otherwise (vLLM --max-num-seqs on smaller GPUs).
constexpr int64_t kScheduled = 256;
constexpr double kLittleGain = 1.25;
constexpr double kMuchWeight = 0.6;  // share of the usable memory

std::string sequences_text(int64_t n, int64_t context) {
  return counted(n, "sequence") + " of " + grouped(context) + " tokens";
}

// The fewest GPUs in one tensor-parallel group that hold the weights and one sequence in FP8; 0: none that is usual.
int64_t gpus_that_hold(const ModelSpec& spec, const Capacity& c, int64_t context) {
  constexpr int64_t kMostGpus = 64;
  for (int64_t tp = c.deployment.tp + 1; tp <= kMostGpus; ++tp) {
    Deployment larger = c.deployment;
    larger.gpus = larger.tp = tp;
    try {
      if (capacity_of(spec, larger, c.weights).at(KvFormat::FP8).holds(1, context)) return tp;
    } catch (const Error&) {  // not a size that divides the heads
    }
  }
  return 0;
}

std::string larger_group(const ModelSpec& spec, const Capacity& c, int64_t context) {
  const int64_t gpus = gpus_that_hold(spec, c, context);
  if (gpus == 0) return "";
  return "; --gpus " + std::to_string(gpus) + " --tp " + std::to_string(gpus) + " would hold them and a sequence of " +
         grouped(context) + " tokens in FP8";
}

void remark_on_state(const Capacity& c, int64_t context, std::vector<std::string>& remarks) {
  const SequenceCost& cost = c.at(KvFormat::BF16).cost();
  if (cost.state_bytes == 0) return;
  const auto whole = static_cast<double>(cost.bytes(context));
  remarks.push_back("recurrent state is " + formatted("%.0f %%", 100 * static_cast<double>(cost.state_bytes) / whole) +
                    " of what a sequence of " + grouped(context) + " tokens keeps in BF16; FP8 does not shrink it");
}

void remark_on_windows(const Capacity& c, int64_t context, std::vector<std::string>& remarks) {
  int64_t n_layers = 0, n_all = 0, window = 0;
  for (const CacheCost& cache : c.at(KvFormat::BF16).cost().caches) {
    if (cache.of_indexer) continue;
    n_all += cache.n_layers;
    if (cache.window == 0 || cache.window >= context) continue;
    n_layers += cache.n_layers;
    window = std::max(window, cache.window);
  }
  if (n_layers > 0)
    remarks.push_back(std::to_string(n_layers) + " of " + std::to_string(n_all) + " caches keep at most " +
                      grouped(window) + " tokens: contexts beyond that cost only the others");
}

void remark_on_kept_layers(const ModelSpec& spec, const Capacity& c, std::vector<std::string>& remarks) {
  const size_t n = c.deployment.kept_layers.size();
  if (n > 0)
    remarks.push_back(
        std::to_string(n) + " of " + std::to_string(spec.caches.size()) +
        " caches stay in BF16, as the scale file says keep16: FP8 and formats of 4 bits do not shrink them");
}

void remark_on_copies(const ModelSpec& spec, const Capacity& c, std::vector<std::string>& remarks) {
  const int64_t tp = c.deployment.tp;
  const bool mla = std::any_of(spec.caches.begin(), spec.caches.end(), [](const KvLayout& k) { return k.is_mla(); });
  if (mla && tp > 1)
    remarks.push_back(
        "each of the " + std::to_string(tp) +
        " GPUs of a group keeps the whole MLA row; a server with data-parallel attention keeps it once and "
        "holds up to " +
        std::to_string(tp) + " times as many sequences");
  if (copies_heads(spec, tp))
    remarks.push_back(
        "there are fewer KV heads than GPUs: heads are replicated, and more GPUs in a group do not make the "
        "cache smaller");
}

// What storing the weights in 8 bits would bring instead.
void remark_on_weights(const ModelSpec& spec, const Capacity& c, int64_t context, std::vector<std::string>& remarks) {
  const auto weights = static_cast<double>(c.budget.weights), usable = static_cast<double>(c.budget.usable);
  if (weights < kMuchWeight * usable || c.weights.in_eight_bits) return;
  WeightBytes half = c.weights;
  half.bytes /= 2;
  const Capacity other = capacity_of(spec, c.deployment, half);
  remarks.push_back("the weights take " + formatted("%.0f %%", 100 * weights / usable) +
                    " of the usable memory; in 8 bits they would leave room for " +
                    sequences_text(other.at(KvFormat::BF16).sequences(context), context) + " with a BF16 cache, " +
                    grouped(other.at(KvFormat::FP8).sequences(context)) + " with FP8");
}

std::string counts(const Capacity& c, int64_t context) {
  return "BF16 holds " + sequences_text(c.at(KvFormat::BF16).sequences(context), context) + ", FP8 " +
         grouped(c.at(KvFormat::FP8).sequences(context));
}

// What a format of four bits would do where FP8 does not.
std::string four_bits_that_hold(const Capacity& c, int64_t concurrency, int64_t context) {
  std::string names;
  for (const auto& [format, fit] : c.fits)
    if ((format == KvFormat::NVFP4 || format == KvFormat::INT4) && fit.holds(concurrency, context))
      names += (names.empty() ? "; " : " or ") + std::string(title_of(format));
  return names.empty() ? "" : names + " would hold them";
}

Recommendation for_load(const ModelSpec& spec, const Capacity& c, int64_t concurrency, int64_t context) {
  const std::string load = sequences_text(concurrency, context);
  if (c.at(KvFormat::BF16).holds(concurrency, context))
    return {Advice::KeepBf16,
            "a BF16 cache holds " + load + "; for this load FP8 gains nothing (" + counts(c, context) + ")",
            {}};
  if (c.at(KvFormat::FP8).holds(concurrency, context))
    return {Advice::UseFp8, load + " fit with an FP8 cache but not with BF16 (" + counts(c, context) + ")", {}};
  std::string text = load + " do not fit, not even with an FP8 cache (" + counts(c, context) + ")";
  text += four_bits_that_hold(c, concurrency, context);
  const int64_t fits = c.at(KvFormat::FP8).context(concurrency, context);
  text += fits > 0 ? "; in FP8 that many sequences can have " + grouped(fits) + " tokens each"
                   : larger_group(spec, c, context);
  return {Advice::LoadDoesNotFit, text, {}};
}

Recommendation for_context(const ModelSpec& spec, const Capacity& c, int64_t context) {
  const int64_t in_bf16 = c.at(KvFormat::BF16).sequences(context), in_fp8 = c.at(KvFormat::FP8).sequences(context);
  const double gain = gain_of_fp8(c, context);
  if (in_bf16 >= kScheduled)
    return {Advice::KeepBf16,
            counts(c, context) + ": more than the " + std::to_string(kScheduled) +
                " that servers run at a time by default; FP8 saves memory that this load does not need",
            {}};
  if (in_fp8 == 0)
    return {Advice::LoadDoesNotFit,
            "not one " + sequences_text(1, context).substr(2) + " fits, not even with an FP8 cache" +
                larger_group(spec, c, context),
            {}};
  if (gain < kLittleGain)
    return {Advice::BuysLittle,
            counts(c, context) + ": a sequence is only " + formatted("%.2f", gain) +
                " times smaller in FP8; keep BF16 unless that decides",
            {}};
  return {
      Advice::UseFp8, counts(c, context) + ": a sequence is " + formatted("%.2f", gain) + " times smaller in FP8", {}};
}

// Where no server that is asked stores FP8.
void refuse_fp8(const Capacity& c, const Load& load, int64_t context, Recommendation& r) {
  if (r.advice != Advice::UseFp8 && r.advice != Advice::BuysLittle) return;
  const bool holds = c.at(KvFormat::BF16).holds(load.concurrency.value_or(1), context);
  r.advice = holds ? Advice::KeepBf16 : Advice::LoadDoesNotFit;
  r.text += ", but no server is known to store FP8 here (" + c.offer(KvFormat::FP8).text + ")";
}

}  // namespace

std::string_view name_of(Advice advice) {
  switch (advice) {
    case Advice::WeightsDoNotFit:
      return "weights_do_not_fit";
    case Advice::KeepBf16:
      return "keep_bf16";
    case Advice::BuysLittle:
      return "buys_little";
    case Advice::UseFp8:
      return "use_fp8";
    case Advice::LoadDoesNotFit:
      return "load_does_not_fit";
  }
  return "";
}

double gain_of_fp8(const Capacity& c, int64_t context) {
  const auto in_bf16 = static_cast<double>(c.at(KvFormat::BF16).cost().bytes(context));
  const auto in_fp8 = static_cast<double>(c.at(KvFormat::FP8).cost().bytes(context));
  return in_fp8 > 0 ? in_bf16 / in_fp8 : 1;
}

int64_t context_of(const ModelSpec& spec, const Load& load) { return load.context.value_or(longest_context(spec)); }

Recommendation recommend(const ModelSpec& spec, const Capacity& c, const Load& load) {
  const int64_t context = context_of(spec, load);
  if (load.concurrency && *load.concurrency < 1)
    fail("--concurrency is " + std::to_string(*load.concurrency) + ", expected at least 1");
  if (context < 1 || context > longest_context(spec))
    fail("--context is " + std::to_string(context) + ", expected 1 to " + std::to_string(longest_context(spec)) +
         ", the longest that the model takes");
  if (c.budget.cache() <= 0)
    return {Advice::WeightsDoNotFit,
            "the weights and the allowance exceed the usable memory of a GPU by " + gib_text(-c.budget.cache()) +
                larger_group(spec, c, context),
            {}};
  Recommendation r = load.concurrency ? for_load(spec, c, *load.concurrency, context) : for_context(spec, c, context);
  // Without a name newest versions are asked: of what they were not checked for, none is known to store it.
  const Trait fp8 = c.offer(KvFormat::FP8).served;
  if (fp8 == Trait::No || (fp8 == Trait::Unknown && !c.deployment.server)) refuse_fp8(c, load, context, r);
  remark_on_state(c, context, r.remarks);
  remark_on_windows(c, context, r.remarks);
  remark_on_kept_layers(spec, c, r.remarks);
  remark_on_copies(spec, c, r.remarks);
  remark_on_weights(spec, c, context, r.remarks);
  return r;
}

}  // namespace kvcal
