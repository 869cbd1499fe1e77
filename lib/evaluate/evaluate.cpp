#include "evaluate/evaluate.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "calibrate/opened_model.h"
#include "evaluate/comparison.h"
#include "evaluate/make_variants.h"
#include "evaluate/resume.h"
#include "evaluate/rounding_tap.h"
#include "prefill/footprint.h"

namespace kvcal {
namespace {

FedPrompts feed(const OpenedModel& model, const EvaluationInputs& inputs, PromptOptions options,
                CalibrationListener& listener) {
  options.keep_within(model.spec().max_positions);
  return feed_prompts(inputs.model, model.spec().vocab, options, inputs.prompts, listener);
}

void check_model(const OpenedModel& model, const std::filesystem::path& folder) {
  if (!model.has_head())
    fail(quoted(folder.string()) + ": has no output head, so it predicts nothing that could be compared");
}

/// Of --keep-recent: what reads rows of a block before it is complete, and not in the layer that owns them.
void check_blocks(const ModelSpec& spec) {
  const std::string what = "--keep-recent is not possible with this model: ";
  if (std::ranges::any_of(spec.caches, [&](const KvLayout& c) { return spec.n_sharing(c.cache) > 0; }))
    fail(what + "layers share the caches of others");
  if (spec.images_seen_whole) fail(what + "tokens of an image see those behind them");
}

void check_expectations(const FedPrompts& fed) {
  const auto expects = [](const TokenizedPrompt& p) { return p.expect.has_value(); };
  if (std::ranges::none_of(fed.prompts, expects)) fail("none of the prompts has \"expect\", a right answer's mark");
}

/// Each prompt alone, and the beginnings of some, to compare the reference with itself.
SequencePlan sequences_of(std::vector<PromptTokens> prompts) {
  int64_t longest = 0;
  for (const PromptTokens& p : prompts) longest = std::max(longest, static_cast<int64_t>(p.ids.size()));
  return plan_sequences(std::move(prompts), {.passes = 1, .warmup_passes = 0, .max_length = longest, .sanity = true});
}

/// Of the reference and the variants, each with a residual stream of its own.
MemoryPlan memory_of(const OpenedModel& model, const SequencePlan& sequences, const std::vector<Variant>& variants,
                     const Ops& op, const EvaluationOptions& options) {
  const size_t n_variants = variants.size();
  SequencePlan side_by_side = sequences;
  side_by_side.warmup = sequences.sanity;  // they run twice
  for (size_t i = 0; i < n_variants; ++i)
    side_by_side.measured.insert(side_by_side.measured.end(), sequences.measured.begin(), sequences.measured.end());
  MemoryOptions memory;
  memory.budget = options.memory;
  memory.chunk_tokens = options.chunk_tokens;
  memory.precision = options.precision;
  memory.statistics_bytes = static_cast<uint64_t>(model.spec().vocab * Comparison::kBytesPerEntry);
  memory.device = op.device_memory();
  memory.measured_groups = 1 + static_cast<int64_t>(n_variants);
  memory.block = options.keep_recent;
  memory.rounds_states = std::ranges::any_of(variants, [](const Variant& v) { return v.state != DType::F32; });
  return while_doing(std::to_string(n_variants) + " variant(s) beside the reference",
                     [&] { return plan_memory(model.spec(), model.weights, side_by_side, memory); });
}

/// Answers take all weights at once.
void check_resident(const ModelSpec& spec, const MemoryPlan& plan, Precision precision) {
  int64_t parameters = spec.vocab * spec.hidden * (spec.tied_head ? 1 : 2) + spec.table_parameters;
  for (const LayerSpec& layer : spec.layers) parameters += layer.parameters + layer.copies;
  const uint64_t bytes = plan.program + static_cast<uint64_t>(parameters) * element_bytes(precision);
  if (bytes > plan.budget)
    fail("answers need all weights in memory, " + bytes_text(bytes) + "; the budget is " + bytes_text(plan.budget));
}

int first_rounded(const ModelSpec& spec, const Variant& variant) {
  if (variant.state != DType::F32)
    return static_cast<int>(std::ranges::find_if(spec.layers, &LayerSpec::has_long_state) - spec.layers.begin());
  const int cache = variant.first_cache();
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

/// The sweep: the reference twice on a few tokens, then the reference and all variants on all of them.
class SideBySide {
 public:
  SideBySide(const SequencePlan& sequences, const std::vector<Variant>& variants, const ModelSpec& spec, Ops& op,
             int64_t keep_recent, ThreadPool& pool)
      : self_(sequences.prompts, 1, pool), comparison_(sequences.prompts, variants.size(), pool) {
    groups_ = {{&sequences.sanity, &away_, Until::Logits, &self_.of_reference()},
               {&sequences.sanity, &away_, Until::Logits, &self_.of_variant(0)},
               {&sequences.measured, &away_, Until::Logits, &comparison_.of_reference()}};
    const size_t reference = groups_.size() - 1;
    taps_.reserve(variants.size());
    for (size_t i = 0; i < variants.size(); ++i) {
      taps_.emplace_back(variants[i], op, keep_recent);
      groups_.push_back({&sequences.measured, &taps_.back(), Until::Logits, &comparison_.of_variant(i),
                         branch_layer(spec, variants[i]), reference, variants[i].state});
    }
  }

  const std::vector<SequenceGroup>& groups() const { return groups_; }
  std::vector<ComparedToken> self() { return self_.take(0); }
  std::vector<ComparedToken> of(size_t variant) { return comparison_.take(variant); }

 private:
  NoTap away_;
  Comparison self_, comparison_;
  std::vector<RoundingTap> taps_;
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

/// What sweeps need.
struct Ground {
  OpenedModel& model;
  const SequencePlan& sequences;
  Ops& op;
  const EvaluationOptions& options;
  CalibrationListener& listener;
};

struct Swept {
  std::vector<EvaluatedVariant> variants;
  MemoryPlan memory;
};

/// With a store it goes on where that says, and leaves every layer's end there.
Swept sweep(const Ground& on, const std::vector<Variant>& variants, RunStore* store = nullptr) {
  Swept swept;
  swept.memory = memory_of(on.model, on.sequences, variants, on.op, on.options);
  ThreadPool pool(on.options.threads ? on.options.threads : available_processors());
  SideBySide side_by_side(on.sequences, variants, on.model.spec(), on.op, on.options.keep_recent, pool);
  Runner runner(*on.model.model, on.op, on.model.weights, swept.memory);
  if (store) runner.keep_in(*store);
  SweepOutline outline =
      outline_of(side_by_side.groups(), variants, static_cast<int64_t>(on.model.spec().layers.size()));
  int64_t done = outline.work_done = store ? work_before(store->layers_done(), side_by_side.groups()) : 0;
  runner.on_step([&](const RunStep& step) { on.listener.step(step, done += step.tokens); });
  on.listener.sweep_begins(outline);
  runner.run(side_by_side.groups(), on.sequences.prompts);
  on.listener.sweep_ends();
  check_equal(side_by_side.self(), on.sequences.prompts);
  for (size_t i = 0; i < variants.size(); ++i) swept.variants.push_back({variants[i], side_by_side.of(i)});
  return swept;
}

std::unique_ptr<RunFolder> open_resume(const Ground& on, const std::vector<Variant>& variants,
                                       const std::string& prompts_sha256) {
  const EvaluationOptions& o = on.options;
  if (o.resume.empty()) return nullptr;
  const Json identity = {{"model", to_json(describe(on.model))},
                         {"prompts", prompts_sha256},
                         {"plan", on.sequences.sha256},
                         {"variants", digest_of(variants)},
                         {"keep_recent", o.keep_recent},
                         {"precision", o.precision == Precision::BF16 ? "bf16" : "f32"},
                         {"isa", on.op.isa()},
                         {"commit", o.commit}};
  auto folder = std::make_unique<EvaluationFolder>(o.resume, identity, on.listener);
  if (folder->layers_done() > 0)
    on.listener.hear(Notice::Note, "resuming after layer " + std::to_string(folder->layers_done()) + " of " +
                                       std::to_string(on.model.spec().layers.size()) + ", from " +
                                       quoted(o.resume.string()));
  return folder;
}

/// Each layer alone in each of the formats.
std::vector<Variant> layers_in(const std::vector<Variant>& formats, const ModelSpec& spec) {
  std::vector<Variant> alone;
  for (const Variant& format : formats)
    for (const KvLayout& layout : spec.caches) alone.push_back(one_cache(format, layout));
  return alone;
}

/// The first of the formats is the cache as it is.
LayerChoices choices_of(const ModelSpec& spec, std::span<const EvaluatedVariant> alone) {
  LayerChoices layers;
  const size_t n_caches = spec.caches.size();
  for (size_t c = 0; c < n_caches; ++c) {
    const KvLayout& layout = spec.caches[c];
    std::vector<LayerFormat>& formats = layers.emplace_back();
    formats.push_back({"bf16", 0, bf16_bytes_per_token(layout)});
    for (size_t i = c; i < alone.size(); i += n_caches)
      formats.push_back({alone[i].variant.format, mean_kl(alone[i].tokens),
                         bytes_per_token(layout, stored_format(alone[i].variant.format))});
  }
  return layers;
}

Variant combined(const RecipeRequest& request, const Choice& choice) {
  Variant variant{"recipe", "mixed", {}};
  for (size_t c = 0; c < choice.size(); ++c)
    variant.caches.push_back(choice[c] == 0 ? CacheSites{} : request.formats[choice[c] - 1].caches[c]);
  return variant;
}

EvaluatedRecipe recipe_of(const Ground& on, const RecipeRequest& request, std::span<const EvaluatedVariant> alone) {
  const ModelSpec& spec = on.model.spec();
  const LayerChoices choices = choices_of(spec, alone);
  EvaluatedRecipe recipe{request.max_kl, {}, {}};
  recipe.found = find_recipe(choices, request.max_kl, [&](const Choice& choice) {
    return mean_kl(sweep(on, {combined(request, choice)}).variants[0].tokens);
  });
  for (size_t c = 0; c < spec.caches.size(); ++c)
    recipe.layers.emplace_back(spec.caches[c].layer, choices[c][recipe.found.choice[c]].name);
  return recipe;
}

}  // namespace

Evaluation evaluate(const EvaluationInputs& inputs, const EvaluationOptions& options, const MakeVariants& make_variants,
                    CalibrationListener& listener) {
  OpenedModel model(inputs.model, options.max_model_len);
  check_model(model, inputs.model);
  const FedPrompts fed = feed(model, inputs, options.prompts, listener);
  if (options.expects) check_expectations(fed);
  const ModelSpec& spec = model.spec();
  if (options.keep_recent > 0) check_blocks(spec);
  const VariantSet set = make_variants(spec);
  std::vector<Variant> variants = set.compared;
  const std::vector<Variant> to_choose = set.recipe ? layers_in(set.recipe->formats, spec) : std::vector<Variant>{};
  for (const auto* more : {&set.layers, &to_choose}) variants.insert(variants.end(), more->begin(), more->end());
  check_weights(*model.model, model.weights, static_cast<int>(spec.layers.size()), true);

  const std::unique_ptr<Ops> op = inputs.open_device();
  const SequencePlan sequences = sequences_of(tokens_of(fed, spec));
  if (options.max_new_tokens > 0)
    check_resident(spec, memory_of(model, sequences, variants, *op, options), options.precision);
  const Ground ground{model, sequences, *op, options, listener};
  Evaluation result;
  result.resume = open_resume(ground, variants, fed.sha256);
  Swept swept = sweep(ground, variants, result.resume.get());
  result.memory = swept.memory;
  const auto first = std::make_move_iterator(swept.variants.begin());
  const auto n_compared = static_cast<std::ptrdiff_t>(set.compared.size()),
             n_layers = static_cast<std::ptrdiff_t>(set.layers.size());
  result.compared.assign(first, first + n_compared);
  result.layers.assign(first + n_compared, first + n_compared + n_layers);
  if (set.recipe)
    result.recipe = recipe_of(ground, *set.recipe, std::span(swept.variants).subspan(n_compared + n_layers));
  if (options.max_new_tokens > 0)
    result.answers =
        answer(model, *op, fed, sequences.prompts, set.compared, {options.max_new_tokens, options.keep_recent});

  result.n_tokens_twice = tokens_of(sequences.sanity);
  result.model = describe(model);
  result.prompts = sequences.prompts;
  result.prompts_sha256 = fed.sha256;
  result.isa = op->isa();
  model.report_tensors(true, listener);
  return result;
}

}  // namespace kvcal
