// kvcal evaluate MODEL: what a rounded cache does to the model's predictions, measured.
#include "evaluate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/number_text.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "base/size_text.h"
#include "build_info.h"
#include "console.h"
#include "device.h"
#include "evaluate/attention_paths.h"
#include "evaluate/evaluation_file.h"
#include "evaluate/make_variants.h"
#include "evaluation_conclusion.h"
#include "evaluation_limits.h"
#include "evaluation_text.h"
#include "export/layer_scales.h"
#include "export/serve.h"
#include "hub_cache.h"
#include "idle_options.h"
#include "output_file.h"
#include "stats/statistics_file.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

constexpr size_t kMostStatistics = size_t{4} << 30;  // bytes

/// What variants are made of.
struct Sources {
  std::vector<Artifact> scales;
  std::optional<Statistics> statistics;
  std::vector<EvaluatedFile> files;
};

/// Ranges of other weights would give scales that mean nothing here.
void check_measured(const Statistics& statistics, const ModelIdentity& model) {
  const std::optional<ModelInfo>& measured = statistics.run.model;
  if (!measured) fail("the statistics were merged from different models; give those of this one");
  if (measured->weights_fingerprint == model.weights_fingerprint && measured->config_sha256 == model.config_sha256)
    return;
  fail("the statistics are from another model: " + quoted(measured->architecture) + ", weights " +
       measured->weights_fingerprint.substr(0, 12) + "; the checkpoint is " + quoted(model.spec.architecture) + ", " +
       model.weights_fingerprint.substr(0, 12));
}

Sources read_sources(const EvaluateFlags& flags) {
  Sources sources;
  const ModelIdentity model = identify_model(flags.model);
  for (size_t i = 0; i < flags.scales.size(); ++i) {
    const std::string text = read_artifact_text(flags.scales[i]);
    sources.scales.push_back(parse_artifact(text, flags.scales[i]));
    while_doing(quoted(flags.scales[i]), [&] { check_fits(sources.scales.back(), model); });
    sources.files.push_back({i == 0 ? "file" : "file_" + std::to_string(i + 1), sha256_hex(text)});
  }
  if (flags.stats.empty()) return sources;
  sources.statistics = read_statistics(flags.stats);
  while_doing(quoted(flags.stats), [&] { check_measured(*sources.statistics, model); });
  sources.files.push_back({"statistics", sha256_hex(read_file(flags.stats, kMostStatistics))});
  return sources;
}

/// What was measured of a site. For a recipe, which is exported with the first file, that file says what it can.
RangesOf ranges_for(const Sources& sources, bool file_is_one) {
  const Artifact* first = sources.scales.empty() ? nullptr : &sources.scales[0];
  if (!sources.statistics) return first ? ranges_of(*first) : nullptr;
  const RangesOf measured = ranges_of(*sources.statistics);
  if (!first || !file_is_one) return measured;
  return [measured, of_file = ranges_of(*first)](const KvLayout& layout, CacheSite site, const StoredSite& stored) {
    return (stored.needs_statistics() ? measured : of_file)(layout, site, stored);
  };
}

/// A format of --formats, or with `file_is_one` of --choose: there the first file's own, also of keys or values alone,
/// is at its scales. All others are at those that follow from ranges.
Variant variant_in(const std::string& name, const Sources& sources, const ModelSpec& spec, bool file_is_one) {
  if (name == kIndexKeys && !file_is_one) return stored_index_keys(spec);
  const StoredFormat format = stored_format(name);
  const Artifact* first = sources.scales.empty() ? nullptr : &sources.scales[0];
  if (file_is_one && first && first->quantization.dtype == name) return at_scales(spec, *first, name);
  if (!sources.statistics && format.needs_statistics())
    fail("it follows from what was measured of heads and channels; give --stats");
  if (!first && !sources.statistics && format.has_measured_scales())
    fail("its scales follow from what was measured; give --stats or --scales");
  Variant variant = in_format(spec, format, ranges_for(sources, file_is_one));
  check_rows(variant, spec);
  if (file_is_one && first) take_scales(variant, format, spec, *first);
  return variant;
}

RecipeRequest recipe_of(const EvaluateFlags& flags, const Sources& sources, const ModelSpec& spec) {
  RecipeRequest request{{*flags.max_kl, flags.min_agreement.value_or(0)}, {}};
  for (const std::string& name : flags.choose)
    if (name != "bf16")
      request.formats.push_back(while_doing("--choose " + name, [&] { return variant_in(name, sources, spec, true); }));
  return request;
}

/// Scale 1.0, the files, the first with keys' and values' scales exchanged or left out in writing, other formats,
/// recurrent states; before them all the floor. Then each layer alone, of the first file or at 1.0.
VariantSet make_variants(const EvaluateFlags& flags, const Sources& sources, const ModelSpec& spec) {
  const auto served = [&](Variant variant, const Artifact* artifact) {
    if (flags.query) round_queries(variant, spec, artifact);
    if (!flags.run.attention.empty()) attend_as(variant, spec, flags.run.attention, artifact);
    return variant;
  };
  const Artifact* first = sources.scales.empty() ? nullptr : &sources.scales[0];
  VariantSet set;
  set.compared.push_back(served(at_one(spec, stored_format(first ? first->quantization.dtype : "fp8_e4m3")), nullptr));
  for (size_t i = 0; i < sources.scales.size(); ++i)
    set.compared.push_back(served(at_scales(spec, sources.scales[i], sources.files[i].name), &sources.scales[i]));
  if (first) set.compared.push_back(swapped(set.compared[1]));
  if (flags.undivided) set.compared.push_back(undivided(set.compared[1]));
  for (const std::string& name : flags.formats)
    set.compared.push_back(while_doing("--formats " + name, [&] { return variant_in(name, sources, spec, false); }));
  for (const std::string& dtype : flags.state_dtypes)
    set.compared.push_back(
        while_doing("--state-dtype " + dtype, [&] { return stored_states(spec, dtype, flags.state_chunk); }));
  if (!flags.choose.empty()) set.recipe = recipe_of(flags, sources, spec);
  set.whole = first ? 1 : 0;
  if (flags.floor) {
    set.compared.insert(set.compared.begin(), while_doing("--floor", [&] { return floor_of(spec); }));
    ++set.whole;
  }
  if (flags.per_layer)
    for (const KvLayout& layout : spec.caches) set.layers.push_back(one_cache(set.compared[set.whole], layout));
  return set;
}

std::vector<LimitVerdict> judge_limits(const EvaluateFlags& flags, const Evaluation& evaluation,
                                       const VariantEvidence& judged, const PromptGroups& groups) {
  std::vector<LimitVerdict> verdicts;
  if (flags.max_kl && !evaluation.recipe) verdicts.push_back(judge_kl(*flags.max_kl, judged, groups));
  if (flags.min_agreement && !evaluation.recipe)
    verdicts.push_back(judge({"agreement", *flags.min_agreement, false}, judged.name, judged.top1, groups));
  if (flags.min_correct)
    verdicts.push_back(
        judge({"share of right answers", *flags.min_correct, false}, judged.name, *judged.correct, groups));
  return verdicts;
}

bool is_too_large(const EvaluatedRecipe& recipe, int64_t limit) {
  if (limit == 0 || recipe.found.bytes <= limit) return false;
  say("kvcal: no choice was found that keeps the mean KL within ", formatted("%.4g", recipe.limits.max_kl),
      " and takes at most ", grouped(limit), " bytes per token: the recipe takes ", grouped(recipe.found.bytes));
  return true;
}

/// Limits are about the first file, scale 1.0 without one, and about states.
std::vector<LimitVerdict> judge_limits(const EvaluateFlags& flags, const Evaluation& evaluation,
                                       const Conclusion& conclusion) {
  std::vector<std::string> names = {flags.scales.empty() ? "scale_1.0" : "file"};
  for (const std::string& dtype : flags.state_dtypes) names.push_back("state_" + dtype);
  std::vector<LimitVerdict> verdicts;
  for (const std::string& name : names)
    std::ranges::move(judge_limits(flags, evaluation, conclusion.of(name), conclusion.groups),
                      std::back_inserter(verdicts));
  return verdicts;
}

Exit exit_of(const std::vector<LimitVerdict>& verdicts, bool is_too_large) {
  const auto any = [&](Kept kept) { return std::ranges::find(verdicts, kept, &LimitVerdict::kept) != verdicts.end(); };
  return is_too_large || any(Kept::No) ? Exit::Findings : any(Kept::Unknown) ? Exit::Undecided : Exit::Done;
}

ConclusionContext context_of(const EvaluateFlags& flags, const Sources& sources) {
  ConclusionContext context;
  context.model = flags.named;
  context.folder = flags.model;
  context.out = flags.out.string();
  for (const std::string& word : words_of(flags.prompts)) context.prompts += " " + shell_word(word);
  context.max_kl = flags.max_kl.value_or(kSuggestedMaxKl);
  context.min_agreement = flags.min_agreement;
  context.min_correct = flags.min_correct;
  context.dtype = sources.scales.empty() ? "fp8_e4m3" : sources.scales[0].quantization.dtype;
  if (sources.scales.empty()) return context;
  context.scales = flags.scales[0];
  context.file = &sources.scales[0];
  for (const ArtifactLayer& layer : sources.scales[0].layers)
    for (const NamedSite& s : cached_sites(layer))
      if (s.site->verdict() >= Verdict::Needed || !s.site->departs.value_or(std::vector<Departure>()).empty())
        context.file_is_needed = true;
  return context;
}

/// Tables, what they show, limits that are kept, and what to do.
Lines printed_result(const EvaluateFlags& flags, const Sources& sources, const Evaluation& evaluation,
                     const EvaluationFigures& figures, const std::vector<LimitVerdict>& verdicts) {
  Lines text = result_text(evaluation, figures, flags.prompts.needles);
  if (const std::string& path = flags.run.attention; !path.empty())
    text.add("attention of " + path + ": " + attention_text(evaluation.compared[evaluation.whole].variant) +
             "; each sequence in one part");
  text += shown_text(figures.conclusion, evaluation.looks);
  for (const LimitVerdict& v : verdicts)
    if (v.kept == Kept::Yes) text.add(v.line + ", kept");
  return text + next_text(context_of(flags, sources), evaluation, figures.conclusion);
}

void check_share(const char* name, const std::optional<double>& share) {
  if (share && !(*share >= 0 && *share <= 1))
    fail(std::string(name) + " is " + formatted("%.4g", *share) + ", expected 0 to 1");
}

void check_kl(const char* name, const std::optional<double>& kl) {
  if (kl && !(*kl >= 0)) fail(std::string(name) + " is " + formatted("%.4g", *kl) + ", expected 0 or more");
}

/// Variants of one name could not be told apart.
void check_different(const char* flag, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::ranges::count(names, name) > 1) fail(std::string(flag) + ": " + name + " twice");
}

void check_flags(const EvaluateFlags& flags) {
  check_different("--formats", flags.formats);
  check_different("--state-dtype", flags.state_dtypes);
  check_different("--choose", flags.choose);
  if (!flags.run.attention.empty()) check_attention(flags.run.attention);
  check_share("--min-agreement", flags.min_agreement);
  check_share("--min-correct", flags.min_correct);
  check_kl("--until-decided", flags.until_decided);
  check_kl("--max-kl", flags.max_kl);
  if (flags.max_new_tokens < 1)
    fail("--max-new-tokens is " + std::to_string(flags.max_new_tokens) + ", expected 1 or more");
  if (flags.min_correct && !flags.generate) fail("--min-correct needs --generate");
  if (flags.run.keep_recent < 0)
    fail("--keep-recent is " + std::to_string(flags.run.keep_recent) + ", expected 0 or more");
  if (flags.state_chunk < 0) fail("--state-chunk is " + std::to_string(flags.state_chunk) + ", expected 0 or more");
  if (flags.run.sample < 0) fail("--sample is " + std::to_string(flags.run.sample) + ", expected 0 or more");
  if (flags.run.sample > 0 && !flags.per_layer && flags.choose.empty()) fail("--sample needs --per-layer or --choose");
  if (flags.undivided && flags.scales.empty()) fail("--undivided needs --scales");
  if (!flags.choose.empty() && !flags.max_kl) fail("--choose needs --max-kl");
  if (flags.until_decided &&
      (flags.per_layer || flags.generate || flags.resume || !flags.choose.empty() || !flags.state_dtypes.empty()))
    fail(
        "--until-decided measures one mean KL: not together with --per-layer, --choose, --generate, --state-dtype, "
        "--resume");
  if (flags.max_bytes_per_token < 0)
    fail("--max-bytes-per-token is " + std::to_string(flags.max_bytes_per_token) + ", expected 0 or more");
  if (flags.max_bytes_per_token > 0 && flags.choose.empty()) fail("--max-bytes-per-token needs --choose");
}

EvaluationOptions resolve(const EvaluateFlags& flags) {
  check_flags(flags);
  EvaluationOptions options = flags.run;
  options.precision = precision_named(flags.precision);
  if (!flags.memory.empty()) options.memory = parse_size("--memory", flags.memory);
  check_threads(options.threads);
  options.prompts = flags.prompts.resolve();
  if (options.prompts.needles && !flags.generate) fail("--needles needs --generate: needles are found by answers");
  options.max_new_tokens = flags.generate ? flags.max_new_tokens : 0;
  options.decide_kl = flags.until_decided;
  options.expects = flags.min_correct.has_value();
  options.limits_predictions = flags.choose.empty() && (flags.max_kl || flags.min_agreement);
  options.commit = build_info().commit;
  if (flags.resume && is_standard_output(flags.out)) fail("--resume needs a file as --out, which is -");
  if (flags.resume) options.resume = flags.out.string() + ".kvcal-resume";
  return options;
}

}  // namespace

Exit run_evaluation(const EvaluateFlags& flags) {
  const EvaluationOptions options = resolve(flags);
  const Existing existing = flags.force ? Existing::Replace : Existing::Refuse;
  check_output(flags.out, existing);
  const Sources sources = read_sources(flags);
  Console console(flags.quiet, progress_form(flags.progress));
  if (std::ranges::any_of(sources.scales, [](const Artifact& a) { return !a.mtp_layers.empty(); }))
    console.hear(Notice::Note,
                 "the MTP layer's cache is not rounded: it decides how many drafts the model accepts, not what it "
                 "predicts");
  const EvaluationInputs inputs = {
      .model = flags.model,
      .prompts = [&](bool chat) { return read_prompt_files(flags.prompts, chat); },
      .open_device = [&] { return open_device(flags.device, options.precision, options.threads); }};
  const Evaluation evaluation = evaluate(
      inputs, options,
      [&](const ModelSpec& spec) {
        check_output(flags.out, existing);  // once more: now it is known what the command reads
        return make_variants(flags, sources, spec);
      },
      console);
  const EvaluationFigures figures = figures_of(evaluation);
  const std::string text =
      evaluation_text({std::string("kvcal ") + build_info().version, flags.precision, sources.files,
                       options.keep_recent, flags.state_dtypes.empty() ? 1 : flags.state_chunk, options.attention,
                       flags.query, options.max_new_tokens, flags.choose},
                      evaluation, figures);
  const std::vector<LimitVerdict> verdicts = judge_limits(flags, evaluation, figures.conclusion);
  write_output(flags.out, text, existing);
  if (evaluation.resume) evaluation.resume->remove();
  if (flags.json && !is_standard_output(flags.out))
    write_json_text(text);
  else if (!flags.json && !flags.quiet)
    write_beside_output(flags.out, printed_result(flags, sources, evaluation, figures, verdicts));
  for (const LimitVerdict& v : verdicts)
    if (v.kept != Kept::Yes) say("kvcal: ", v.line);
  return exit_of(verdicts, evaluation.recipe && is_too_large(*evaluation.recipe, flags.max_bytes_per_token));
}

void add_evaluate(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* verb = app.add_subcommand("evaluate", "Measure what an FP8 cache does to the model's predictions");
  verb->add_option("MODEL", flags->model, "Checkpoint folder")->required();
  verb->add_option("--scales", flags->scales, "Scale files to compare; limits are about the first")->type_name("FILE");
  verb->add_option("--formats", flags->formats,
                   "Other formats to compare, at scales that follow from --stats or --scales")
      ->delimiter(',')
      ->type_name("NAME");
  verb->add_option("--stats", flags->stats, "Statistics, for formats with scales or means of heads or channels")
      ->type_name("FILE");
  verb->add_flag("--per-layer", flags->per_layer, "Also round each layer alone, of the first file or at scale 1.0");
  verb->add_option(
          "--choose", flags->choose,
          "Find the cheapest of these formats for each layer, bf16 among them, that keeps the mean KL within --max-kl")
      ->delimiter(',')
      ->type_name("NAME");
  verb->add_option("--sample", flags->run.sample,
                   "With --per-layer or --choose: measure single layers on N prompts (default: all)")
      ->type_name("N");
  verb->add_option("--max-bytes-per-token", flags->max_bytes_per_token,
                   "With --choose: exit with 1 when the cache takes more than this");
  verb->add_flag("--generate", flags->generate, "Also answer every prompt greedily with each variant's cache");
  verb->add_option("--max-new-tokens", flags->max_new_tokens, "With --generate: most tokens of an answer")
      ->capture_default_str();
  verb->add_flag(
      "--undivided", flags->undivided,
      "Also evaluate the first file as on servers that multiply by the scale on read but do not divide on write");
  verb->add_flag("--floor", flags->floor,
                 "Also compute the unrounded cache in another order, and say how far above that floor variants are");
  verb->add_option("--state-dtype", flags->state_dtypes,
                   "Also the caches as they are with recurrent states in these formats; limits are about these, too")
      ->delimiter(',')
      ->type_name("NAME");
  verb->add_option("--state-chunk", flags->state_chunk,
                   "Store the state of a prompt after every N tokens; 1: as in decoding, 0: after the last")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--keep-recent", flags->run.keep_recent,
                   "Quantize cache rows only after their block of N tokens is full (default: before they are read)");
  verb->add_flag("--query", flags->query,
                 "Round queries too, at 1.0 and at scales of files, as servers that compute attention in FP8 do");
  CLI::Option* attention =
      verb->add_option("--attention", flags->run.attention,
                       "Compute attention as a server's backend does: vllm@0.33.0:TRITON_ATTN, sglang@0.5.23:triton")
          ->type_name("PATH");
  for (const char* other : {"--query", "--keep-recent", "--formats", "--choose", "--state-dtype"})
    attention->excludes(other);
  attention->check([](const std::string& name) { return std::string(name.empty() ? "names no backend" : ""); });
  verb->add_option(
      "--max-kl", flags->max_kl,
      "Exit with 1 when the mean KL of the file's variant is above this; with --choose, the recipe's limit");
  verb->add_option("--until-decided", flags->until_decided,
                   "Limit as --max-kl, and run only as many of the prompts as it takes to decide it")
      ->type_name("KL")
      ->excludes("--max-kl");
  verb->add_option(
          "--min-agreement", flags->min_agreement,
          "Exit with 1 when top-1 agreement with the reference is below this, 0 to 1; with --choose, the recipe's")
      ->excludes("--until-decided");  // which stops before this is decided
  verb->add_option("--min-correct", flags->min_correct,
                   "Exit with 1 when the share of answers containing what their prompt expects is below this, 0 to 1");
  verb->add_option("-o,--out", flags->out, "File to write; - prints it")->type_name("FILE")->capture_default_str();
  verb->add_flag("--resume", flags->resume,
                 "Save the state of the run in OUT.kvcal-resume, and continue from there if it exists");
  verb->add_flag("--force", flags->force, "Overwrite an existing file");
  verb->add_flag("--json", flags->json, "Print the file instead of the table");
  verb->add_flag("-q,--quiet", flags->quiet, "Print no table and no progress");
  verb->add_option("--progress", flags->progress, kProgressHelp)->type_name("FORM")->capture_default_str();
  verb->add_option("--device", flags->device, "auto, cpu, cuda or cuda:N")->type_name("DEVICE")->capture_default_str();
  verb->add_option("--threads", flags->run.threads, "Number of threads (default: all processors)");
  verb->add_option("--memory", flags->memory, "Memory limit with unit: 16GiB or 16GB (default: what is available)")
      ->type_name("SIZE");
  verb->add_option("--precision", flags->precision, "bf16: like servers; f32: reference")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--chunk-tokens", flags->run.chunk_tokens, "Tokens per batch (default: as memory allows)");
  verb->add_option("--max-model-len", flags->run.max_model_len, "Context length of the server (default: the model's)");
  flags->prompts.add_to(*verb);
  flags->prompts.add_needles_to(*verb);
  verb->footer(
      "Compared with the cache in 16 bits: scale 1.0, each file, and as a control the first with the scales of keys\n"
      "and values exchanged. KL is that of the next token's distribution, in nats. Exit code 1: a limit is broken;\n"
      "3: the prompts cannot decide, because the limit lies within the interval of 95 % or they are too few.\n\n"
      "Formats: fp8_e4m3, fp8_e4m3_per_head, fp8_e4m3fnuz, fp8_e5m2, int8, int8_per_head, int8_per_channel, nvfp4,\n"
      "fp8_per_token_head, int8_per_token_head, int4_per_token_head, turboquant_k8v4; one for keys and one for "
      "values:\n"
      "fp8_e4m3:nvfp4, bf16:int4_per_token_head\n\n"
      "To see what they would buy, for no released server reads them: fp8_e4m3_affine, nvfp4_affine, nvfp4_rotated\n\n"
      "Of states: bf16, f16, f16_stochastic; fp8_e4m3, fp8_e5m2, int8, int16, with _per_head, _per_tile or _per_row\n\n"
      "Examples:\n"
      "  kvcal evaluate ./model --prompts chats.jsonl --scales kv-cache-scales.json\n"
      "  kvcal evaluate ./model --scales s.json --formats int8,nvfp4 --max-kl 0.02\n"
      "  kvcal evaluate ./model --scales s.json --generate --needles 1024,4096");
  verb->callback([flags, verb, &chosen] {
    if (!flags->generate) refuse_idle(*verb, "without --generate", {"--max-new-tokens"});
    if (flags->formats.empty() && flags->choose.empty())
      refuse_idle(*verb, "without --formats or --choose", {"--stats"});
    if (flags->state_dtypes.empty()) refuse_idle(*verb, "without --state-dtype", {"--state-chunk"});
    refuse_idle_force(*verb, flags->out);
    if (flags->until_decided) flags->max_kl = flags->until_decided;
    chosen = [flags] {
      flags->named = std::exchange(flags->model, model_folder(flags->model));
      return run_evaluation(*flags);
    };
  });
}

}  // namespace kvcal
