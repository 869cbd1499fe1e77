// kvcal inspect MODEL: which layers own a KV cache, what it costs, whether it can be calibrated. Works from config.json
// alone; reads headers of weights where there are any, never tensors.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "base/number_text.h"
#include "calibrate/fed_prompts.h"
#include "calibrate/identity.h"
#include "capacity/state_cost.h"
#include "capacity/weight_bytes.h"
#include "checkpoint/config_file.h"
#include "checkpoint/fold_mark.h"
#include "checkpoint/kv_scale_names.h"
#include "checkpoint/quantization.h"
#include "hub_cache.h"
#include "idle_options.h"
#include "model/architecture.h"
#include "prefill/memory_plan.h"
#include "prefill/model_weights.h"
#include "progress.h"
#include "servers/foldable.h"
#include "servers/kv_declaration.h"
#include "servers/model_identity.h"
#include "servers/server_support.h"
#include "table.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct InspectFlags {
  std::string model;
  int64_t max_model_len = 0;  // 0 = the model's own
  bool json = false, identity = false;
};

// What the headers of the weights tell.
struct FoundWeights {
  int64_t n_tensors = 0, n_shards = 0, n_parameters = 0;
  uint64_t bytes = 0;
  std::map<std::string, int64_t> dtypes;  // tensors by stored type
  std::vector<std::string> kv_scales;
  std::string tensor_prefix;
  bool mtp_layer = false;  // one that is read on request
};

struct Inspection {
  std::string architecture, model_type, reason;  // reason: why not supported, empty when it is
  QuantizationSummary quantization;
  std::vector<ServerSupport> servers;   // what each does with KV scales of this checkpoint; empty when not calibrated
  std::unique_ptr<Model> model;         // null when the architecture is not known
  std::optional<FoundWeights> weights;  // none without weights
  std::string weights_problem;          // why there are none
  std::optional<FoldMark> fold;         // none where no powers of two are in the weights
  std::string fold_problem;             // why their record cannot be read
};

FoundWeights read_weights(const std::filesystem::path& folder, const ModelSpec& spec) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  FoundWeights w;
  w.n_tensors = static_cast<int64_t>(checkpoint.names().size());
  w.n_shards = static_cast<int64_t>(checkpoint.n_shards());
  w.bytes = checkpoint.total_bytes();
  for (const std::string& name : checkpoint.names()) ++w.dtypes[std::string(name_of(checkpoint.find(name)->dtype))];
  w.kv_scales = kv_scale_tensors(checkpoint);
  try {
    w.tensor_prefix = detect_prefix(checkpoint, spec.embedding).model;
    w.mtp_layer = has_mtp_layer(checkpoint, spec, w.tensor_prefix);
  } catch (const Error&) {  // an unknown architecture may have other names; the rest is still worth telling
  }
  return w;
}

bool has_weight_files(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".index.json") || name.starts_with("pytorch_model"))
      return true;
  }
  return false;
}

std::string first_architecture(const Json& config) {
  const Json* list = find_member(config, "architectures");
  return list && list->is_array() && !list->empty() && (*list)[0].is_string() ? (*list)[0].get<std::string>() : "";
}

/// As this checkpoint stands, but that one without a quantization_config gets the exporter's.
std::vector<ServerSupport> support_of(const ConfigFile& file, const ModelSpec& spec) {
  const KvDeclaration declared = read_kv_declaration(file.config, file.folder);
  std::vector<ServerSupport> all;
  for (const ServerKind kind : {ServerKind::Vllm, ServerKind::Sglang}) {
    KvCarrier carrier = carrier_of(declared, kind);
    if (carrier == KvCarrier::None) carrier = KvCarrier::CompressedTensors;
    all.push_back(server_support(verified_server(kind), spec.architecture, carrier));
  }
  return all;
}

Inspection inspect(const std::string& path, int64_t max_model_len) {
  const ConfigFile file = read_config(path);
  Inspection i;
  i.architecture = first_architecture(file.config);
  i.model_type = get_string_or(file.config, "model_type", "");
  i.quantization = describe_quantization(file.config, file.folder);
  try {
    i.model = parse_model(file.config, max_model_len);
    i.servers = support_of(file, i.model->spec());
  } catch (const Error& e) {
    i.reason = e.what();
  }
  try {
    i.weights = read_weights(file.folder, i.model ? i.model->spec() : ModelSpec{});
  } catch (const Error& e) {
    i.weights_problem = e.what();
    // A config alone says what could be calibrated; weights that are there must also be readable.
    if (i.reason.empty() && has_weight_files(file.folder)) i.reason = i.weights_problem;
  }
  try {
    if (const std::optional<Json> record = read_fold_record(file.folder)) i.fold = fold_mark(*record);
  } catch (const Error& e) {
    i.fold_problem = e.what();
  }
  if (i.reason.empty() && !is_readable(i.quantization))
    i.reason = "the weights are quantized (" + str(i.quantization) +
               "), an unsupported format; calibrate the original BF16 checkpoint";
  return i;
}

struct MemoryNeeds {
  uint64_t largest_layer = 0, residual_per_token = 0, activations_per_token = 0, state_per_sequence = 0;
};

MemoryNeeds memory_needs(const ModelSpec& spec) {
  MemoryNeeds m;
  for (const LayerSpec& l : spec.layers) {
    m.largest_layer = std::max(m.largest_layer, static_cast<uint64_t>(l.parameters) * 2);
    m.activations_per_token = std::max(m.activations_per_token, static_cast<uint64_t>(l.activations) * 2);
    m.state_per_sequence = std::max(m.state_per_sequence, static_cast<uint64_t>(l.state_bytes));
  }
  m.residual_per_token = static_cast<uint64_t>(spec.residual_width()) * 2;
  return m;
}

std::string_view kind_of(const LayerSpec& layer, const ModelSpec& spec) {
  const bool mla = layer.cache >= 0 && spec.caches[static_cast<size_t>(layer.cache)].is_mla();
  return mla ? "mla" : inspect_name_of(layer.kind);
}

Json layers_json(const ModelSpec& spec) {
  Json layers = Json::array();
  for (const LayerSpec& l : spec.layers) {
    Json layer = {{"index", l.index}, {"kind", kind_of(l, spec)}};
    if (l.cache >= 0) {
      const KvLayout& c = spec.caches[static_cast<size_t>(l.cache)];
      layer["n_heads"] = c.n_heads;
      layer["n_kv_heads"] = c.n_kv_heads;
      layer["head_dim_k"] = c.head_dim_k;
      layer["head_dim_v"] = c.head_dim_v;
      if (c.window) layer["window"] = c.window;
    }
    if (l.shares_cache >= 0) layer["shares_kv_with"] = spec.caches[static_cast<size_t>(l.shares_cache)].layer;
    layer["parameters"] = l.parameters;
    layers.push_back(std::move(layer));
  }
  return layers;
}

Json servers_json(const std::vector<ServerSupport>& servers) {
  Json list = Json::array();
  for (const ServerSupport& s : servers)
    list.push_back({{"server", str(s.server)},
                    {"loads_checkpoint_scales", s.loads},
                    {"tensor_suffix", s.loads ? Json(scale_suffix(s.write, 'k')) : Json(nullptr)},
                    {"why_not", s.why_not},
                    {"query_scale", name_of(s.query)},
                    {"side_file", s.json},
                    {"plugin", s.plugin},
                    {"backend_applies", s.backend},
                    {"source", s.source}});
  return list;
}

Json to_json(const Inspection& i) {
  Json out = {{"architecture", i.architecture}, {"model_type", i.model_type}, {"supported", i.reason.empty()}};
  if (!i.reason.empty()) out["reason"] = i.reason;
  if (i.model) {
    const ModelSpec& spec = i.model->spec();
    out["n_layers"] = spec.layers.size();
    out["kv_bytes_per_token"] = {{"bf16", kv_bytes_per_token(spec, 2)}, {"fp8", kv_bytes_per_token(spec, 1)}};
  }
  out["weights_quantization"] = i.quantization.method;
  if (!i.quantization.detail.empty()) out["weights_quantization_detail"] = i.quantization.detail;
  if (!i.quantization.kv_cache.empty()) out["kv_cache_quantization"] = i.quantization.kv_cache;
  if (i.model) {
    const ModelSpec& spec = i.model->spec();
    const MemoryNeeds m = memory_needs(spec);
    out["n_kv_layers"] = spec.caches.size();
    out["recurrent_state_bytes"] = {{"f32", slot_bytes(spec, StateWidth::F32, 1)},
                                    {"bf16", slot_bytes(spec, StateWidth::BF16, 1)}};
    out["parameters"] = parameters_of(spec);
    out["max_positions"] = spec.max_positions;
    if (spec.indexed_beyond > 0) out["indexed_beyond"] = spec.indexed_beyond;
    if (spec.rope_switch > 0)
      out["longrope"] = {{"original_positions", spec.rope_switch}, {"list", spec.above_rope_switch ? "long" : "short"}};
    out["memory"] = {{"largest_layer_bytes", m.largest_layer},
                     {"residual_bytes_per_token", m.residual_per_token},
                     {"activation_bytes_per_chunk_token", m.activations_per_token},
                     {"state_bytes_per_sequence", m.state_per_sequence}};
  }
  if (!i.weights) out["weights_problem"] = i.weights_problem;
  if (i.weights) {
    const FoundWeights& w = *i.weights;
    out["weights"] = {{"n_tensors", w.n_tensors}, {"n_shards", w.n_shards},   {"bytes", w.bytes},
                      {"dtypes", w.dtypes},       {"kv_scales", w.kv_scales}, {"tensor_prefix", w.tensor_prefix},
                      {"mtp_layer", w.mtp_layer}};
  }
  if (!i.servers.empty()) out["servers"] = servers_json(i.servers);
  if (!i.fold_problem.empty()) out["fold_problem"] = i.fold_problem;
  if (i.fold) out["fold"] = {{"sites", i.fold->n_sites}, {"left_to_scales", i.fold->n_left}};
  out["layers"] = i.model ? layers_json(i.model->spec()) : Json::array();
  return out;
}

void print_layers(const ModelSpec& spec) {
  // One row for all layers that look alike.
  std::vector<std::pair<std::vector<std::string>, std::vector<int64_t>>> rows;
  for (const LayerSpec& l : spec.layers) {
    std::vector<std::string> cells = {std::string(kind_of(l, spec)), "-", "-", "-", "-", "-", "0"};
    if (l.shares_cache >= 0)
      cells[0] += ", reads layer " + std::to_string(spec.caches[static_cast<size_t>(l.shares_cache)].layer);
    if (l.cache >= 0) {
      const KvLayout& c = spec.caches[static_cast<size_t>(l.cache)];
      const int64_t bytes = c.n_kv_heads * (c.head_dim_k + (c.is_mla() ? 0 : c.head_dim_v));
      cells = {cells[0],
               std::to_string(c.n_heads),
               std::to_string(c.n_kv_heads),
               std::to_string(c.head_dim_k),
               std::to_string(c.head_dim_v),
               c.window ? std::to_string(c.window) : "all",
               grouped(2 * bytes)};
    }
    cells.push_back(grouped(l.parameters));
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first == cells; });
    if (same != rows.end()) {
      same->second.push_back(l.index);
    } else {
      rows.push_back({cells, {l.index}});
    }
  }
  using enum Table::Align;
  Table table({{"layers"},
               {"kind"},
               {"q heads", Right, 2},
               {"kv heads", Right},
               {"K dim", Right},
               {"V dim", Right},
               {"window", Right, 1},
               {"KV bytes/token", Right},
               {"parameters", Right, 3}});
  constexpr int kRangesWidth = 48;
  for (auto& [cells, indexes] : rows) {
    cells.insert(cells.begin(), cut_to_width(ranges_text(indexes), kRangesWidth));
    table.add_row(cells);
  }
  write_result(table.text());
}

void print_model(const ModelSpec& spec, bool mtp_layer) {
  const MemoryNeeds m = memory_needs(spec);
  write_line("parameters:    ", grouped(parameters_of(spec)), " (language model, computed from the config)");
  write_line("KV cache:      ", spec.caches.size(), " of ", spec.layers.size(), " layers, ",
             grouped(kv_bytes_per_token(spec, 2)), " bytes per token in BF16, ", grouped(kv_bytes_per_token(spec, 1)),
             " in FP8");
  if (const int64_t state = slot_bytes(spec, StateWidth::F32, 1); state > 0)
    write_line("state:         ", grouped(state), " bytes per sequence in F32, ",
               grouped(slot_bytes(spec, StateWidth::BF16, 1)), " in BF16, of recurrent layers");
  if (mtp_layer) write_line("MTP layer:     'calibrate --mtp' measures its cache, too, for servers that draft with it");
  if (spec.indexed_beyond > 0)
    write_line("indexer:       in sequences of more than ", grouped(spec.indexed_beyond),
               " tokens it picks the keys that a query sees");
  if (spec.rope_switch > 0)
    write_line("longrope:      the ", (spec.above_rope_switch ? "long" : "short"),
               " list of frequencies, as the server allows ", (spec.above_rope_switch ? "more than " : "at most "),
               grouped(spec.rope_switch), " tokens");
  write_line("memory:        ", bytes_text(m.largest_layer), " for the largest layer, ",
             bytes_text(m.residual_per_token), " per prompt token, ", bytes_text(m.activations_per_token),
             " per token of a batch; 'calibrate --dry-run' plans a run");
  write_line();
  print_layers(spec);
}

void print_servers(const std::vector<ServerSupport>& servers) {
  for (const ServerSupport& s : servers) {
    const std::string server =
        line_of(&s == &servers.front() ? "servers:       " : "               ", str(s.server), " ");
    if (s.loads)
      write_line(server, "loads scales named *", scale_suffix(s.write, 'k'));
    else
      write_line(server, "loads no scales from a checkpoint: ", s.why_not,
                 (s.plugin.empty() ? "" : "; the plug-in " + s.plugin + " loads the scale file"));
  }
}

/// What is in the weights already, or could be where a server loads nothing.
void print_fold(const Inspection& i) {
  if (!i.fold_problem.empty()) {
    write_line("folded:        unknown: ", i.fold_problem);
  } else if (i.fold) {
    write_line("folded:        powers of two are in the weights (", kFoldRecord, "), ", i.fold->n_left, " of ",
               i.fold->n_sites, " sites left to a scale file");
  } else if (i.model && may_be_folded(i.model->spec()) &&
             std::ranges::any_of(i.servers, [](const ServerSupport& s) { return s.served && !s.loads; })) {
    write_line("               where nothing loads, 'kvcal fold' puts powers of two into the weights");
  }
}

void print_text(const Inspection& i) {
  write_line("architecture:  ", (i.architecture.empty() ? "-" : quoted(i.architecture)), ", model_type ",
             quoted(i.model_type));
  write_line("calibration:   ", (i.reason.empty() ? "supported" : "not supported: " + i.reason));
  if (i.weights) {
    const FoundWeights& w = *i.weights;
    std::string dtypes;
    for (const auto& [dtype, n] : w.dtypes) dtypes += line_of(" ", dtype, " x ", n);
    write_line("weights:       ", grouped(w.n_tensors), " tensors, ", bytes_text(w.bytes), " in ", w.n_shards,
               " file(s):", dtypes);
  } else {
    write_line("weights:       not read: ", i.weights_problem);
  }
  write_line("quantization:  ", str(i.quantization));
  if (i.weights)
    write_line("KV scales:     ", (i.weights->kv_scales.empty() ? "none in the checkpoint"
                                                                : std::to_string(i.weights->kv_scales.size()) +
                                                                      " already in the checkpoint, from " +
                                                                      quoted(i.weights->kv_scales.front())));
  print_servers(i.servers);
  print_fold(i);
  if (i.model) print_model(i.model->spec(), i.weights && i.weights->mtp_layer);
}

/// For programs that measure a model themselves (kvcal.torch).
Exit print_identity(const std::string& model) {
  const std::filesystem::path folder = read_config(model).folder;
  write_json({{"model", to_json(identify(folder))}, {"tokenizer_sha256", tokenizer_sha256(folder)}});
  return Exit::Done;
}

Exit run(const InspectFlags& flags) {
  if (flags.identity) return print_identity(flags.model);
  if (flags.max_model_len < 0)
    fail("--max-model-len is " + std::to_string(flags.max_model_len) + ", expected 0 (the model's own) or more");
  const Inspection i = inspect(flags.model, flags.max_model_len);
  if (flags.json) {
    write_json(to_json(i));
  } else {
    print_text(i);
  }
  return i.reason.empty() ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_inspect(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* verb =
      app.add_subcommand("inspect", "Show which layers have a KV cache, its size, and whether the model is supported");
  verb->add_option("MODEL", flags->model, "Checkpoint folder, or a config.json")->required();
  verb->add_option("--max-model-len", flags->max_model_len,
                   "Context length of the server; selects longrope factors (default: the model's)");
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->add_flag("--identity", flags->identity,
                 "Print the checkpoint's identity as statistics files have it, for any class, as JSON");
  verb->footer(
      "Examples:\n"
      "  kvcal inspect ./Qwen3-0.6B\n"
      "  kvcal inspect ./config.json --json | jq .kv_bytes_per_token\n"
      "  kvcal inspect ./model && kvcal calibrate ./model\n"
      "\n"
      "Exit code 0: the model can be calibrated; 1: it cannot, and the output says why; 2: failure.");
  verb->callback([flags, verb, &chosen] {
    if (flags->identity) refuse_idle(*verb, "with --identity", {"--max-model-len"});
    chosen = [flags] {
      flags->model = model_folder(flags->model);
      return run(*flags);
    };
  });
}

}  // namespace kvcal
