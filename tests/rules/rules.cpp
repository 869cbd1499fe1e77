#include "rules/rules.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string_view>

#include "rules/include_table.h"

namespace kvcal::rules {
namespace {

// Libraries that are held in one place.
struct Library {
  const char* name;
  std::regex header;
  std::vector<std::string> folders;  // path prefixes where it may appear
  bool sources_only;                 // not in headers
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> all = {
      {"CUDA",
       std::regex(R"((cuda|cu(blas|dnn|rand|solver|sparse)|cub/|thrust/|cutlass/|cute/|nccl|nv(rtc|ml|tx)).*)"),
       {"kernels/", "tests/bench/probes/"},
       false},
      {"CLI11", std::regex(R"(CLI/.*)"), {"apps/"}, false},
      {"toml++", std::regex(R"(toml\+\+/.*)"), {"apps/project_file.cpp"}, false},
      {"MPI", std::regex(R"(mpi\.h)"), {"apps/mpi/"}, true},
      {"Eigen", std::regex(R"((unsupported/)?Eigen/.*)"), {"lib/ops/cpu/", "lib/solve/"}, true},
      {"oneDNN", std::regex(R"((oneapi/)?dnnl.*)"), {"lib/ops/cpu/", "tests/bench/"}, true},
      {"nlohmann/json", std::regex(R"(nlohmann/.*)"), {"lib/base/", "tests/"}, false},
  };
  return all;
}

// Files that may have more than 400 lines, and why.
const std::map<std::string, std::string, std::less<>> kLongFiles = {
    {"apps/evaluate.cpp", "one verb: its options, what they exclude, and a run from files to limits"},
    {"apps/python/kvcal/recorder.py", "counting, windows and the file, in the order in which a recording needs them"},
    {"apps/python/kvcal/results.py", "the objects of the files that three verbs write, member by member"},
    {"tests/packages/test_python.py", "one package made of the sources serves all of its tests"},
    {"tests/plugins/test_recorder.py", "one count of values in Python serves all of its tests"},
    {"kernels/kernels.h", "the list of all launchers, which every file of kernels/ implements a part of"},
    {"lib/ops/ops.h", "the op contract: one class, which every backend implements"},
    {"lib/jinja/expression_parser.cpp", "one recursive-descent grammar, read from top to bottom"},
};

const std::set<std::string, std::less<>> kTopLevel = {
    ".clang-format", ".clang-tidy",    ".gitignore",        ".pre-commit-hooks.yaml",
    "CHANGELOG.md",  "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md",
    "LICENSE",       "Makefile",       "README.md"};

constexpr size_t kLongLines = 400, kMostLines = 600;

bool is_header(std::string_view path) { return path.ends_with(".h") || path.ends_with(".cuh"); }
bool is_source(std::string_view path) { return path.ends_with(".cpp") || path.ends_with(".cu"); }
bool is_code(std::string_view path) { return is_header(path) || is_source(path); }

// What stands behind the program's name where it is no command: "what kvcal reads".
const std::set<std::string, std::less<>> kProse = {"can",    "exports", "for",        "is", "needs",
                                                   "prompt", "reads",   "statistics", "to"};

std::string at(const SourceFile& file, int line, const std::string& what) {
  return file.path + ":" + std::to_string(line) + ": " + what;
}

// The folder of a path below lib/ as the table spells it: the longest entry that the path begins with.
std::string folder_of(std::string_view path) {
  std::string best;
  for (const IncludeRule& rule : include_table()) {
    const std::string folder(rule.folder);
    if (path.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
  }
  return best;
}

// For each line of the code that matches: a finding.
Findings search_code(const SourceFile& file, const std::regex& pattern, const std::string& what) {
  Findings findings;
  int number = 0;
  for (const std::string& line : lines_of(code_only(file.text))) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, pattern)) findings.push_back(at(file, number, what + ": " + match.str()));
  }
  return findings;
}

void check_library(const SourceFile& file, const Include& include, Findings& findings) {
  for (const Library& library : libraries()) {
    if (!std::regex_match(include.name, library.header)) continue;
    const bool here = std::any_of(library.folders.begin(), library.folders.end(),
                                  [&](const std::string& folder) { return file.path.starts_with(folder); });
    if (!here) findings.push_back(at(file, include.line, std::string(library.name) + " does not belong here"));
    if (here && library.sources_only && is_header(file.path))
      findings.push_back(at(file, include.line, std::string(library.name) + " only in .cpp files"));
  }
}

bool may_include(const IncludeRule& rule, std::string_view what) {
  return std::find(rule.may_include.begin(), rule.may_include.end(), what) != rule.may_include.end();
}

void check_ours(const SourceFile& file, const Include& include, Findings& findings) {
  const bool in_lib = file.path.starts_with("lib/");
  const std::string from = folder_of(in_lib ? std::string_view(file.path).substr(4) : std::string_view(file.path));
  const std::string to = folder_of(include.name);
  if (file.path.starts_with("apps/") && to == "ops/cpu" && file.path != "apps/device.cpp")
    findings.push_back(at(file, include.line, "only apps/device.cpp knows backends: " + include.name));
  if (!in_lib && from != "kernels" && from != "apps/mpi") return;
  if (from.empty()) {
    findings.push_back(at(file, include.line, "this folder is not in the table of include rules"));
  } else if (to.empty()) {
    findings.push_back(at(file, include.line, "not a header of lib/ with its folder: " + include.name));
  } else if (to != from && !may_include(*include_rule_of(from), to) &&
             !may_include(*include_rule_of(from), include.name)) {
    findings.push_back(at(file, include.line, from + " may not include " + include.name));
  }
}

const SourceFile* find(const std::vector<SourceFile>& tree, std::string_view path) {
  const auto found = std::find_if(tree.begin(), tree.end(), [&](const SourceFile& f) { return f.path == path; });
  return found == tree.end() ? nullptr : &*found;
}

}  // namespace

Findings includes(const SourceFile& file) {
  Findings findings;
  if (!is_code(file.path)) return findings;
  for (const Include& include : includes_of(file.text)) {
    if (include.ours)
      check_ours(file, include, findings);
    else if (!folder_of(include.name).empty() && include.name.ends_with(".h"))
      findings.push_back(at(file, include.line, "our own headers stand in quotes: " + include.name));
    check_library(file, include, findings);
  }
  return findings;
}

Findings architecture_names_no_device(const SourceFile& file) {
  if (!is_code(file.path) || !file.path.starts_with("lib/model/archs/")) return {};
  static const std::regex device(R"((^|[^A-Za-z0-9])([Cc]uda|CUDA|[Gg]pu|GPU|[Cc]pu|CPU|[Dd]evice|dnnl)\w*)");
  return search_code(file, device, "an architecture cannot name a device");
}

Findings library_is_silent(const SourceFile& file) {
  if (!is_code(file.path) || !file.path.starts_with("lib/")) return {};
  static const std::regex loud(
      R"(\b(std::(cout|cerr|clog)\b|((v?f?printf|v?dprintf|f?puts|f?putc|putchar|perror|_?exit|_Exit|quick_exit|abort|terminate|(secure_)?getenv|setenv)\s*\()))");
  return search_code(file, loud, "lib/ throws; it does not print, exit or read the environment");
}

Findings one_way_to_print(const SourceFile& file) {
  const bool ours =
      file.path.starts_with("apps/") || file.path.starts_with("lib/") || file.path.starts_with("kernels/");
  if (!is_code(file.path) || !ours || file.path == "apps/terminal.cpp") return {};
  static const std::regex stream(
      R"(\b(std::(cout|cerr|clog|print(ln)?|osyncstream)\b|stderr\b|stdout\b|v?f?printf\s*\(|v?dprintf\s*\(|f?puts\s*\(|f?putc\s*\(|putchar\s*\(|perror\s*\(|write\s*\(\s*(STD|[12]\b)))");
  static const std::regex raw(R"(\bsay_raw\s*\()"), text(R"(\bof_text\s*\()"), json(R"(\bwrite_json_text\s*\()");
  Findings findings = search_code(file, stream, "only apps/terminal.cpp writes to standard output and standard error");
  const auto only_in = [&](const std::set<std::string>& places, const std::regex& what, const std::string& rule) {
    if (places.contains(file.path)) return;
    for (std::string& finding : search_code(file, what, rule)) findings.push_back(std::move(finding));
  };
  only_in({"apps/terminal.h", "apps/progress.cpp"}, raw, "only the status line steers a terminal");
  only_in({"lib/base/lines.h", "lib/base/lines.cpp", "apps/command_line.cpp", "apps/launch.cpp", "apps/prompts.cpp",
           "apps/generate.cpp"},
          text, "text with lines of its own is help, version, a script, a prompt or an answer; all else is lines");
  only_in({"apps/terminal.h", "apps/evaluate.cpp"}, json, "only the file of an evaluation is JSON text already");
  return findings;
}

Findings no_surprises(const SourceFile& file) {
  if (!is_code(file.path) || file.path.starts_with("tests/")) return {};
  static const std::regex outside(
      R"((\b(system|p(open|close)|exec[lv]p?e?|v?fork|socket|connect|getaddrinfo|setlocale|putenv)\s*\()|\bstd::locale\b)");
  static const std::regex environment(R"(\b(secure_)?getenv\s*\()"), setting(R"(\bsetenv\s*\()"),
      library(R"(\bdlopen\s*\()");
  static const std::regex program(R"(\bposix_spawnp?\s*\()");
  Findings findings = search_code(file, outside, "no shell, no other program, no network, no locale");
  const auto only_in = [&](const std::set<std::string>& places, const std::regex& what, const std::string& rule) {
    if (places.contains(file.path)) return;
    for (std::string& finding : search_code(file, what, rule)) findings.push_back(std::move(finding));
  };
  only_in({"apps/ask_python.cpp"}, program, "no other program runs but the Python of --installed");
  only_in({"apps/hub_cache.cpp", "apps/launcher.cpp", "apps/library_folders.cpp", "apps/paint.cpp", "apps/progress.cpp",
           "apps/source_date.cpp", "apps/terminal.cpp"},
          environment,
          "the environment is read for the part of a job, the time of the file, the terminal, the place of CUDA's "
          "libraries and the Hub's cache only");
  only_in({"kernels/cudnn/cudnn_attention.cpp"}, setting,
          "the environment is set where cuDNN's headers choose a CUDA runtime by it, and nowhere else");
  if (!file.path.starts_with("kernels/"))
    only_in({"apps/device.cpp", "apps/ranks.cpp"}, library,
            "a shared library is opened in apps/device.cpp and apps/ranks.cpp only");
  return findings;
}

Findings conditional_compilation(const SourceFile& file) {
  if (!is_code(file.path) || file.path.starts_with("tests/")) return {};
  static const std::regex cuda(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b.*CUDA)");
  static const std::regex compiler(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b.*(__CUDA|__NVCC|__GNUC|__clang|__INTEL))");
  const bool kernels = file.path.starts_with("kernels/");
  if (kernels && (file.path.starts_with("kernels/device/") || file.path.starts_with("kernels/runtime/"))) return {};
  if (kernels) return search_code(file, compiler, "the compiler is asked in kernels/device and kernels/runtime only");
  if (file.path == "apps/device.cpp") return {};
  return search_code(file, cuda, "only apps/device.cpp tests for CUDA");
}

Findings no_views(const SourceFile& file) {
  if (!is_code(file.path)) return {};
  static const std::regex views(R"(#\s*include\s*<ranges>|\bviews::|\branges::(equal_range|subrange)\b)");
  return search_code(file, views, "clang 14, which builds what sanitizers look at, compiles no views of libstdc++ 12");
}

Findings length(const SourceFile& file) {
  if (!is_code(file.path) && !file.path.ends_with(".py") && !file.path.ends_with(".sh")) return {};
  const size_t n = lines_of(file.text).size();
  if (n > kMostLines) return {file.path + ": " + std::to_string(n) + " lines, at most 600"};
  if (n > kLongLines && !kLongFiles.contains(file.path))
    return {file.path + ": " + std::to_string(n) + " lines; above 400 needs a reason in tests/rules/rules.cpp"};
  return {};
}

Findings header_opening(const SourceFile& file) {
  if (!is_header(file.path)) return {};
  Findings findings;
  if (!file.text.starts_with("// ")) findings.push_back(file.path + ": does not begin with what it is for");
  for (const std::string& line : lines_of(file.text)) {
    if (line.starts_with("//") || line.empty()) continue;
    if (line != "#pragma once") findings.push_back(file.path + ": no '#pragma once' after the opening comment");
    return findings;
  }
  findings.push_back(file.path + ": empty");
  return findings;
}

Findings machine_paths(const SourceFile& file) {
  // Prompts and vocabularies are data: whatever people write.
  if (file.path.ends_with(".jsonl") || file.path.ends_with("tokenizer.json")) return {};
  static const std::regex folder(R"((^|[^A-Za-z0-9_./~$}-])/(home|root|work|workspace|Users|mnt|srv)/[A-Za-z0-9_.])");
  Findings findings;
  int number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    // Long lines are data; and the regular expression engine recurses along a line.
    if (line.size() < 2000 && std::regex_search(line, folder))
      findings.push_back(at(file, number, "a folder of one machine"));
  }
  return findings;
}

Findings device_tests_name_no_emulator(const SourceFile& file) {
  // As tests/CMakeLists.txt lists them.
  static const std::regex shared(
      R"(tests/(parity/(cuda/)?\w+_test|arch/(?!cuda_backend)\w+|bench/gpu/(?!emulated_device)\w+)\.cpp)");
  if (!std::regex_match(file.path, shared)) return {};
  Findings findings;
  for (const Include& include : includes_of(file.text))
    if (include.name.starts_with("emulator/") || include.name.starts_with("harness/emulat"))
      findings.push_back(at(file, include.line, "of the emulator, in a test that a real device runs"));
  return findings;
}

Findings goldens_are_used(const std::vector<SourceFile>& tree) {
  const std::string golden = "tests/arch/golden/";
  std::set<std::string> entries, cases;  // cases: folders that the walk over all goldens picks up
  std::string sources;
  bool walked = false;
  for (const SourceFile& file : tree) {
    if (file.path.starts_with("tests/arch/") && is_code(file.path))
      walked |=
          file.text.find("golden_cases()") != std::string::npos && file.text.find("INSTANTIATE_") != std::string::npos;
    if (file.path.starts_with("tests/") && is_code(file.path)) sources += file.text;
    if (!file.path.starts_with(golden)) continue;
    const std::string inside = file.path.substr(golden.size());
    const std::string entry = inside.substr(0, inside.find('/'));
    entries.insert(entry);
    if (inside == entry + "/golden.json") cases.insert(entry);
  }
  entries.erase("README.md");
  Findings findings;
  for (const std::string& entry : entries) {
    const bool named =
        sources.find("\"" + entry + "\"") != std::string::npos || sources.find("/" + entry + "\"") != std::string::npos;
    if (!named && !(walked && cases.contains(entry))) findings.push_back(golden + entry + ": no test names it");
  }
  return findings;
}

Findings verbs_are_documented(const std::vector<SourceFile>& tree) {
  const SourceFile* verbs = find(tree, "apps/verbs.h");
  const SourceFile* readme = find(tree, "README.md");
  const SourceFile* manual = find(tree, "apps/kvcal.1");
  if (verbs == nullptr || readme == nullptr || manual == nullptr)
    return {"README.md, apps/kvcal.1 or apps/verbs.h is missing"};
  static const std::regex declaration(R"(\bvoid add_(\w+)\()");
  const std::string code = code_only(verbs->text);
  Findings findings;
  for (auto it = std::sregex_iterator(code.begin(), code.end(), declaration); it != std::sregex_iterator(); ++it) {
    const std::string verb = (*it)[1];
    if (!std::regex_search(readme->text, std::regex("kvcal " + verb + "\\b")))
      findings.push_back("README.md: does not mention 'kvcal " + verb + "'");
    if (manual->text.find("\n.B " + verb + "\n") == std::string::npos)
      findings.push_back("apps/kvcal.1: does not describe " + verb);
  }
  return findings;
}

Findings top_level_is_known(const std::vector<SourceFile>& tree) {
  // Links that editors and builds make for themselves are ignored by git.
  static const std::set<std::string, std::less<>> ignored = {"compile_commands.json"};
  Findings findings;
  for (const SourceFile& file : tree)
    if (file.path.find('/') == std::string::npos && !kTopLevel.contains(file.path) && !ignored.contains(file.path))
      findings.push_back(file.path + ": does not belong into the top level; did a test leave it there?");
  return findings;
}

Findings named_verbs_exist(const std::vector<SourceFile>& tree) {
  const SourceFile* table = find(tree, "apps/command_line.cpp");
  if (table == nullptr) return {"apps/command_line.cpp is missing"};
  static const std::regex entry(R"(\badd_(\w+)\b)"), command(R"(\bkvcal ([a-z]+)\b(?![_.(]))");
  const std::string listed = table->text.substr(0, table->text.find("};"));
  std::set<std::string> verbs = {"help", "version"};  // words for --help and --version, without a verb's file
  for (auto it = std::sregex_iterator(listed.begin(), listed.end(), entry); it != std::sregex_iterator(); ++it)
    verbs.insert((*it)[1]);
  Findings findings;
  for (const SourceFile& file : tree) {
    // Tests also call verbs that do not exist, on purpose; prompts are data; CMake's target is called like the program.
    if (file.path.starts_with("tests/") || file.path.ends_with(".jsonl") || file.path.ends_with("CMakeLists.txt"))
      continue;
    int number = 0;
    for (const std::string& line : lines_of(file.text)) {
      ++number;
      if (line.find("kvcal ") == std::string::npos) continue;
      for (auto it = std::sregex_iterator(line.begin(), line.end(), command); it != std::sregex_iterator(); ++it)
        if (!verbs.contains((*it)[1]) && !kProse.contains((*it)[1]))
          findings.push_back(at(file, number, "no verb of apps/command_line.cpp: " + it->str()));
    }
  }
  return findings;
}

}  // namespace kvcal::rules
