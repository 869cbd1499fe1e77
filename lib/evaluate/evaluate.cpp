#include "evaluate/evaluate.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include "base/input_files.h"
#include "base/number_text.h"
#include "calibrate/opened_model.h"
#include "calibrate/pictures.h"
#include "evaluate/conclusion.h"
#include "evaluate/looks.h"
#include "evaluate/make_variants.h"
#include "evaluate/variant_sweep.h"
#include "prefill/footprint.h"

namespace kvcal {
namespace {

FedPrompts feed(const OpenedModel& model, const EvaluationInputs& inputs, PromptOptions options,
                CalibrationListener& listener) {
  options.keep_within(model.spec().max_positions);
  return feed_prompts(model, options, inputs.prompts, listener);
}

void check_model(const OpenedModel& model, const std::filesystem::path& folder) {
  if (!model.has_head())
    fail(quoted(folder.string()) + ": has no output head, so it predicts nothing that could be compared");
}

/// Of --attention: devices compute it with kernels of their own.
void check_processor(const Ops& op, const EvaluationOptions& options) {
  if (!options.attention.empty() && op.device_memory().own)
    fail("--attention " + options.attention + " is computed on processors only: --device cpu");
}

/// Of --keep-recent: what reads rows of a block before it is complete.
void check_blocks(const ModelSpec& spec) {
  if (spec.images_seen_whole) fail("--keep-recent is not possible with this model: tokens of an image see later ones");
}

void check_expectations(const FedPrompts& fed) {
  const auto expects = [](const TokenizedPrompt& p) { return p.expect.has_value(); };
  if (std::ranges::none_of(fed.prompts, expects)) fail("none of the prompts has \"expect\", a right answer's mark");
}

/// Of --state-chunk: what is stored only after the last token of a prompt changes none of its predictions.
void check_states(const VariantSet& set, const std::vector<PromptTokens>& prompts, const EvaluationOptions& options) {
  if (options.max_new_tokens > 0 && !options.limits_predictions) return;
  size_t longest = 0;
  for (const PromptTokens& p : prompts) longest = std::max(longest, p.ids.size());
  for (const Variant& v : set.compared)
    if (v.state.rounds() && next_stored(v.state, 0) >= static_cast<int64_t>(longest))
      fail("--state-chunk " + std::to_string(v.state.chunk) +
           " stores no state before the last token of a prompt, so no prediction changes: only answers tell "
           "(--generate), and only --min-correct limits them");
}

/// Each prompt alone, and the beginnings of some, to compare the reference with itself.
SequencePlan sequences_of(std::vector<PromptTokens> prompts) {
  int64_t longest = 0;
  for (const PromptTokens& p : prompts) longest = std::max(longest, static_cast<int64_t>(p.ids.size()));
  return plan_sequences(std::move(prompts), {.passes = 1, .warmup_passes = 0, .max_length = longest, .sanity = true});
}

/// Answers take all weights at once.
void check_resident(const ModelSpec& spec, const MemoryPlan& plan, Precision precision) {
  int64_t parameters = spec.vocab * spec.hidden * (spec.tied_head ? 1 : 2) + spec.table_parameters;
  for (const LayerSpec& layer : spec.layers) parameters += layer.parameters + layer.copies;
  const uint64_t bytes = plan.program + static_cast<uint64_t>(parameters) * element_bytes(precision);
  if (bytes > plan.budget)
    fail("answers need all weights in memory, " + bytes_text(bytes) + "; the budget is " + bytes_text(plan.budget));
}

/// Each layer alone in each of the formats.
std::vector<Variant> layers_in(const std::vector<Variant>& formats, const ModelSpec& spec) {
  std::vector<Variant> alone;
  for (const Variant& format : formats)
    for (const KvLayout& layout : spec.caches) alone.push_back(one_cache(format, layout));
  return alone;
}

LayerFormat as_it_is(const KvLayout& layout) { return {"bf16", 0, bf16_bytes_per_token(layout)}; }

/// The first of the formats is the cache as it is.
LayerChoices choices_of(const ModelSpec& spec, std::span<const EvaluatedVariant> alone) {
  LayerChoices layers;
  const size_t n_caches = spec.caches.size();
  for (size_t c = 0; c < n_caches; ++c) {
    const KvLayout& layout = spec.caches[c];
    std::vector<LayerFormat>& formats = layers.emplace_back();
    formats.push_back(as_it_is(layout));
    for (size_t i = c; i < alone.size(); i += n_caches) {
      const Variant& variant = alone[i].variant;
      formats.push_back(variant.first_cache() < 0
                            ? as_it_is(layout)
                            : LayerFormat{variant.format, mean_kl(alone[i].tokens),
                                          bytes_per_token(layout, stored_format(variant.format))});
    }
  }
  return layers;
}

Variant combined(const RecipeRequest& request, const Choice& choice) {
  Variant variant{"recipe", "mixed", {}};
  for (size_t c = 0; c < choice.size(); ++c)
    variant.caches.push_back(choice[c] == 0 ? CacheSites{} : request.formats[choice[c] - 1].caches[c]);
  return variant;
}

/// Every n-th of the prompts, so many of them.
std::vector<PromptTokens> sample_of(const std::vector<PromptTokens>& prompts, int64_t n) {
  std::vector<PromptTokens> sample;
  for (int64_t i = 0; i < n; ++i)
    sample.push_back(prompts[static_cast<size_t>(i * static_cast<int64_t>(prompts.size()) / n)]);
  return sample;
}

/// `whole`, then single layers, in a sweep of their own.
Swept sweep_sample(const Ground& on, const Variant& whole, std::vector<Variant> single) {
  single.insert(single.begin(), whole);
  const SequencePlan sequences = sequences_of(sample_of(on.sequences.prompts, on.options.sample));
  return sweep({on.model, sequences, on.op, on.options, on.listener, on.resume}, single, "sample");
}

EvaluatedRecipe recipe_of(const Ground& on, const RecipeRequest& request, std::span<const EvaluatedVariant> alone) {
  const ModelSpec& spec = on.model.spec();
  const LayerChoices choices = choices_of(spec, alone);
  EvaluatedRecipe recipe{request.limits, {}, {}};
  int n_measured = 0;
  recipe.found = find_recipe(choices, request.limits, [&](const Choice& choice) {
    const std::string part = "recipe_" + std::to_string(++n_measured);
    const std::vector<ComparedToken> tokens = sweep(on, {combined(request, choice)}, part).variants[0].tokens;
    return MeasuredChoice{mean_kl(tokens), figures_of(tokens).top1};
  });
  for (size_t c = 0; c < spec.caches.size(); ++c)
    recipe.layers.emplace_back(spec.caches[c].layer, choices[c][recipe.found.choice[c]].name);
  return recipe;
}

/// Layers alone: those that were asked for, then those that a recipe is found among.
std::vector<Variant> single_layers(const VariantSet& set, const ModelSpec& spec) {
  std::vector<Variant> single = set.layers;
  if (set.recipe) std::ranges::move(layers_in(set.recipe->formats, spec), std::back_inserter(single));
  return single;
}

/// Whether layers alone run on some of the prompts only.
bool are_sampled(const std::vector<Variant>& single, const Ground& on) {
  const auto n_prompts = static_cast<int64_t>(on.sequences.prompts.size());
  return on.options.sample > 0 && on.options.sample < n_prompts && !single.empty();
}

/// What all prompts are run with.
std::vector<Variant> on_all_prompts(const VariantSet& set, const std::vector<Variant>& single, const Ground& on) {
  std::vector<Variant> variants = set.compared;
  if (!are_sampled(single, on)) variants.insert(variants.end(), single.begin(), single.end());
  return variants;
}

/// Sweeps of everything: `result` gets what is compared, layers alone, a recipe of them.
void measure_predictions(const Ground& on, const VariantSet& set, const std::vector<Variant>& single,
                         Evaluation& result) {
  Swept swept = sweep(on, on_all_prompts(set, single, on));
  result.memory = swept.memory;
  result.prompts = on.sequences.prompts;
  result.n_tokens_twice = tokens_of(on.sequences.sanity);
  result.whole = set.whole;
  const auto n_compared = static_cast<std::ptrdiff_t>(set.compared.size());
  std::vector<EvaluatedVariant> alone(std::make_move_iterator(swept.variants.begin() + n_compared),
                                      std::make_move_iterator(swept.variants.end()));
  swept.variants.resize(set.compared.size());
  result.compared = std::move(swept.variants);
  if (are_sampled(single, on)) {
    alone = sweep_sample(on, set.compared[set.whole], single).variants;
    result.sample = {on.options.sample, std::move(alone.front())};
    alone.erase(alone.begin());
  }
  if (set.recipe) result.recipe = recipe_of(on, *set.recipe, std::span(alone).subspan(set.layers.size()));
  alone.resize(set.layers.size());
  result.layers = std::move(alone);
}

/// Prompts of a plan that were run so far, and what was found there. Prompts are indexes into the plan's.
struct PromptsRun {
  std::vector<size_t> prompts;
  std::vector<std::vector<ComparedToken>> tokens;  // by variant
  std::vector<RowErrors> errors;                   // likewise
};

/// Prompts of each look beyond those of the one before, by index, sorted as a plan sorts them.
std::vector<std::vector<size_t>> parts_of(const std::vector<int64_t>& looks) {
  const std::vector<size_t> order = drawn_order(static_cast<size_t>(looks.back()));
  std::vector<std::vector<size_t>> parts;
  int64_t done = 0;
  for (const int64_t n : looks) {
    parts.emplace_back(order.begin() + done, order.begin() + n);
    std::ranges::sort(parts.back());
    done = n;
  }
  return parts;
}

SequencePlan sequences_of(const Ground& on, const std::vector<size_t>& part) {
  std::vector<PromptTokens> prompts;
  for (const size_t i : part) prompts.push_back(on.sequences.prompts[i]);
  return sequences_of(std::move(prompts));
}

/// None of the parts may turn out too large after others have run. The largest is checked first, and named.
void check_memory(const Ground& on, const VariantSet& set, const std::vector<std::vector<size_t>>& parts) {
  std::vector<SequencePlan> plans;
  for (const std::vector<size_t>& part : parts) plans.push_back(sequences_of(on, part));
  std::ranges::sort(plans, std::greater(), [](const SequencePlan& plan) { return tokens_of(plan.measured); });
  for (const SequencePlan& plan : plans) memory_of({on.model, plan, on.op, on.options, on.listener}, set.compared);
}

void run_part(const Ground& on, const VariantSet& set, const std::vector<size_t>& part, PromptsRun& so_far,
              Evaluation& result) {
  const SequencePlan sequences = sequences_of(on, part);
  Swept swept = sweep({on.model, sequences, on.op, on.options, on.listener}, set.compared);
  result.memory = swept.memory;
  result.n_tokens_twice += tokens_of(sequences.sanity);
  so_far.tokens.resize(set.compared.size());
  so_far.errors.resize(set.compared.size());
  for (size_t v = 0; v < swept.variants.size(); ++v) {
    so_far.errors[v].add(swept.variants[v].errors);
    for (ComparedToken token : swept.variants[v].tokens) {
      token.prompt = static_cast<int64_t>(part[static_cast<size_t>(token.prompt)]);
      so_far.tokens[v].push_back(token);
    }
  }
  so_far.prompts.insert(so_far.prompts.end(), part.begin(), part.end());
}

/// As if these prompts had been the only ones.
void show(const Ground& on, const VariantSet& set, const PromptsRun& so_far, Evaluation& result) {
  std::vector<size_t> prompts = so_far.prompts;
  std::ranges::sort(prompts);
  result.prompts.clear();
  for (const size_t i : prompts) result.prompts.push_back(on.sequences.prompts[i]);
  result.compared.clear();
  for (size_t v = 0; v < set.compared.size(); ++v) {
    std::vector<ComparedToken> tokens = so_far.tokens[v];
    for (ComparedToken& t : tokens)
      t.prompt = std::ranges::lower_bound(prompts, static_cast<size_t>(t.prompt)) - prompts.begin();
    std::ranges::sort(tokens, {}, [](const ComparedToken& t) { return std::pair(t.prompt, t.position); });
    result.compared.push_back({set.compared[v], std::move(tokens), so_far.errors[v]});
  }
}

/// Whether all of the interval lies on one side of the limit; logits that are not finite are beyond any.
bool is_decided(const VariantEvidence& v, double max_kl) {
  return v.n_not_finite > 0 || (v.kl.interval && (v.kl.interval->low > max_kl || v.kl.interval->high <= max_kl));
}

void measure_until_decided(const Ground& on, const VariantSet& set, Evaluation& result) {
  const auto n_prompts = static_cast<int64_t>(on.sequences.prompts.size());
  const std::vector<std::vector<size_t>> parts = parts_of(looks_at(n_prompts));
  check_memory(on, set, parts);
  result.whole = set.whole;
  result.looks = {*on.options.decide_kl, 0, static_cast<int64_t>(parts.size()), n_prompts};
  PromptsRun so_far;
  for (const std::vector<size_t>& part : parts) {
    run_part(on, set, part, so_far, result);
    show(on, set, so_far, result);
    ++result.looks->n_made;
    if (is_decided(conclude(result).variants[set.whole], result.looks->max_kl)) return;
  }
}

std::vector<Answers> answers_of(const Ground& on, const FedPrompts& fed, const VariantSet& set) {
  const int64_t n_tokens = on.options.max_new_tokens;
  AllAnswers all =
      answer({on.model, on.op, fed, on.sequences.prompts, on.listener}, set.compared,
             {n_tokens, on.options.keep_recent}, on.resume ? &on.resume->answers(set.compared, n_tokens) : nullptr);
  if (all.n_decoded > 0)
    on.listener.hear(Notice::Note,
                     "answers: " + std::to_string(all.n_decoded) + " tokens after the first of each, one at a time, " +
                         formatted("%.3g a second", static_cast<double>(all.n_decoded) / all.decode_seconds));
  return std::move(all.answers);
}

/// What was run, on what.
void name_inputs(const Ground& on, const FedPrompts& fed, Evaluation& result) {
  result.model = describe(on.model);
  for (const KvLayout& layout : on.model.spec().caches) result.cache_layers.push_back(layout.layer);
  result.prompts_sha256 = fed.sha256;
  result.isa = on.op.isa();
  result.precision = on.options.precision;
}

}  // namespace

Evaluation evaluate(const EvaluationInputs& inputs, const EvaluationOptions& options, const MakeVariants& make_variants,
                    CalibrationListener& listener) {
  // The checkpoint, with the head that predicts.
  OpenedModel model(inputs.model, options.max_model_len);
  check_model(model, inputs.model);
  const ModelSpec& spec = model.spec();

  // Prompts become token ids.
  const FedPrompts fed = feed(model, inputs, options.prompts, listener);
  if (options.expects) check_expectations(fed);
  if (options.keep_recent > 0) check_blocks(spec);

  // What is compared, the device, and what both take, before anything runs.
  const VariantSet set = make_variants(spec);
  const std::vector<Variant> single = single_layers(set, spec);
  check_weights(*model.model, model.weights, static_cast<int>(spec.layers.size()), true);
  const std::unique_ptr<Ops> op = inputs.open_device();
  check_processor(*op, options);
  const SequencePlan sequences = sequences_of(tokens_of(fed, model));
  check_states(set, sequences.prompts, options);
  see_pictures(model, *op, sequences.prompts, options.memory);
  Ground ground{model, sequences, *op, options, listener};
  if (options.max_new_tokens > 0)
    check_resident(spec, memory_of(ground, on_all_prompts(set, single, ground)), options.precision);

  // Predictions, then answers; what an earlier run kept is not run again.
  Evaluation result;
  result.resume = open_resume(ground, fed.sha256);
  ground.resume = result.resume.get();
  if (options.decide_kl)
    measure_until_decided(ground, set, result);
  else
    measure_predictions(ground, set, single, result);
  if (options.max_new_tokens > 0) result.answers = answers_of(ground, fed, set);

  name_inputs(ground, fed, result);
  model.report_tensors(true, listener);
  check_inputs_unchanged();
  return result;
}

}  // namespace kvcal
