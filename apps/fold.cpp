// kvcal fold MODEL: a checkpoint for which scale 1.0 is the calibrated scale.
#include "fold/fold.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/number_text.h"
#include "base/size_text.h"
#include "build_info.h"
#include "console.h"
#include "device.h"
#include "export/serve.h"
#include "hub_cache.h"
#include "idle_options.h"
#include "progress.h"
#include "solve/format.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct FoldFlags {
  FoldRequest request;
  std::string balance = "head", progress = "auto";
  bool undo = false, check = false, no_check = false, copy = false, json = false, quiet = false;
  int threads = 0;
};

/// None for a format that these servers do not keep at a scale of 1.0.
std::vector<std::string> serve_commands(const FoldRequest& request) {
  if (!request.options.format.starts_with("fp8")) return {};
  const std::string out = request.out.string();
  return {"vllm serve " + shell_word(out) + " --kv-cache-dtype fp8", sglang_command(out, "fp8_e4m3")};
}

size_t count(const FoldResult& result, bool (*is)(const FoldedSite&)) {
  return static_cast<size_t>(std::ranges::count_if(result.record.plan.sites, is));
}

bool is_left(const FoldedSite& site) { return site.left_to_scales; }
bool is_folded(const FoldedSite& site) { return site.is_folded(); }

Json files_json(const FolderChangeReport& report) {
  return {{"hard_linked", report.files.hard_linked},
          {"symlinked", report.files.symlinked},
          {"copied", report.files.copied},
          {"written", report.files.written},
          {"left_out", report.files.left_out},
          {"from_outside", report.files.from_outside},
          {"shards", report.shards},
          {"shards_resumed", report.n_resumed}};
}

Json adapters_json(const std::vector<FoldedAdapter>& adapters, bool written) {
  Json list = Json::array();
  for (const FoldedAdapter& a : adapters)
    list.push_back({{"adapter", a.source.string()},
                    {"out", written ? Json(a.out.string()) : Json(nullptr)},
                    {"tensors", a.tensors.size()}});
  return list;
}

void print_json(const FoldRequest& request, const FoldResult& result) {
  const bool written = result.folds() && !request.plan_only;
  Json json = to_json(result.record);
  json["out"] = request.out.empty() ? Json(nullptr) : Json(request.out.string());
  json["written"] = written;
  json["bytes_rewritten"] = result.touched.bytes;
  json["files"] = files_json(result.written);
  json["adapters"] = adapters_json(result.adapters, written);
  if (result.check)
    json["check"] = {{"tokens", result.check->n_tokens},
                     {"logits_equal", result.check->n_logits},
                     {"rows_equal", result.check->n_rows}};
  json["commands"] = written ? serve_commands(request) : std::vector<std::string>{};
  write_json(json);
}

/// "-4" or "-6 to 2".
std::string range_text(const std::vector<int>& exponents) {
  const auto [least, most] = std::ranges::minmax(exponents);
  return least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
}

void print_sites(const FoldResult& result, bool all) {
  for (const FoldedSite& site : result.record.plan.sites) {
    if (!all && !site.left_to_scales) continue;
    const std::string layer =
        result.record.original.is_mtp(site.layer) ? "MTP layer" : "layer " + std::to_string(site.layer);
    const std::string how = site.is_folded()
                                ? line_of("times 2^e, e = ", range_text(site.exponents), ", by ", name_of(site.balance))
                            : site.left_to_scales ? "left to a scale file"
                                                  : "as it is";
    write_line("  ", layer, ", ", name_of(site.site), ": ", how, site.why.empty() ? "" : " (" + site.why + ")");
  }
}

void print_nothing(const FoldRequest& request, const FoldResult& result) {
  if (const size_t left = count(result, is_left); left > 0) {
    write_line("nothing can be folded, so nothing was written; ", left, " site(s) need a scale file:");
    return print_sites(result, false);
  }
  if (request.options.force) {
    write_line("nothing can be folded, so nothing was written:");
    return print_sites(result, true);
  }
  write_line("nothing to fold: scale 1.0 is as good as any at all ", result.record.plan.sites.size(),
             " sites, so nothing was written; serve the model as it is (--force folds all the same)");
}

void print_adapters(const FoldResult& result, bool planned) {
  for (const FoldedAdapter& a : result.adapters)
    write_line("adapter ", quoted(a.source.string()), ": ", a.tensors.size(), " of its tensors ",
               (planned ? "would be multiplied" : "multiplied, in " + quoted(a.out.string())));
}

std::string files_text(const FolderChangeReport& written) {
  std::string text = std::to_string(written.shards.size()) + " weight file(s) rewritten";
  if (written.n_resumed > 0) text += " (" + std::to_string(written.n_resumed) + " by the run that was interrupted)";
  const auto add = [&](size_t n, const char* what) {
    if (n > 0) text += ", " + std::to_string(n) + " " + what;
  };
  add(written.files.hard_linked, "hard-linked to the model's");
  add(written.files.symlinked, "symlinked (do not move the model)");
  add(written.files.copied, "file(s) copied");
  return text;
}

void print_notes_on_files(const FolderChangeReport& written) {
  for (const std::string& line : written.files.left_out) write_line("left out: ", line);
  for (const std::string& line : written.files.from_outside) write_line("from outside the model's folder: ", line);
}

void print_plan(const FoldResult& result) {
  write_line("sites:");
  print_sites(result, true);
  write_line();
  write_line("tensors:");
  for (const TensorFold& t : result.record.plan.tensors)
    write_line("  ", t.name, ": ", t.exponents.size(), (t.axis == Axis::Rows ? " rows" : " columns"),
               (t.one_plus ? ", 1 + each" : ","), " times 2^e, e = ", range_text(t.exponents));
  print_adapters(result, true);
  write_line();
  write_line(result.touched.paths.size(), " weight file(s), ", bytes_text(result.touched.bytes),
             ", would be rewritten; nothing was written (--dry-run)");
}

void print_check(const FoldResult& result) {
  if (!result.check) {
    write_line("not checked (--no-check)");
    return;
  }
  const FoldProof& check = *result.check;
  write_line("checked: ", grouped(check.n_logits), " logits of ", check.n_tokens,
             " tokens in bf16 and f32 are the same bits, ", grouped(check.n_rows),
             " cached rows are the original's times their powers of two");
}

void print_written(const FoldRequest& request, const FoldResult& result) {
  write_line(quoted(request.out.string()), ": ", count(result, is_folded), " of ", result.record.plan.sites.size(),
             " sites folded into ", result.record.plan.tensors.size(), " tensors; ", files_text(result.written));
  print_notes_on_files(result.written);
  print_adapters(result, false);
  print_check(result);
  if (const size_t left = count(result, is_left); left > 0) {
    write_line(left, " site(s) still need scales, measured on this folder, from a server that loads them:");
    print_sites(result, false);
  }
  const std::vector<std::string> commands = serve_commands(request);
  if (!commands.empty()) {
    write_line();
    write_line("serve:");
  }
  for (const std::string& command : commands) write_line("  ", command);
  write_line();
  write_line("note:");
  write_line("- scales and LoRA adapters made for ", quoted(request.model.string()), " do not belong to this folder");
}

Exit undo(const FoldRequest& request, const FoldFlags& flags) {
  Console console(flags.quiet);
  const FolderChangeReport report = undo_fold(request.model, request.out, request.untouched, console);
  if (flags.json) {
    write_json({{"undone", request.model.string()}, {"out", request.out.string()}, {"files", files_json(report)}});
  } else {
    write_line(quoted(request.out.string()), ": the weights before the fold; ", files_text(report));
    print_notes_on_files(report);
  }
  return Exit::Done;
}

Exit run(const FoldFlags& flags) {
  FoldRequest request = flags.request;
  if (flags.check && flags.no_check) fail("--check and --no-check exclude each other");
  if (request.out.empty() && !request.plan_only) fail("fold: -o is required; see 'kvcal fold --help'");
  check_threads(flags.threads);
  request.untouched = flags.copy ? Weights::Copy : Weights::Link;
  if (flags.undo) return undo(request, flags);
  if (request.statistics.empty()) fail("fold: --stats is required; see 'kvcal fold --help'");
  request.options.balance = balance_from_name(flags.balance);
  static_cast<void>(number_format(request.options.format));  // throws before anything is read
  request.check = !flags.no_check;
  request.tool_version = std::string("kvcal ") + build_info().version;
  Console console(flags.quiet, progress_form(flags.progress));
  const FoldResult result = fold(
      request, [&](Precision precision) { return open_device("cpu", precision, flags.threads); }, console);
  if (flags.json) {
    print_json(request, result);
  } else if (!result.folds()) {
    print_nothing(request, result);
  } else {
    request.plan_only ? print_plan(result) : print_written(request, result);
  }
  return Exit::Done;
}

void add_options(CLI::App& verb, FoldFlags& flags) {
  FoldRequest& request = flags.request;
  verb.add_option("MODEL", request.model, "Checkpoint folder; not modified")->required();
  verb.add_option("--stats", request.statistics, "Statistics of this model (calibrate --stats)")->type_name("FILE");
  verb.add_option("-o,--out", request.out, "Folder to write")->type_name("FOLDER");
  verb.add_option("--balance", flags.balance,
                  "What gets a power of two of its own: head, channel (both of a rotary pair together), or tensor")
      ->type_name("NAME")
      ->capture_default_str();
  verb.add_option("--dtype", request.options.format, "Cache format that values are placed for")
      ->type_name("NAME")
      ->capture_default_str();
  verb.add_option("--adapter", request.adapters, "LoRA adapter of MODEL: folded into a folder OUT-NAME (repeatable)")
      ->type_name("FOLDER")
      ->take_all();
  verb.add_flag("--force", request.options.force, "Fold also where scale 1.0 is as good as any other");
  verb.add_flag("--check", flags.check, "Run both checkpoints and compare them bit by bit (the default)");
  verb.add_flag("--no-check", flags.no_check, "Do not run them: the result is not proved");
  // It needs the record alone, and would not heed these.
  CLI::Option* undo =
      verb.add_flag("--undo", flags.undo, "MODEL is a folded folder: write the weights before the fold");
  verb.add_flag("--copy", flags.copy, "Copy weight files that do not change instead of linking them");
  verb.add_option("--threads", flags.threads, "Threads of the check; 0: all processors")->capture_default_str();
  verb.add_flag("--dry-run", request.plan_only, "Print sites, tensors and bytes only; write nothing");
  verb.add_flag("-q,--quiet", flags.quiet, "Print no progress");
  verb.add_option("--progress", flags.progress, kProgressHelp)->type_name("FORM")->capture_default_str();
  verb.add_flag("--json", flags.json, "One JSON object on standard output");
  for (const char* other :
       {"--stats", "--balance", "--dtype", "--adapter", "--force", "--check", "--no-check", "--threads", "--dry-run"})
    undo->excludes(verb.get_option(other));
}

}  // namespace

void add_fold(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<FoldFlags>();
  CLI::App* verb = app.add_subcommand("fold", "Put scales into the weights as powers of two: no server loads anything");
  add_options(*verb, *flags);
  verb->footer(
      "The folded checkpoint computes the same bits; what it caches lies in the middle of the format's range, so\n"
      "that scale 1.0 is right. It cures clipping and underflow, not FP8's precision. What cannot be folded keeps its\n"
      "place and is named. Finished weight files of an interrupted run are kept in OUT.kvcal-partial, and the same\n"
      "command goes on from there.\n"
      "\n"
      "Examples:\n"
      "  kvcal fold ./Qwen3-0.6B --stats run.kvstats -o ./Qwen3-0.6B-folded\n"
      "  kvcal fold ./Qwen3-0.6B --stats run.kvstats --dry-run\n"
      "  kvcal fold ./Qwen3-0.6B-folded --undo -o ./Qwen3-0.6B-again");
  verb->callback([flags, verb, &chosen] {
    if (flags->no_check) refuse_idle(*verb, "with --no-check", {"--threads"});
    chosen = [flags] {
      flags->request.model = model_folder(flags->request.model.string());
      return run(*flags);
    };
  });
}

}  // namespace kvcal
