#include "fold/fold_proof.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "prefill/runner.h"

namespace kvcal {
namespace {

constexpr int64_t kLengths[] = {96, 40, 9};  // tokens of the drawn sequences

/// Ids that depend on nothing but the vocabulary, without those that stand for images.
std::vector<PromptTokens> drawn_prompts(const ModelSpec& spec) {
  std::vector<PromptTokens> prompts;
  uint64_t state = 1;
  for (const int64_t length : kLengths) {
    PromptTokens& prompt = prompts.emplace_back();
    prompt.id = "drawn-" + std::to_string(prompts.size());
    while (static_cast<int64_t>(prompt.ids.size()) < length) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's linear congruential generator
      const auto id = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(spec.vocab));
      if (std::ranges::find(spec.placeholders, id) == spec.placeholders.end()) prompt.ids.push_back(id);
    }
  }
  return prompts;
}

Storage on_host(Ops& op, const Tensor& tensor) {
  Storage host(tensor.shape, tensor.dtype);
  op.download(tensor, host.tensor());
  return host;
}

/// What a run showed, in its order.
struct Seen {
  std::string what;  // "layer 3, key"
  int cache = -1;    // -1: logits
  CacheSite site = CacheSite::Key;
  Storage values;
};

class Recorder final : public KvTap, public LogitsSink {
 public:
  Recorder(Ops& op, const ModelSpec& spec) : op_(op), spec_(spec) {}

  Tensor query(int, const Tensor& q, const Batch&) override { return q; }
  Tensor key(int cache, const Tensor& k, const Batch&) override { return keep(cache, CacheSite::Key, k); }
  Tensor value(int cache, const Tensor& v, const Batch&) override { return keep(cache, CacheSite::Value, v); }
  Tensor latent(int cache, const Tensor& row, const Batch&) override { return keep(cache, CacheSite::Latent, row); }
  bool wants_absorbed_queries() const override { return false; }
  void layer_done(int) override {}
  void hidden(Ops& op, const Tensor& x, const Batch&, Head& head) override {
    seen_.push_back({"logits", -1, CacheSite::Query, on_host(op, head.forward(op, x))});
  }

  std::vector<Seen> take() { return std::move(seen_); }

 private:
  Tensor keep(int cache, CacheSite site, const Tensor& t) {
    const KvLayout& layout = spec_.caches[static_cast<size_t>(cache)];
    seen_.push_back(
        {"layer " + std::to_string(layout.layer) + ", " + std::string(name_of(site)), cache, site, on_host(op_, t)});
    return t;
  }

  Ops& op_;
  const ModelSpec& spec_;
  std::vector<Seen> seen_;
};

std::vector<Seen> run(const OpenedModel& model, Ops& op, const SequencePlan& plan,
                      const std::function<void(const RunStep&)>& on_step) {
  constexpr int64_t kRows = 256;
  ModelWeights weights = model.weights;
  Recorder recorder(op, model.spec());
  Runner runner(*model.model, op, weights, kRows);
  runner.on_step(on_step);
  SequenceGroup group;
  group.sequences = &plan.measured;
  group.tap = &recorder;
  if (model.has_head()) {  // else it is a backbone saved alone, which predicts nothing
    group.until = Until::Logits;
    group.sink = &recorder;
  }
  std::vector<SequenceGroup> groups = {group};
  if (model.has_head() && model.spec().n_mtp_layers > 0) {  // whose logits are not the model's: its rows alone
    const int mtp = static_cast<int>(std::ssize(model.spec().layers)) - 1;
    groups.push_back({&plan.measured, &recorder, Until::LastKv, nullptr, mtp});
  }
  runner.run(groups, plan.prompts);
  return recorder.take();
}

int64_t layers_run(const OpenedModel& model) {
  return model.has_head() ? std::ssize(model.spec().layers) : model.spec().last_counted_layer() + 1;
}

/// Of every channel of a cached row: powers of two by cache and site. A latent row has those of both its parts.
class Powers {
 public:
  Powers(const ModelSpec& spec, const std::vector<FoldedSite>& sites) : spec_(spec), sites_(sites) {}

  std::vector<int> of(const Seen& seen) const {
    const KvLayout& layout = spec_.caches[static_cast<size_t>(seen.cache)];
    std::vector<int> exponents;
    for (const FoldedSite& s : sites_) {
      const bool is_part = seen.site == CacheSite::Latent && s.site == CacheSite::Rope;
      if (s.layer == layout.layer && (s.site == seen.site || is_part))
        exponents.insert(exponents.end(), s.exponents.begin(), s.exponents.end());
    }
    return exponents;
  }

 private:
  const ModelSpec& spec_;
  const std::vector<FoldedSite>& sites_;
};

std::string place_text(int64_t row, int64_t channel) {
  return "row " + std::to_string(row) + ", channel " + std::to_string(channel);
}

void compare_logits(const Seen& original, const Seen& folded, std::string_view precision) {
  const Tensor a = original.values.tensor(), b = folded.values.tensor();
  const size_t bytes = size_of(a.dtype);
  for (int64_t i = 0; i < a.elements(); ++i) {
    const size_t at = static_cast<size_t>(i) * bytes;
    if (std::memcmp(static_cast<const std::byte*>(a.data) + at, static_cast<const std::byte*>(b.data) + at, bytes) != 0)
      fail("the folded model does not compute the same: logits in " + std::string(precision) + " differ at " +
           place_text(i / a.dim(1), i % a.dim(1)));
  }
}

void compare_rows(const Seen& original, const Seen& folded, const std::vector<int>& exponents) {
  const auto n = static_cast<size_t>(original.values.tensor().elements());
  std::vector<float> a(n), b(n);
  convert_to_float(original.values.tensor().dtype, original.values.tensor().data, a.data(), n);
  convert_to_float(folded.values.tensor().dtype, folded.values.tensor().data, b.data(), n);
  const size_t width = exponents.size();
  for (size_t i = 0; i < n; ++i)
    if (std::ldexp(a[i], exponents[i % width]) != b[i])
      fail("the folded model does not hold what it should: " + original.what + ", " +
           place_text(static_cast<int64_t>(i / width), static_cast<int64_t>(i % width)));
}

}  // namespace

FoldProof prove_fold(const OpenedModel& original, const OpenedModel& folded, const std::vector<FoldedSite>& sites,
                     const OpenPrecision& open, CalibrationListener& listener) {
  constexpr Precision kPrecisions[] = {Precision::BF16, Precision::F32};
  FoldProof check;
  const Powers powers(original.spec(), sites);
  const SequencePlan plan =
      plan_sequences(drawn_prompts(original.spec()), {.passes = 1, .warmup_passes = 0, .sanity = false});
  for (const int64_t length : kLengths) check.n_tokens += length;
  const int64_t n_models = 2 * std::ssize(kPrecisions);
  listener.sweep_begins(
      {{{"both models", std::ssize(plan.measured), check.n_tokens}}, n_models * check.n_tokens * layers_run(original)});
  int64_t done = 0;
  const auto on_step = [&](const RunStep& step) { listener.step(step, done += step.tokens); };
  for (const Precision precision : kPrecisions) {
    const std::unique_ptr<Ops> op = open(precision);
    const std::vector<Seen> before = run(original, *op, plan, on_step), after = run(folded, *op, plan, on_step);
    if (before.size() != after.size()) fail("the folded model runs other layers than the original");
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i].cache < 0) {
        compare_logits(before[i], after[i], precision == Precision::BF16 ? "bf16" : "f32");
        check.n_logits += before[i].values.tensor().elements();
      } else {
        compare_rows(before[i], after[i], powers.of(before[i]));
        check.n_rows += before[i].values.tensor().dim(0);
      }
    }
  }
  listener.sweep_ends();
  return check;
}

}  // namespace kvcal
