// kvcal launch MODEL --print KIND: the script or manifest with which a cluster calibrates in parts. Submits nothing.
#include <CLI/CLI.hpp>

#include "base/size_text.h"
#include "console.h"
#include "device.h"
#include "idle_options.h"
#include "launch_scripts.h"
#include "prompt_flags.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct LaunchFlags {
  std::string kind, memory, statistics;
  LaunchNames names;
  PromptFlags prompts;
  int64_t parts = 0;
  int threads = 16;
};

struct Kind {
  const char* name;
  std::string (*print)(const LaunchPlan&, const LaunchNames&);
};

constexpr Kind kKinds[] = {{"slurm", slurm_script}, {"mpi", mpi_script}, {"k8s", kubernetes_manifest}};

const Kind& kind_named(const std::string& name) {
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  fail_unknown("kind of cluster", name, known);
}

// A script is lines: what is in a word must not end one, least of all the one that begins the command of a job.
void check_word(const std::string& what, const std::string& word) {
  if (printable(word) != word)
    fail(what + " is " + quoted(word) +
         ": it has a line break, another character that is not seen as it is, or a command of a CI system, which a "
         "script cannot contain; rename it, or give it by a link");
}

void check_words(const LaunchFlags& flags) {
  check_word("MODEL", flags.names.model);
  check_word("--out", flags.names.scales);
  check_word("--stats", flags.statistics);
  check_word("--image", flags.names.image);
  check_word("--claim", flags.names.claim);
  for (const std::string& word : words_of(flags.prompts)) check_word("a word of the options for prompts", word);
}

void check(const LaunchFlags& flags) {
  check_words(flags);
  check_threads(flags.threads);
  if (flags.threads == 0) fail("--threads is 0, expected the number of processors of a part");
  if (flags.parts < 0) fail("--parts is " + std::to_string(flags.parts) + ", expected 0 (chosen by kvcal) or more");
  if (flags.kind == "k8s" && flags.names.image.empty())
    fail("--print k8s needs --image IMAGE: the containers' image, with this program in PATH");
  for (const std::string& file : flags.prompts.files)
    if (file == "-") fail("--prompts is -, expected files: the parts of a job have no standard input");
  for (const auto& [option, file] : {std::pair("--out", flags.names.scales), std::pair("--stats", flags.statistics)})
    if (file == "-") fail(std::string(option) + " is -, expected a file: the job writes it");
}

LaunchPlan planned(const LaunchFlags& flags) {
  CalibrationOptions options;
  options.prompts = flags.prompts.resolve();
  options.threads = flags.threads;
  if (!flags.memory.empty()) options.memory = parse_size("--memory", flags.memory);
  const CalibrationInputs inputs = {.model = flags.names.model,
                                    .prompts = [&](bool chat) { return read_prompt_files(flags.prompts, chat); },
                                    .open_devices = [&] { return open_devices("cpu", options.precision, 1); }};
  Console console(/*quiet=*/true);
  return plan_launch(inputs, options, flags.parts, console);
}

Exit run(LaunchFlags flags) {
  const Kind& kind = kind_named(flags.kind);
  check(flags);
  const LaunchPlan plan = planned(flags);
  flags.names.prompt_words = words_of(flags.prompts);
  // Named by the plan, so that files of other prompts that lie there are not taken for parts of this run.
  flags.names.statistics =
      flags.statistics.empty() ? "kvcal-" + plan.plan_sha256.substr(0, 12) + ".kvstats" : flags.statistics;
  write_lines(Lines::of_text(kind.print(plan, flags.names)));
  return Exit::Done;
}

}  // namespace

void add_launch(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App* verb = app.add_subcommand("launch", "Print what a cluster's queue needs to calibrate in parts");
  verb->add_option("MODEL", flags->names.model, "Checkpoint folder, by the path that the job sees")->required();
  verb->add_option("--print", flags->kind,
                   "slurm: array of parts and merge, submitted by bash; mpi: a job for sbatch; k8s: a manifest with an "
                   "Indexed Job and a merge")
      ->required()
      ->type_name("KIND");
  verb->add_option("--parts", flags->parts, "Parts of the job (default: as many as gain something)")->type_name("N");
  verb->add_option("--threads", flags->threads, "Processors of a part")->type_name("N")->capture_default_str();
  verb->add_option("--memory", flags->memory, "Memory of a part, with unit (default: as much as is useful)")
      ->type_name("SIZE");
  verb->add_option("-o,--out", flags->names.scales, "Scale file to write")->type_name("FILE")->capture_default_str();
  verb->add_option("--stats", flags->statistics, "Merged statistics to write (default: named by the plan)")
      ->type_name("FILE");
  verb->add_option("--image", flags->names.image, "k8s: image of the containers")->type_name("IMAGE");
  verb->add_option("--claim", flags->names.claim, "k8s: persistent volume claim with model and prompts")
      ->type_name("NAME")
      ->capture_default_str();
  flags->prompts.add_to(*verb);
  verb->footer(
      "Nothing is submitted. Memory is the plan's, time limits are three times an estimate; change what does not "
      "suit.\n"
      "\n"
      "Examples:\n"
      "  kvcal launch ./model -p chats.jsonl --print slurm > job.sh && bash job.sh\n"
      "  kvcal launch ./model --prompts chats.jsonl --print mpi --parts 8 | sbatch\n"
      "  kvcal launch model --print k8s --image registry.local/kvcal:1 > job.yaml");
  verb->callback([flags, verb, &chosen] {
    if (flags->kind != "k8s") refuse_idle(*verb, "with --print " + flags->kind, {"--image", "--claim"});
    chosen = [flags] { return run(*flags); };
  });
}

}  // namespace kvcal
