#include "evaluate/variant_sweep.h"

#include <algorithm>

#include "evaluate/comparison.h"
#include "evaluate/resume.h"
#include "evaluate/variant_tap.h"

namespace kvcal {
namespace {

int first_rounded(const ModelSpec& spec, const Variant& variant) {
  if (variant.state.rounds())
    return static_cast<int>(std::ranges::find_if(spec.layers, &LayerSpec::has_long_state) - spec.layers.begin());
  const int cache = variant.is_floor() ? 0 : variant.first_cache();
  return cache < 0 ? 0 : spec.caches[static_cast<size_t>(cache)].layer;
}

/// Before it a variant is the reference.
int branch_layer(const ModelSpec& spec, const Variant& variant) {
  int layer = first_rounded(spec, variant);
  while (layer > 0 && !Runner::can_branch(spec, layer)) --layer;
  return layer;
}

void check_equal(const std::vector<ComparedToken>& tokens, const std::vector<PromptTokens>& prompts) {
  for (const ComparedToken& token : tokens) {
    const PredictionDifference& d = token.difference;
    if (d.kl == 0 && d.same_top && d.nll_reference == d.nll_variant) continue;
    fail("the model, run twice on prompt " + quoted(prompts[static_cast<size_t>(token.prompt)].id) +
         ", does not predict the same after token " + std::to_string(token.position) +
         ": the device computes differently each time");
  }
}

/// Whether errors of its rows are asked for: of single layers they are nearly those of all together.
bool is_measured(const Variant& variant) { return variant.layer < 0 && variant.first_cache() >= 0; }

/// The sweep: the reference twice on a few tokens, then the reference and all variants on all of them.
class SideBySide {
 public:
  SideBySide(const SequencePlan& sequences, const std::vector<Variant>& variants, const ModelSpec& spec, Ops& op,
             int64_t keep_recent, ThreadPool& pool, std::vector<RowErrors>& errors)
      : self_(sequences.prompts, 1, rows_, pool), comparison_(sequences.prompts, variants.size(), rows_, pool) {
    groups_ = {{&sequences.sanity, &away_, Until::Logits, &self_.of_reference()},
               {&sequences.sanity, &away_, Until::Logits, &self_.of_variant(0)},
               {&sequences.measured, &away_, Until::Logits, &comparison_.of_reference()}};
    const size_t reference = groups_.size() - 1;
    for (size_t i = 0; i < variants.size(); ++i) {
      taps_.push_back(tap_of(variants[i], spec, op, keep_recent, is_measured(variants[i]) ? &errors[i] : nullptr));
      groups_.push_back({&sequences.measured, taps_.back().get(), Until::Logits, &comparison_.of_variant(i),
                         branch_layer(spec, variants[i]), reference, variants[i].state});
    }
  }

  const std::vector<SequenceGroup>& groups() const { return groups_; }
  std::vector<ComparedToken> self() { return self_.take(0); }
  std::vector<ComparedToken> of(size_t variant) { return comparison_.take(variant); }

 private:
  NoTap away_;
  ReferenceRows rows_;
  Comparison self_, comparison_;
  std::vector<std::unique_ptr<KvTap>> taps_;
  std::vector<SequenceGroup> groups_;
};

SweepOutline outline_of(const std::vector<SequenceGroup>& groups, const std::vector<Variant>& variants,
                        int64_t n_layers) {
  SweepOutline outline;
  for (size_t i = 0; i < groups.size(); ++i) {
    const SequenceGroup& g = groups[i];
    const size_t before = groups.size() - variants.size();
    outline.groups.push_back({i < before ? "reference" : variants[i - before].name,
                              static_cast<int64_t>(g.sequences->size()), tokens_of(*g.sequences)});
    outline.work += outline.groups.back().n_tokens * (n_layers - g.first_layer);
  }
  return outline;
}

int64_t work_before(int64_t layer, const std::vector<SequenceGroup>& groups) {
  int64_t work = 0;
  for (const SequenceGroup& g : groups) work += tokens_of(*g.sequences) * std::max<int64_t>(0, layer - g.first_layer);
  return work;
}

/// Sampled rows, as they are, moved, rounded and moved back: of short prompts all of a batch.
int64_t measured_elements(const KvLayout& layout) {
  return 4 * layout.n_kv_heads * (layout.head_dim_k + layout.head_dim_v);
}

/// What variants allocate beside a layer's own: what is measured; the floor's queries and keys, in two parts and
/// joined. Where absorbed queries are read, every head has the whole row for its key.
ModelSpec with_variants(ModelSpec spec, const std::vector<Variant>& variants) {
  for (LayerSpec& layer : spec.layers) {
    if (layer.cache >= 0 && std::ranges::any_of(variants, is_measured))
      layer.activations += measured_elements(spec.caches[static_cast<size_t>(layer.cache)]);
    if (layer.cache < 0 && layer.shares_cache < 0) continue;
    const auto cache = static_cast<size_t>(layer.cache >= 0 ? layer.cache : layer.shares_cache);
    const KvLayout& layout = spec.caches[cache];
    const auto changes = [&](const Variant& v) {
      return v.is_floor() || (layout.is_mla() && v.caches[cache].query.has_value());
    };
    if (std::ranges::none_of(variants, changes)) continue;
    if (layout.is_mla()) {
      layer.activations += layout.n_heads * layout.head_dim_k;
      layer.kept_row += layout.n_heads * layout.head_dim_k;
    } else {
      layer.activations += 2 * (layout.n_heads + layout.n_kv_heads) * layout.head_dim_k;
    }
  }
  return spec;
}

/// What a sweep finds of each variant.
struct Found {
  std::vector<std::vector<ComparedToken>> tokens;  // by prompt and position
  std::vector<RowErrors> errors;
};

Found compared(const Ground& on, const std::vector<Variant>& variants, const MemoryPlan& memory, SweepFolder* store) {
  Found found;
  found.errors = store ? store->errors(variants.size()) : std::vector<RowErrors>(variants.size());
  if (store) store->keep(found.errors);
  ThreadPool pool(on.options.threads ? on.options.threads : available_processors());
  SideBySide side_by_side(on.sequences, variants, on.model.spec(), on.op, on.options.keep_recent, pool, found.errors);
  Runner runner(*on.model.model, on.op, on.model.weights, memory);
  if (store) runner.keep_in(*store);
  SweepOutline outline =
      outline_of(side_by_side.groups(), variants, static_cast<int64_t>(on.model.spec().layers.size()));
  int64_t done = outline.work_done = store ? work_before(store->layers_done(), side_by_side.groups()) : 0;
  runner.on_step([&](const RunStep& step) { on.listener.step(step, done += step.tokens); });
  on.listener.sweep_begins(outline);
  runner.run(side_by_side.groups(), on.sequences.prompts);
  on.listener.sweep_ends();
  check_equal(side_by_side.self(), on.sequences.prompts);
  for (size_t i = 0; i < variants.size(); ++i) found.tokens.push_back(side_by_side.of(i));
  if (store) store->finish(found.tokens);
  return found;
}

}  // namespace

MemoryPlan memory_of(const Ground& on, const std::vector<Variant>& variants) {
  const EvaluationOptions& options = on.options;
  const size_t n_variants = variants.size();
  SequencePlan side_by_side = on.sequences;
  side_by_side.warmup = on.sequences.sanity;  // they run twice
  for (size_t i = 0; i < n_variants; ++i)
    side_by_side.measured.insert(side_by_side.measured.end(), on.sequences.measured.begin(),
                                 on.sequences.measured.end());
  MemoryOptions memory;
  memory.budget = options.memory;
  memory.chunk_tokens = options.chunk_tokens;
  memory.precision = options.precision;
  memory.statistics_bytes = static_cast<uint64_t>(on.model.spec().vocab * Comparison::kBytesPerEntry);
  memory.device = on.op.device_memory();
  memory.measured_groups = 1 + static_cast<int64_t>(n_variants);
  memory.block = options.keep_recent;
  memory.keeps_states = std::ranges::any_of(variants, [](const Variant& v) { return v.state.rounds(); });
  const ModelSpec spec = with_variants(on.model.spec(), variants);
  return while_doing(std::to_string(n_variants) + " variant(s) beside the reference",
                     [&] { return plan_memory(spec, on.model.weights, side_by_side, memory); });
}

Swept sweep(const Ground& on, const std::vector<Variant>& variants, const std::string& name) {
  Swept swept;
  swept.memory = memory_of(on, variants);
  SweepFolder* store = on.resume ? &on.resume->sweep(name, variants, on.sequences.sha256) : nullptr;
  Found found = store && store->is_through() ? Found{store->compared(variants.size(), tokens_of(on.sequences.measured)),
                                                     store->errors(variants.size())}
                                             : compared(on, variants, swept.memory, store);
  for (size_t i = 0; i < variants.size(); ++i)
    swept.variants.push_back({variants[i], std::move(found.tokens[i]), std::move(found.errors[i])});
  return swept;
}

std::unique_ptr<EvaluationResume> open_resume(const Ground& on, const std::string& prompts_sha256) {
  const EvaluationOptions& o = on.options;
  if (o.resume.empty()) return nullptr;
  const Json identity = {{"model", to_json(describe(on.model))},
                         {"prompts", prompts_sha256},
                         {"keep_recent", o.keep_recent},
                         {"precision", o.precision == Precision::BF16 ? "bf16" : "f32"},
                         {"isa", on.op.isa()},
                         {"commit", o.commit}};
  return std::make_unique<EvaluationResume>(o.resume, identity, static_cast<int>(on.model.spec().layers.size()),
                                            on.listener);
}

}  // namespace kvcal
