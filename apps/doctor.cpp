// kvcal doctor INPUT...: what went wrong with an FP8 KV cache, from logs, commands, configurations and outputs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

#include "ask_python.h"
#include "base/file_kind.h"
#include "base/read_file.h"
#include "deployment/installed_server.h"
#include "doctor/diagnose.h"
#include "doctor/input_kind.h"
#include "hub_cache.h"
#include "idle_options.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

constexpr size_t kMostOutputFileBytes = size_t{64} << 20, kMostCommandFileBytes = size_t{16} << 20;

struct DoctorFlags {
  std::vector<std::string> inputs, logs, models, scales, outputs, commands, command_files;
  std::string server, gpu, installed;
  bool json = false, list = false, facts = false;
};

// What is no log, command or answer, but is known: read as a log it would be healthy. JSON of servers may have members
// of a config.json.
void refuse_other_kind(const std::string& name, const char* expected, std::initializer_list<FileKind> also = {}) {
  using enum FileKind;
  constexpr std::array kTaken = {Unknown, Compressed, Config, ModelFolder, Adapter};
  const FileKind kind = kind_of_file(std::filesystem::path(name));
  const auto is_in = [&](const auto& kinds) { return std::ranges::find(kinds, kind) != kinds.end(); };
  if (!is_in(kTaken) && !is_in(also)) fail(other_kind(name, kind, expected));
}

void add_log(Doctor& doctor, const std::string& name) {
  refuse_other_kind(name, "a server's log");
  doctor.add_log(name == "-" ? "standard input" : name, log_source(name));
}

// The beginning of a file that can be read twice; pipes are logs.
InputKind kind_of_file(const std::string& name) {
  if (name == "-" || !std::filesystem::is_regular_file(name)) return InputKind::Log;
  std::ifstream file(name, std::ios::binary);
  std::string head(kHeadBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return kind_of_input(head, file.eof());
}

bool is_adapter(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "adapter_config.json") && !std::filesystem::exists(folder / "config.json");
}

// An answer of a server may be one record with a text.
void add_output(Doctor& doctor, const std::string& name) {
  refuse_other_kind(name, "a sample of the model's output", {FileKind::Prompts});
  doctor.add_output(name, read_file(name, kMostOutputFileBytes));
}

void add_command_file(Doctor& doctor, const std::string& name) {
  refuse_other_kind(name, "a command that starts a server");
  doctor.add_command(name, read_file(name, kMostCommandFileBytes));
}

/// What other inputs say counts, where some files start no known server; where all are such, the first says why.
class Unused {
 public:
  void add(const StartsNoServer& why) { all_.push_back(why); }
  void say_which(size_t n_inputs) const {
    if (!all_.empty() && all_.size() == n_inputs) throw all_.front();
    for (const StartsNoServer& why : all_) say("kvcal: doctor: not used: ", why.what());
  }

 private:
  std::vector<StartsNoServer> all_;
};

void add_launch_file(Doctor& doctor, const std::string& name, Unused& unused) {
  try {
    doctor.add_command(name, read_file(name, kMostCommandFileBytes));
  } catch (const StartsNoServer& e) {
    unused.add(e);
  }
}

void add_input(Doctor& doctor, const std::string& name, Unused& unused) {
  refuse_other_kind(name, "a log, a command, a model folder, a scale file or a sample of output",
                    {FileKind::ScaleFile, FileKind::SglangScales});
  if (name != "-" && std::filesystem::is_directory(name))
    return is_adapter(name) ? doctor.add_adapter(name) : doctor.add_checkpoint(name);
  switch (kind_of_file(name)) {
    case InputKind::Log:
      return add_log(doctor, name);
    case InputKind::Command:
      return add_launch_file(doctor, name, unused);
    case InputKind::Config:
      return doctor.add_checkpoint(name);
    case InputKind::Adapter:
      return doctor.add_adapter(name);
    case InputKind::ScaleFile:
      return doctor.add_scale_file(name);
    case InputKind::Output:
      return doctor.add_output(name, read_file(name, kMostOutputFileBytes));
  }
}

Diagnosis examine(const DoctorFlags& flags) {
  Doctor doctor;
  NamedEngine named = flags.server.empty() ? NamedEngine{} : parse_engine(flags.server);
  if (!flags.installed.empty()) {
    InstalledServer server = installed_server(ask_python(flags.installed), flags.installed, named);
    if (named.version && server.version) named.version = server.version;  // 0.33.1, where 0.33 was said
    doctor.add_installed(std::move(server));
  }
  if (!flags.server.empty()) doctor.add_server(named);
  if (!flags.gpu.empty()) doctor.add_gpu(flags.gpu);
  for (const std::string& text : flags.commands) doctor.add_command("--command", text);
  for (const std::string& file : flags.command_files) add_command_file(doctor, file);
  for (const std::string& path : flags.models) doctor.add_checkpoint(path);
  for (const std::string& file : flags.scales) doctor.add_scale_file(file);
  Unused unused;
  for (const std::string& file : flags.inputs) add_input(doctor, file, unused);
  for (const std::string& file : flags.logs) add_log(doctor, file);
  for (const std::string& file : flags.outputs) add_output(doctor, file);
  unused.say_which(flags.inputs.size() + flags.commands.size() + flags.command_files.size() + flags.models.size() +
                   flags.scales.size() + flags.logs.size() + flags.outputs.size());
  return doctor.diagnose();
}

Exit run(const DoctorFlags& flags) {
  if (flags.list) {
    if (flags.json)
      write_json(catalog_json());
    else
      write_result(catalog_text());
    return Exit::Done;
  }
  const bool any = !flags.inputs.empty() || !flags.logs.empty() || !flags.models.empty() || !flags.scales.empty() ||
                   !flags.outputs.empty() || !flags.commands.empty() || !flags.command_files.empty() ||
                   !flags.installed.empty();
  if (!any) fail("doctor: no input; give it a log, a command or a model folder; see 'kvcal doctor --help'");
  const Diagnosis diagnosis = examine(flags);
  if (flags.facts && !flags.json) {
    write_result(facts_text(diagnosis.facts));
    return Exit::Done;
  }
  if (flags.json)
    write_json(diagnosis_json(diagnosis));
  else
    write_result(diagnosis_text(diagnosis));
  return diagnosis.findings.empty() ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_doctor(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* verb = app.add_subcommand("doctor", "Diagnose FP8 KV-cache problems from server logs, command and outputs");
  verb->add_option(
      "INPUT", flags->inputs,
      "Logs ('-': standard input), model folders, config.json, LoRA adapters, scale files, commands, files of options, "
      "compose files, Kubernetes manifests, output of docker inspect: told apart by content");
  verb->add_option("--log", flags->logs, "Server log in any format")->type_name("FILE")->allow_extra_args(false);
  verb->add_option(
          "--command", flags->commands,
          "Command that started the server, also docker run, or options alone; repeat for separate prefill and decode "
          "servers")
      ->type_name("COMMAND")
      ->allow_extra_args(false);
  verb->add_option("--command-file", flags->command_files, "File with that command, compose file or manifest")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb->add_option("--model", flags->models, "Checkpoint folder or config.json being served")
      ->type_name("MODEL")
      ->allow_extra_args(false);
  verb->add_option("--scales", flags->scales, "Scale file (kv-cache-scales.json) meant to be used")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb->add_option("--output", flags->outputs, "Sample of the model's output, such as loops or '!!!!'")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb->add_option("--server", flags->server, "Server, if the log does not name it: vllm@0.33.0, sglang@0.5.23")
      ->type_name("NAME");
  verb->add_option(
          "--installed", flags->installed,
          "Python that vLLM or SGLang is installed for: asked for its version, cache types, attention backends and "
          "architectures, without starting it")
      ->type_name("PYTHON");
  verb->add_option("--gpu", flags->gpu, "GPU, if the log does not name it: H100, 'RTX 5090', sm_90, MI300X, gfx942")
      ->type_name("NAME");
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->add_flag("--facts", flags->facts, "Print what the inputs say of the server, and what would settle the rest");
  verb->add_flag("--list", flags->list, "Print all log lines and rules that doctor knows");
  verb->footer(
      "A finding says where it was seen, how certain it is, what it does not prove, and what to do. Lines that\n"
      "servers always print are notes. Exit code 0: no findings; 1: findings; 2: an input cannot be read.\n"
      "\n"
      "Examples:\n"
      "  kvcal doctor server.log\n"
      "  journalctl -u vllm | kvcal doctor - --model ./Qwen3.5-35B-A3B\n"
      "  kvcal doctor --command 'vllm serve ./GLM --kv-cache-dtype fp8' --output a.txt\n"
      "  kvcal doctor server.log ./export s.json --json | jq '.explanations[0]'");
  verb->callback([flags, verb, &chosen] {
    if (flags->json) refuse_idle(*verb, "with --json, which has them", {"--facts"});
    if (flags->list)
      refuse_idle(*verb, "with --list",
                  {"INPUT", "--log", "--command", "--command-file", "--model", "--scales", "--output", "--server",
                   "--gpu", "--installed", "--facts"});
    // What a project's file says is about its own folder.
    const auto given = [&](const char* name) { return verb->get_option(name)->count() > 0; };
    const bool of_a_run =
        given("INPUT") || given("--log") || given("--command") || given("--command-file") || given("--output");
    if ((of_a_run || given("--installed")) && !given("--server")) flags->server.clear();
    if (of_a_run) {
      if (!given("--model")) flags->models.clear();
      if (!given("--scales")) flags->scales.clear();
    }
    chosen = [flags] {
      for (std::string& model : flags->models) model = model_folder(model);
      for (std::string& input : flags->inputs) input = file_or_model(input);
      return run(*flags);
    };
  });
}

}  // namespace kvcal
