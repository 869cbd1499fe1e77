// kvcal plan MODEL --gpu NAME: what fits, and whether an FP8 cache buys anything. Works from config.json alone.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <optional>

#include "artifact/artifact.h"
#include "artifact/delivery.h"
#include "artifact/saved_evaluation.h"
#include "base/number_text.h"
#include "base/size_text.h"
#include "capacity/advice.h"
#include "capacity/assumptions.h"
#include "export/layer_scales.h"
#include "hub_cache.h"
#include "planned_formats.h"
#include "planned_model.h"
#include "planned_state.h"
#include "progress.h"
#include "servers/gpu.h"
#include "servers/kv_declaration.h"
#include "table.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct PlanFlags {
  std::string model, scales, recipe, gpu, gpu_memory, server, weights, allowance = "3GiB";
  std::optional<int64_t> gpus, tp;
  std::optional<double> utilization;
  Load load;
  StateFlags state;
  bool mtp = false, json = false;
};

struct Planned {
  PlannedModel model;
  PlannedState state;
  Capacity capacity;
  Load load;
  Recommendation recommendation;
  const ModelSpec& spec() const { return model.spec; }
};

Gpu named_gpu(const std::string& name) {
  const std::optional<Gpu> gpu = parse_gpu(name);
  if (!gpu) {
    const std::string near = nearest_gpu(name);
    fail("--gpu " + quoted(name) + ": unknown GPU; " + (near.empty() ? "" : "did you mean '" + near + "'? ") +
         "for another one give its memory with --gpu-memory SIZE");
  }
  return *gpu;
}

void take_gpu(const PlanFlags& flags, Deployment& d) {
  const bool sized = !flags.gpu_memory.empty();
  if (flags.gpu.empty() && !sized)
    fail("the GPU is missing; name it with --gpu H100, or give its memory with --gpu-memory SIZE");
  if (!flags.gpu.empty()) {
    const Gpu gpu = named_gpu(flags.gpu);
    if (gpu.memory != 0 && sized) fail("--gpu and --gpu-memory both say how much memory there is: give one of them");
    if (gpu.memory == 0 && !sized)
      fail("--gpu " + quoted(flags.gpu) + ": its memory is not known; give it with --gpu-memory SIZE");
    d.gpu_memory = gpu.memory;
    d.gpu = gpu;
  }
  if (sized) d.gpu_memory = parse_size("--gpu-memory", flags.gpu_memory);
  d.utilization = flags.utilization.value_or(d.gpu.unified ? kUtilizationOfUnified : kUtilization);
}

// One of the two alone means one tensor-parallel group.
Deployment deployment_of(const PlanFlags& flags) {
  Deployment d;
  take_gpu(flags, d);
  d.server = planned_server(flags.server);
  d.allowance = parse_size("--allowance", flags.allowance);
  d.gpus = flags.gpus.value_or(flags.tp.value_or(1));
  d.tp = flags.tp.value_or(d.gpus);
  return d;
}

/// Layers of the scale file that are keep16. Throws Error for a file of a model with other caches.
std::vector<int> kept_layers_of(const std::string& path, const ModelSpec& spec) {
  const Artifact artifact = read_artifact(path);
  for (const ArtifactLayer& layer : artifact.layers) {
    const auto fits = [&](const KvLayout& c) {
      return c.layer == layer.index && c.n_kv_heads == layer.n_kv_heads && c.head_dim_k == layer.head_dim_k;
    };
    if (std::ranges::none_of(spec.caches, fits))
      fail(quoted(path) + " has a cache in layer " + std::to_string(layer.index) + " with " +
           std::to_string(layer.n_kv_heads) + " key-value heads of " + std::to_string(layer.head_dim_k) +
           ", the model has none like it; is the file of another model?");
  }
  return keep16_layers(artifact);
}

/// What the recipe of an evaluation stores each layer in. Throws Error for a file without one, or of another model.
std::vector<StoredLayer> recipe_layers_of(const std::string& path, const ModelSpec& spec) {
  const SavedEvaluation evaluation = read_evaluation(path);
  return while_doing(quoted(path), [&] {
    if (!evaluation.recipe) fail("has no recipe; 'kvcal evaluate MODEL --choose fp8_e4m3,nvfp4 --max-kl KL' finds one");
    const SavedRecipe& recipe = *evaluation.recipe;
    std::vector<StoredLayer> layers;
    std::vector<int> chosen, owners;
    for (const auto& [layer, format] : recipe.layers) {
      layers.push_back(stored_layer(static_cast<int>(layer), format));
      chosen.push_back(static_cast<int>(layer));
    }
    for (const KvLayout& c : spec.caches) owners.push_back(c.layer);
    std::ranges::sort(owners);
    const bool same = evaluation.model.architecture == spec.architecture && chosen == owners;
    const int64_t bytes = same ? cost_of_sequence(spec, layers, 1).bytes_per_token() : 0;
    if (!same || bytes != recipe.bytes_per_token)
      fail("its recipe is for " + quoted(evaluation.model.architecture) + " with caches in layer(s) " +
           layer_list(chosen) + ", " + grouped(recipe.bytes_per_token) + " bytes per token; the model is " +
           quoted(spec.architecture) + " with caches in layer(s) " + layer_list(owners) +
           (same ? ", which take " + grouped(bytes) + " so" : ""));
    return layers;
  });
}

WeightBytes weights_of(const PlanFlags& flags, const ConfigFile& file, const ModelSpec& spec) {
  if (!flags.weights.empty())
    return {.bytes = parse_size("--weights", flags.weights),
            .source = WeightSource::Given,
            .format = "as given",
            .parameters = static_cast<uint64_t>(parameters_of(spec)),
            .in_eight_bits = true};
  try {
    return measure_weights(file, spec);
  } catch (const Error& e) {
    fail(std::string(e.what()) + "; give their size with --weights SIZE");
  }
}

Planned resolve(const PlanFlags& flags) {
  if (!flags.recipe.empty() && !flags.scales.empty())
    fail("--recipe and --scales both say which caches stay in BF16: give one of them");
  if (!flags.recipe.empty() && flags.mtp)
    fail("--recipe does not cover the MTP layer, which --mtp counts: give one of them");
  Deployment deployment = deployment_of(flags);
  const ConfigFile file = read_config(flags.model);
  PlannedModel model = planned_model(file.config, flags.mtp);
  if (!flags.scales.empty()) deployment.kept_layers = kept_layers_of(flags.scales, model.spec);
  if (!flags.recipe.empty()) deployment.recipe = recipe_layers_of(flags.recipe, model.spec);
  const PlannedState state = planned_state(flags.state, file.config, model.spec, deployment);
  deployment.state = state.storage;
  Capacity capacity = capacity_of(model.spec, deployment, weights_of(flags, file, model.spec));
  Recommendation recommendation = recommend(model.spec, capacity, flags.load);
  const KvDeclaration declared = read_kv_declaration(file.config, file.folder);
  for (std::string odd : {passed_over_cache(declared), unserved_cache(declared)})
    if (!odd.empty()) recommendation.remarks.push_back(std::move(odd));
  return {std::move(model), state, std::move(capacity), flags.load, std::move(recommendation)};
}

std::vector<int64_t> contexts_of(const Planned& p) {
  return p.load.context ? std::vector<int64_t>{*p.load.context} : usual_contexts(p.spec());
}

/// With what the model itself is, where it is a guess.
std::vector<Assumption> all_assumptions(const Planned& p) {
  std::vector<Assumption> all = assumptions_of(p.spec(), p.capacity);
  if (!p.model.guess.empty()) all.insert(all.begin(), {"guess", p.model.guess, ""});
  return all;
}

void print_memory(const Planned& p) {
  const Deployment& d = p.capacity.deployment;
  const Budget& b = p.capacity.budget;
  const WeightBytes& w = p.capacity.weights;
  const bool mtp = p.spec().n_mtp_layers > 0;
  if (!p.model.guess.empty()) write_line("a guess:     ", p.model.guess);
  write_line("model:       ", quoted(p.spec().architecture), ", ", p.spec().layers.size() - (mtp ? 1 : 0), " layers, ",
             p.spec().caches.size() - (mtp ? 1 : 0), " with a KV cache",
             (mtp ? ", and the MTP layer: " + std::to_string(p.spec().caches.size()) + " caches in all" : ""),
             "; weights ", gib_text(static_cast<int64_t>(w.bytes)), " (", w.format, ", from ",
             (w.source == WeightSource::Given ? "the command line" : "the " + std::string(name_of(w.source))), ")");
  write_line("machine:     ", d.gpus, " x ", gib_text(static_cast<int64_t>(d.gpu_memory)), ", tensor parallel ", d.tp,
             (d.replicas() > 1 ? ", " + std::to_string(d.replicas()) + " replicas" : ""));
  write_line("a GPU:       ", gib_text(b.usable), " usable - ", gib_text(b.weights), " weights - ",
             gib_text(b.allowance), " allowance = ", gib_text(b.cache()), " for the cache");
}

void print_costs(const Planned& p) {
  std::string costs = "a token:    ";
  const char* separator = " ";
  for (const auto& [format, fit] : p.capacity.fits) {
    const SequenceCost& cost = fit.cost();
    costs += line_of(separator, grouped(cost.bytes_per_token()), " bytes in ", title_of(format));
    if (cost.bytes_per_late_token() != cost.bytes_per_token())
      costs += line_of(" (", grouped(cost.bytes_per_late_token()), " beyond the windows)");
    separator = ", ";
  }
  if (p.capacity.recipe)
    costs += line_of(separator, grouped(p.capacity.recipe->cost().bytes_per_token()), " bytes with the recipe");
  write_line(costs, ", on each GPU of a group");
  print_formats(p.capacity);
  print_state(p.state, p.spec(), p.capacity);
}

std::string gained(int64_t tokens, int64_t against) {
  if (against == 0) return "-";
  return formatted("%+.1f %%", 100 * (static_cast<double>(tokens) / static_cast<double>(against) - 1));
}

void print_recipe(const Planned& p) {
  if (!p.capacity.recipe) return;
  const auto tokens = [&](const Fit& fit) { return tokens_in(p.capacity.budget, fit.cost()); };
  const int64_t n = tokens(*p.capacity.recipe);
  const int64_t bf16 = tokens(p.capacity.at(KvFormat::BF16)), fp8 = tokens(p.capacity.at(KvFormat::FP8));
  write_line("recipe:      a GPU's cache holds ", grouped(n), " tokens, ", gained(n, bf16), " against BF16 (",
             grouped(bf16), "), ", gained(n, fp8), " against FP8 (", grouped(fp8), ")");
}

/// Columns of numbers, one for each format, and one for the recipe where there is one.
std::vector<Table::Column> format_columns(const Planned& p, const char* first) {
  using enum Table::Align;
  std::vector<Table::Column> columns = {{first, Right}};
  for (const auto& [format, fit] : p.capacity.fits) columns.push_back({title_of(format), Right});
  if (p.capacity.recipe) columns.push_back({"recipe", Right});
  return columns;
}

void print_sequences(const Planned& p) {
  using enum Table::Align;
  std::vector<Table::Column> columns = format_columns(p, "context");
  for (const char* title : {"a sequence in BF16", "in FP8", "smaller by"}) columns.push_back({title, Right, 1});
  Table table(columns);
  for (const int64_t context : contexts_of(p)) {
    std::vector<std::string> cells = {grouped(context)};
    for (const auto& [format, fit] : p.capacity.fits) cells.push_back(grouped(fit.sequences(context)));
    if (p.capacity.recipe) cells.push_back(grouped(p.capacity.recipe->sequences(context)));
    for (const KvFormat format : {KvFormat::BF16, KvFormat::FP8})
      cells.push_back(gib_text(p.capacity.at(format).cost().bytes(context)));
    cells.push_back(formatted("x%.2f", gain_of_fp8(p.capacity, context)));
    table.add_row(cells);
  }
  write_line();
  write_line("sequences at a time:");
  write_result(table.text());
}

std::vector<int64_t> concurrencies_of(const Planned& p) {
  return p.load.concurrency ? std::vector<int64_t>{*p.load.concurrency} : std::vector<int64_t>{1, 8, 32, 128, 256};
}

void print_contexts(const Planned& p) {
  const int64_t longest = longest_context(p.spec());
  Table table(format_columns(p, "sequences"));
  for (const int64_t n : concurrencies_of(p)) {
    std::vector<std::string> cells = {grouped(n)};
    for (const auto& [format, fit] : p.capacity.fits) cells.push_back(grouped(fit.context(n, longest)));
    if (p.capacity.recipe) cells.push_back(grouped(p.capacity.recipe->context(n, longest)));
    table.add_row(cells);
  }
  write_line();
  write_line("longest context, of at most ", grouped(longest), " tokens:");
  write_result(table.text());
}

void print_text(const Planned& p) {
  print_memory(p);
  print_costs(p);
  print_recipe(p);
  if (p.recommendation.advice != Advice::WeightsDoNotFit) {
    print_sequences(p);
    print_contexts(p);
    print_state_types(p.spec(), p.capacity, context_of(p.spec(), p.load));
  }
  write_line();
  write_line(name_of(p.recommendation.advice), ": ", p.recommendation.text, ".");
  for (const std::string& remark : p.recommendation.remarks) write_line("- ", remark, ".");
  write_line();
  write_line("assumptions:");
  for (const Assumption& a : all_assumptions(p))
    write_line("  ", a.name, ": ", a.text, (a.option.empty() ? "" : " (" + a.option + ")"));
}

Json per_format(const Planned& p, const std::function<Json(const Fit&)>& value) {
  Json out = Json::object();
  for (const auto& [format, fit] : p.capacity.fits) out[std::string(name_of(format))] = value(fit);
  if (p.capacity.recipe) out["recipe"] = value(*p.capacity.recipe);
  return out;
}

Json tables_json(const Planned& p) {
  Json sequences = Json::array(), contexts = Json::array();
  for (const int64_t context : contexts_of(p))
    sequences.push_back({{"context", context},
                         {"sequences", per_format(p, [&](const Fit& f) { return f.sequences(context); })},
                         {"bytes_per_sequence", per_format(p, [&](const Fit& f) { return f.cost().bytes(context); })}});
  const int64_t longest = longest_context(p.spec());
  for (const int64_t n : concurrencies_of(p))
    contexts.push_back(
        {{"concurrency", n}, {"context", per_format(p, [&](const Fit& f) { return f.context(n, longest); })}});
  return {{"sequences", sequences}, {"contexts", contexts}};
}

Json to_json(const Planned& p) {
  const Capacity& c = p.capacity;
  const WeightBytes& w = c.weights;
  Json assumptions = Json::array();
  for (const Assumption& a : all_assumptions(p))
    assumptions.push_back({{"name", a.name}, {"text", a.text}, {"option", a.option}});
  Json out = {{"architecture", p.spec().architecture},
              {"guessed", !p.model.guess.empty()},
              {"max_positions", p.spec().max_positions},
              {"n_caches", p.spec().caches.size()},
              {"n_mtp_layers", p.spec().n_mtp_layers},
              {"gpu_memory", c.deployment.gpu_memory},
              {"gpus", c.deployment.gpus},
              {"tp", c.deployment.tp},
              {"unified_memory", c.deployment.gpu.unified},
              {"utilization", c.deployment.utilization},
              {"layers_in_16_bits", c.deployment.kept_layers},
              {"formats", formats_json(c)},
              {"weights",
               {{"bytes", w.bytes},
                {"source", name_of(w.source)},
                {"format", w.format},
                {"parameters", w.parameters > 0 ? Json(w.parameters) : Json()}}},
              {"per_gpu",
               {{"usable", c.budget.usable},
                {"weights", c.budget.weights},
                {"allowance", c.budget.allowance},
                {"cache", c.budget.cache()}}},
              {"kv_bytes_per_token", per_format(p, [](const Fit& f) { return f.cost().bytes_per_token(); })},
              {"kv_bytes_per_token_beyond_windows",
               per_format(p, [](const Fit& f) { return f.cost().bytes_per_late_token(); })},
              {"state_bytes_per_sequence", c.at(KvFormat::BF16).cost().state_bytes},
              {"state", state_json(p.state, p.spec(), c, context_of(p.spec(), p.load))}};
  if (c.recipe) out["tokens_per_gpu"] = per_format(p, [&](const Fit& f) { return tokens_in(c.budget, f.cost()); });
  out.update(tables_json(p));
  out["advice"] = {{"name", name_of(p.recommendation.advice)},
                   {"text", p.recommendation.text},
                   {"remarks", p.recommendation.remarks}};
  out["assumptions"] = assumptions;
  return out;
}

Exit run(const PlanFlags& flags) {
  const Planned planned = resolve(flags);
  flags.json ? write_json(to_json(planned)) : print_text(planned);
  return Exit::Done;
}

}  // namespace

void add_plan(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* verb = app.add_subcommand("plan", "Estimate context and concurrency on given GPUs, BF16 vs. FP8 cache");
  verb->add_option("MODEL", flags->model, "Checkpoint folder, or a config.json")->required();
  verb->add_option("--gpu", flags->gpu,
                   "GPU: H100, 'A100 80GB', GH200, GB10, 'RTX 5090', MI300X; of several sizes the smallest")
      ->type_name("GPU");
  verb->add_option("--gpu-memory", flags->gpu_memory,
                   "Instead: memory of one GPU, with unit: 80GiB (2^30 bytes) or 80GB (10^9)")
      ->type_name("SIZE");
  verb->add_option("--gpus", flags->gpus, "Number of GPUs (default: one tensor-parallel group)");
  verb->add_option("--tp", flags->tp, "GPUs per tensor-parallel group (default: all)");
  verb->add_option("--concurrency", flags->load.concurrency, "Sequences served at the same time");
  verb->add_option("--context", flags->load.context, "Tokens per sequence, prompt and answer");
  verb->add_option(
      "--gpu-memory-utilization", flags->utilization,
      "Share of GPU memory that the server uses (default: 0.9; 0.85 where it is the system's memory, too)");
  verb->add_option("--allowance", flags->allowance, "Part of it for activations and runtime, per GPU (default: 3GiB)")
      ->type_name("SIZE");
  verb->add_option("--weights", flags->weights, "Total size of the weights (default: measured or estimated)")
      ->type_name("SIZE");
  verb->add_option("--scales", flags->scales, "Scale file: layers that it calls keep16 get a BF16 cache")
      ->type_name("FILE");
  verb->add_option("--recipe", flags->recipe, "Evaluation: what its recipe (evaluate --choose) gains")
      ->type_name("EVALUATION");
  verb->add_option("--server", flags->server,
                   "Server, with version: vllm@0.33.0, sglang@0.5.23 (default: formats of both, states of vLLM)")
      ->type_name("SERVER");
  verb->add_option("--state-dtype", flags->state.dtype,
                   "Type of recurrent state: f32, bf16, f16, fp8, int8 (default: as the server does by itself)")
      ->type_name("TYPE");
  verb->add_option("--state-slots", flags->state.slots,
                   "States that a sequence holds (default: as the server does with prefix caching)");
  verb->add_flag("--mtp", flags->mtp, "Count the cache of the MTP layer too, for a server that drafts tokens with it");
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->footer(
      "Examples:\n"
      "  kvcal plan ./Qwen3.5-35B-A3B --gpu-memory 128GB --context 200000\n"
      "  kvcal plan ./Llama-3.1-70B --gpu H100 --gpus 4 --concurrency 64\n"
      "  kvcal plan ./config.json --gpu-memory 24GiB --json | jq .advice.name");
  verb->callback([flags, &chosen] {
    chosen = [flags] {
      flags->model = model_folder(flags->model);
      return run(*flags);
    };
  });
}

}  // namespace kvcal
