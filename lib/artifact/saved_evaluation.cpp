// The schema has been satisfied before a member is looked up, so what is read here is there and of its type; lookups
// check again all the same, since a later schema may say less.
#include "artifact/saved_evaluation.h"

#include <algorithm>
#include <limits>

#include "artifact/evaluation_schema.h"
#include "artifact/json_object.h"
#include "artifact/schema_check.h"
#include "base/file_kind.h"
#include "base/read_file.h"

namespace kvcal {
namespace {

constexpr size_t kMostEvaluationBytes = size_t{64} << 20;

/// Of each element of an array what `read` makes of it; of an array that is not there nothing.
template <class F>
auto all_of(const Object& block, const char* key, const F& read) {
  std::vector<decltype(read(block))> out;
  if (!block.has(key)) return out;
  for (const Json& element : block.array(key))
    out.push_back(read(Object{element, block.where + key + "[" + std::to_string(out.size()) + "]."}));
  return out;
}

/// Of each member of an object, with its name.
template <class F>
auto members_of(const Object& block, const char* key, const F& read) {
  std::vector<std::pair<std::string, decltype(read(block))>> out;
  const Object object = block.object(key);
  for (const auto& [name, member] : object.json.items())
    out.emplace_back(name, read(Object{member, object.where + name + "."}));
  return out;
}

SavedKl kl_from(const Object& block) {
  const Object worst = block.object("worst");
  return {block.number("mean"),
          block.number("median"),
          block.number("p99"),
          worst.number("kl"),
          {worst.string("prompt"), worst.count("position")}};
}

SavedFigures figures_from(const Object& block) {
  SavedFigures f;
  f.n_tokens = block.count("n_tokens");
  if (block.has("n_not_finite")) f.n_not_finite = block.count("n_not_finite");
  if (block.has("kl")) f.kl = kl_from(block.object("kl"));
  f.top1 = block.optional_number("top1");
  f.nll = block.optional_number("nll");
  f.nll_reference = block.optional_number("nll_reference");
  return f;
}

SavedAnswerCounts answer_counts_from(const Object& variant) {
  const Object block = variant.object("answers");
  SavedAnswerCounts c;
  c.n = block.count("n");
  c.n_equal = block.count("n_equal");
  c.n_empty = block.count("n_empty");
  c.n_endless = block.count("n_endless");
  c.n_expected = block.count("n_expected");
  c.n_correct = block.count("n_correct");
  c.agreement = block.number("agreement");
  if (variant.has("loops")) c.n_loops = variant.count("loops");
  return c;
}

SavedRowErrors row_errors_from(const Object& block) {
  const auto error = [&](const char* site) -> std::optional<double> {
    if (!block.json.contains(site)) return std::nullopt;
    return block.optional_number(site).value_or(std::numeric_limits<double>::infinity());
  };
  return {block.count("index"), error("key"), error("value"), error("latent")};
}

SavedVariant variant_from(const Object& block) {
  SavedVariant v;
  v.name = block.string("name");
  v.format = block.string("format");
  v.all = figures_from(block);
  for (auto& [tag, figures] : members_of(block, "by_tag", figures_from)) v.by_tag.emplace(tag, std::move(figures));
  v.by_position = all_of(block, "by_position",
                         [](const Object& part) { return std::pair(part.count("from"), figures_from(part)); });
  if (block.has("answers")) v.answers = answer_counts_from(block);
  v.errors = all_of(block, "errors", row_errors_from);
  return v;
}

SavedPrompt prompt_from(const Object& block) {
  return {block.string("prompt"), block.count("n_tokens"), members_of(block, "variants", [](const Object& figures) {
            return SavedPrompt::Figures{figures.optional_number("kl"), figures.number("top1"),
                                        figures.has("n_not_finite") ? figures.count("n_not_finite") : 0};
          })};
}

SavedEstimate estimate_from(const Object& block) {
  SavedEstimate estimate{block.number("value"), {}};
  if (!block.has("interval")) return estimate;
  const Json& interval = block.array("interval");
  estimate.interval = std::pair(interval.at(0).get<double>(), interval.at(1).get<double>());
  return estimate;
}

std::optional<SavedEstimate> optional_estimate(const Object& block, const char* key) {
  return block.has(key) ? std::optional(estimate_from(block.object(key))) : std::nullopt;
}

SavedConclusion conclusion_from(const Object& block) {
  SavedConclusion c;
  c.n_groups = block.count("n_groups");
  c.n_tokens = block.count("n_tokens");
  c.variants = members_of(block, "variants", [](const Object& variant) {
    return SavedConclusion::Variant{optional_estimate(variant, "kl"), estimate_from(variant.object("top1")),
                                    optional_estimate(variant, "correct"), optional_estimate(variant, "kl_slope")};
  });
  if (block.has("times_floor")) c.times_floor = members_of(block, "times_floor", estimate_from);
  c.pairs = all_of(block, "pairs", [](const Object& pair) {
    return SavedConclusion::Pair{pair.string("variant"), pair.string("against"), estimate_from(pair.object("kl"))};
  });
  return c;
}

SavedAnswer answer_from(const Object& block) {
  SavedAnswer a;
  a.text = block.string("text");
  a.n_tokens = block.count("n_tokens");
  a.ended = block.boolean("ended");
  if (block.has("loop")) a.loop_period = block.object("loop").count("period");
  if (block.has("correct")) a.correct = block.boolean("correct");
  if (block.has("first_divergence")) a.first_divergence = block.count("first_divergence");
  return a;
}

SavedRecipe recipe_from(const Object& block) {
  SavedRecipe r;
  r.max_kl = block.number("max_kl");
  r.kl = block.number("kl");
  r.sum_kl = block.number("sum_kl");
  r.bytes_per_token = block.count("bytes_per_token");
  r.n_measured = block.count("n_measured");
  r.layers = all_of(block, "layers",
                    [](const Object& layer) { return std::pair(layer.count("index"), layer.string("format")); });
  r.min_agreement = block.optional_number("min_agreement");
  if (block.has("formats"))
    for (const Json& name : block.array("formats"))
      if (name.is_string()) r.formats.push_back(name.get<std::string>());
  return r;
}

void check_satisfies_schema(const Json& json) {
  const std::vector<SchemaError> errors = check_schema(json, evaluation_schema(), kEvaluationFreeTexts);
  if (errors.empty()) return;
  const SchemaError& first = errors.front();
  fail((first.path.empty() ? "" : "key " + quoted(first.path) + ": ") + printable(first.message, 300));
}

}  // namespace

const SavedConclusion::Variant* SavedConclusion::of(std::string_view variant) const {
  const auto found = std::ranges::find(variants, variant, [](const auto& v) { return std::string_view(v.first); });
  return found == variants.end() ? nullptr : &found->second;
}

const SavedEstimate* SavedConclusion::times_of(std::string_view variant) const {
  const auto found = std::ranges::find(times_floor, variant, [](const auto& v) { return std::string_view(v.first); });
  return found == times_floor.end() ? nullptr : &found->second;
}

std::string SavedEvaluation::variant_of(std::string_view sha256) const {
  const auto file = std::ranges::find(files, sha256, [](const auto& f) { return std::string_view(f.second); });
  return file == files.end() ? "" : file->first;
}

std::string SavedEvaluation::sha256_of(std::string_view name) const {
  const auto file = std::ranges::find(files, name, [](const auto& f) { return std::string_view(f.first); });
  return file == files.end() ? "" : file->second;
}

bool is_evaluation(const Json& json) {
  const Json* format = json.is_object() ? find_member(json, "format") : nullptr;
  return format != nullptr && *format == "kv-cache-evaluation";
}

Json parse_evaluation(std::string_view text) {
  JsonLimits limits;
  limits.max_bytes = kMostEvaluationBytes;
  limits.max_depth = 32;
  return parse_json(text, limits);
}

SavedEvaluation evaluation_from_json(const Json& json) {
  if (!is_evaluation(json)) fail("is not an evaluation: its format is not 'kv-cache-evaluation'");
  check_satisfies_schema(json);
  const Object file = {json, ""};
  SavedEvaluation e;
  e.tool_version = file.string("tool_version");
  e.precision = file.string("precision");
  e.isa = file.string("isa");
  if (file.has("attention")) e.attention = file.string("attention");
  e.model = model_info_from(file.object("model").json);
  const Object prompts = file.object("prompts");
  e.prompts_sha256 = prompts.string("sha256");
  e.n_prompts = prompts.count("n_prompts");
  e.n_tokens = prompts.count("n_tokens");
  if (file.has("until_decided")) e.until_decided = file.object("until_decided").number("max_kl");
  e.query = file.has("query");
  if (file.has("max_new_tokens")) e.max_new_tokens = file.count("max_new_tokens");
  if (file.has("keep_recent")) e.keep_recent = file.count("keep_recent");
  if (file.has("state_chunk")) e.state_chunk = file.count("state_chunk");
  e.files = all_of(file, "files",
                   [](const Object& block) { return std::pair(block.string("name"), block.string("sha256")); });
  e.variants = all_of(file, "variants", variant_from);
  e.by_prompt = all_of(file, "by_prompt", prompt_from);
  if (file.has("conclusion")) e.conclusion = conclusion_from(file.object("conclusion"));
  e.layers = all_of(file, "layers", [](const Object& block) {
    return SavedLayer{block.count("index"), block.optional_number("kl"), block.number("top1")};
  });
  if (file.has("layers_sample")) e.n_sampled_prompts = file.object("layers_sample").count("n_prompts");
  if (file.has("recipe")) e.recipe = recipe_from(file.object("recipe"));
  e.answers = all_of(file, "answers", [](const Object& block) {
    return SavedAnswers{block.string("prompt"), answer_from(block.object("reference")),
                        members_of(block, "others", answer_from)};
  });
  return e;
}

SavedEvaluation parse_evaluation_file(std::string_view text, const std::filesystem::path& path) {
  return parsing(FileKind::Evaluation, kExpectedEvaluation, text, path.string(), [&] {
    return while_doing(quoted(path.string()), [&] {
      SavedEvaluation evaluation = evaluation_from_json(parse_evaluation(text));
      for (const EvaluationFault& f : faults_of(evaluation))
        fail(quoted(f.path) + ": " + f.what + ": " + f.actual + ", expected " + f.expected +
             "; was the file edited? 'kvcal validate' names all that contradicts itself");
      return evaluation;
    });
  });
}

std::string read_evaluation_text(const std::filesystem::path& path) {
  return reading(FileKind::Evaluation, kExpectedEvaluation, path,
                 [&] { return read_file(path, kMostEvaluationBytes); });
}

SavedEvaluation read_evaluation(const std::filesystem::path& path) {
  return parse_evaluation_file(read_evaluation_text(path), path);
}

}  // namespace kvcal
