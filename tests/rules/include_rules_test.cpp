// The tree against its rules, and each rule against samples that break it: a rule that cannot fail guards nothing.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "rules/rules.h"
#include "rules/whole_tree.h"

namespace kvcal::rules {
namespace {

struct Rule {
  const char* name;
  Findings (*check)(const SourceFile&);

  friend void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }  // in the test's name
};

class EveryFile : public testing::TestWithParam<Rule> {};

TEST_P(EveryFile, KeepsTheRule) {
  for (const SourceFile& file : tree()) expect_none(GetParam().check(file));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, EveryFile,
    testing::Values(Rule{"includes", includes}, Rule{"architecture_names_no_device", architecture_names_no_device},
                    Rule{"library_is_silent", library_is_silent}, Rule{"one_way_to_print", one_way_to_print},
                    Rule{"conditional_compilation", conditional_compilation}, Rule{"length", length},
                    Rule{"header_opening", header_opening}, Rule{"machine_paths", machine_paths},
                    Rule{"no_surprises", no_surprises}, Rule{"no_views", no_views},
                    Rule{"device_tests_name_no_emulator", device_tests_name_no_emulator}),
    [](const auto& rule) { return rule.param.name; });

TEST(Tree, EveryGoldenIsUsed) { expect_none(goldens_are_used(tree())); }
TEST(Tree, EveryVerbIsDocumented) { expect_none(verbs_are_documented(tree())); }
TEST(Tree, EveryVerbThatIsNamedExists) { expect_none(named_verbs_exist(tree())); }

TEST(Tree, TopLevelIsKnown) { expect_none(top_level_is_known(tree())); }

TEST(Tree, WasRead) {
  EXPECT_GT(tree().size(), 50U);
  EXPECT_TRUE(
      std::any_of(tree().begin(), tree().end(), [](const SourceFile& f) { return f.path == "lib/base/error.h"; }));
}

// ------------------------------------------------------------------ samples

struct Sample {
  const char* path;
  std::string text;
  Findings (*check)(const SourceFile&);
  size_t n_findings;
};

std::string include(const char* header) { return std::string("#include \"") + header + "\"\n"; }
std::string include_system(const char* header) { return std::string("#include <") + header + ">\n"; }

TEST(Sample, IncludesBetweenFolders) {
  const Sample samples[] = {
      {"lib/base/error.cpp", include("tensor/tensor.h"), includes, 1},
      {"lib/tensor/tensor.cpp", include("base/error.h"), includes, 0},
      {"lib/tokenizer/bpe.cpp", include("checkpoint/checkpoint.h"), includes, 1},
      {"lib/ops/ops.cpp", include("ops/cpu/cpu_ops.h"), includes, 1},
      {"lib/ops/cpu/norm.cpp", include("ops/ops.h"), includes, 0},
      {"lib/model/block.cpp", include("ops/cpu/cpu_ops.h"), includes, 1},
      {"lib/model/archs/qwen3.cpp", include("ops/ops.h") + include("model/block.h"), includes, 0},
      {"lib/model/archs/qwen3.cpp", include("ops/cpu/cpu_ops.h"), includes, 1},
      {"lib/model/archs/qwen3.cpp", include("checkpoint/checkpoint.h"), includes, 1},
      {"lib/model/archs/qwen3.cpp", include("prefill/runner.h"), includes, 1},
      {"lib/stats/observer.cpp", include("model/kv_tap.h") + include("model/model_spec.h"), includes, 0},
      {"lib/stats/observer.cpp", include("model/architecture.h"), includes, 1},
      {"lib/stats/file.cpp", include("checkpoint/safetensors.h"), includes, 0},
      {"lib/stats/file.cpp", include("checkpoint/checkpoint.h"), includes, 1},
      {"lib/solve/solver.cpp", include("model/block.h"), includes, 1},
      {"lib/validate/checks.cpp", include("model/architecture.h"), includes, 0},
      {"lib/artifact/artifact.cpp", include("export/sglang.h"), includes, 1},
      {"lib/export/sglang.cpp", include("solve/scale.h"), includes, 1},
      {"lib/prefill/runner.cpp", include("stats/observer.h"), includes, 1},
      {"lib/prefill/runner.cpp", include("device.h"), includes, 1},
      {"lib/strange/thing.cpp", include("base/error.h"), includes, 1},
      {"lib/base/json.cpp", include_system("base/error.h"), includes, 1},
      {"kernels/norm.cu", include("ops/ops.h"), includes, 0},
      {"kernels/norm.cu", include("model/block.h"), includes, 1},
      {"apps/mpi/library.cpp", include("base/rank_group.h"), includes, 0},
      {"apps/mpi/library.cpp", include("stats/merge.h"), includes, 1},
      {"apps/mpi/library.cpp", include_system("mpi.h"), includes, 0},
      {"apps/ranks.cpp", include_system("mpi.h"), includes, 1},
      {"apps/calibrate.cpp", include("prefill/runner.h") + include("verbs.h"), includes, 0},
      {"apps/calibrate.cpp", include("ops/cpu/cpu_ops.h"), includes, 1},
      {"apps/device.cpp", include("ops/cpu/cpu_ops.h"), includes, 0},
  };
  for (const Sample& s : samples) EXPECT_EQ(s.check({s.path, s.text}).size(), s.n_findings) << s.path << ": " << s.text;
}

TEST(Sample, Libraries) {
  const Sample samples[] = {
      {"lib/ops/cpu/norm.cpp", include_system("cuda_runtime.h"), includes, 1},
      {"apps/device.cpp", include_system("cuda.h"), includes, 1},
      {"lib/stats/a.cpp", include_system("cublasLt.h"), includes, 1},
      {"tests/unit/a_test.cpp", include_system("cub/cub.cuh"), includes, 1},
      {"kernels/norm.cu", include_system("cuda_runtime.h"), includes, 0},
      {"lib/base/error.cpp", include_system("CLI/CLI.hpp"), includes, 1},
      {"apps/main.cpp", include_system("CLI/CLI.hpp"), includes, 0},
      {"lib/solve/error_model.cpp", include_system("Eigen/Core"), includes, 0},
      {"lib/solve/error_model.h", include_system("Eigen/Core"), includes, 1},
      {"lib/stats/histogram.cpp", include_system("Eigen/Core"), includes, 1},
      {"lib/ops/cpu/gemm.cpp", include_system("oneapi/dnnl/dnnl.hpp"), includes, 0},
      {"lib/ops/cpu/gemm.h", include_system("dnnl.hpp"), includes, 1},
      {"lib/model/block.cpp", include_system("dnnl.hpp"), includes, 1},
      {"lib/tokenizer/bpe.cpp", include_system("nlohmann/json.hpp"), includes, 1},
  };
  for (const Sample& s : samples) EXPECT_EQ(s.check({s.path, s.text}).size(), s.n_findings) << s.path << ": " << s.text;
}

TEST(Sample, Code) {
  const Sample samples[] = {
      {"lib/model/archs/a.cpp", "if (op.is_cuda()) {}\n", architecture_names_no_device, 1},
      {"lib/model/archs/a.cpp", "return make_cpu_ops({});\n", architecture_names_no_device, 1},
      {"lib/model/archs/a.cpp", "CudaOps* ops;\n", architecture_names_no_device, 1},
      {"lib/model/archs/a.cpp", "// as on a GPU\nx;\n", architecture_names_no_device, 0},
      {"lib/model/rope.cpp", "CudaOps* ops;\n", architecture_names_no_device, 0},
      {"lib/base/a.cpp", "std::cout << 1;\n", library_is_silent, 1},
      {"lib/base/a.cpp", "  fprintf(stderr, \"x\");\n", library_is_silent, 1},
      {"lib/base/a.cpp", "std::printf(\"x\");\n", library_is_silent, 1},
      {"lib/base/a.cpp", "std::snprintf(b, n, \"x\");\n", library_is_silent, 0},
      {"lib/base/a.cpp", "exit(1);\nstd::abort();\n", library_is_silent, 2},
      {"lib/base/a.cpp", "auto* p = getenv(\"HOME\");\n", library_is_silent, 1},
      {"lib/base/a.cpp", "// never exit(1)\nf(\"abort()\"); /* std::cerr */\n", library_is_silent, 0},
      {"lib/base/a.cpp", "auto x = R\"(\" exit(1) )\"; int n = 1'000; exit(2);\n", library_is_silent, 1},
      {"apps/main.cpp", "std::cout << 1;\n", library_is_silent, 0},
      {"apps/diff.cpp", "std::cout << name;\n", one_way_to_print, 1},
      {"apps/diff.cpp", "  std::cerr << name << std::endl;\n", one_way_to_print, 1},
      {"apps/mpi/library.cpp", "std::fprintf(stderr, \"x\");\n", one_way_to_print, 1},
      {"apps/diff.cpp", "if (write(STDERR_FILENO, p, n) < 0) return;\nwrite(2, p, n);\n", one_way_to_print, 2},
      {"apps/diff.cpp", "write_line(name);\nsay(name);\nstd::snprintf(b, n, \"x\");\n", one_way_to_print, 0},
      {"apps/diff.cpp", "say_raw(name);\n", one_way_to_print, 1},
      {"apps/diff.cpp", "write_lines(Lines::of_text(name));\n", one_way_to_print, 1},
      {"apps/diff.cpp", "write_json_text(name);\n", one_way_to_print, 1},
      {"lib/validate/output.cpp", "return Lines::of_text(v.file);\n", one_way_to_print, 1},
      {"kernels/norm.cu", "printf(\"%f\", x);\n", one_way_to_print, 1},
      {"apps/terminal.cpp", "std::cout << text;\n", one_way_to_print, 0},
      {"apps/generate.cpp", "write_lines(Lines::of_text(answer));\n", one_way_to_print, 0},
      {"tests/cli/cli_test.cpp", "std::cerr << 1;\n", one_way_to_print, 0},
      {"lib/ops/ops.cpp", "#ifdef KVCAL_CUDA\n#endif\n", conditional_compilation, 1},
      {"apps/main.cpp", "#if defined(KVCAL_CUDA)\n#endif\n", conditional_compilation, 1},
      {"apps/device.cpp", "#ifdef KVCAL_CUDA\n#endif\n", conditional_compilation, 0},
      {"kernels/norm.cu", "#ifdef __CUDACC__\n#endif\n", conditional_compilation, 1},
      {"kernels/device/vec.cuh", "#ifdef __CUDACC__\n#endif\n", conditional_compilation, 0},
      {"apps/main.cpp", "std::system(\"ls\");\n", no_surprises, 1},
      {"apps/main.cpp", "FILE* f = popen(x, \"r\");\nexecvp(a, b);\nif (fork() == 0) {}\n", no_surprises, 3},
      {"apps/main.cpp", "posix_spawnp(&p, a, b, c, d, e);\n", no_surprises, 1},
      {"apps/ask_python.cpp", "posix_spawnp(&p, a, b, c, d, e);\n", no_surprises, 0},
      {"apps/main.cpp", "int s = ::socket(AF_INET, 0, 0);\nstd::locale::global(std::locale(\"\"));\n", no_surprises, 2},
      {"apps/prompts.cpp", "const char* home = std::getenv(\"HOME\");\n", no_surprises, 1},
      {"apps/source_date.cpp", "const char* t = std::getenv(\"SOURCE_DATE_EPOCH\");\n", no_surprises, 0},
      {"lib/ops/ops.cpp", "void* p = dlopen(\"x\", 0);\n", no_surprises, 1},
      {"apps/device.cpp", "void* p = dlopen(\"x\", 0);\n", no_surprises, 0},
      {"lib/base/a.cpp", "// a file system (or not)\nfile_system(x); connected(); f(\"fork()\");\n", no_surprises, 0},
      {"apps/table.cpp", "#include <ranges>\nfor (int c : std::views::reverse(x)) f(c);\n", no_views, 2},
      {"tests/a.cpp", "auto [a, b] = std::ranges::equal_range(x, y);\nstd::ranges::sort(x);\n", no_views, 1},
      {"lib/a/b.h", "// What it is.\n#pragma once\n", header_opening, 0},
      {"lib/a/b.h", "#pragma once\n", header_opening, 1},
      {"lib/a/b.h", "// What it is.\n#ifndef A\n", header_opening, 1},
      {"lib/a/b.h", "", header_opening, 2},
  };
  for (const Sample& s : samples) EXPECT_EQ(s.check({s.path, s.text}).size(), s.n_findings) << s.path << ": " << s.text;
}

TEST(Sample, Length) {
  const auto lines = [](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += "x\n";
    return text;
  };
  EXPECT_TRUE(length({"lib/a/b.cpp", lines(400)}).empty());
  EXPECT_EQ(length({"lib/a/b.cpp", lines(401)}).size(), 1U);
  EXPECT_EQ(length({"tests/a.py", lines(601)}).size(), 1U);
  EXPECT_TRUE(length({"datasets/a.jsonl", lines(601)}).empty());
}

TEST(Sample, MachinePaths) {
  // Put together here, so that this file keeps the rule.
  const std::string slash = "/";
  EXPECT_EQ(machine_paths({"a.md", "see " + slash + "home" + slash + "me/x\n"}).size(), 1U);
  EXPECT_EQ(machine_paths({"a.cmake", "set(X \"" + slash + "work" + slash + "main\")\n"}).size(), 1U);
  EXPECT_TRUE(machine_paths({"a.md", "https://example.org" + slash + "home" + slash + "x\n"}).empty());
  EXPECT_TRUE(machine_paths({"a.md", "tests" + slash + "work" + slash + "x\n"}).empty());
  EXPECT_TRUE(machine_paths({"p.jsonl", slash + "home" + slash + "me\n"}).empty());
}

TEST(Sample, EmulatorInDeviceTests) {
  const auto findings = [](const char* path) {
    return device_tests_name_no_emulator({path, include("emulator/emulator.h")}).size();
  };
  EXPECT_EQ(findings("tests/parity/moe_test.cpp"), 1U);
  EXPECT_EQ(findings("tests/parity/cuda/dequantize_test.cpp"), 1U);
  EXPECT_EQ(findings("tests/parity/emulated/backend.cpp"), 0U);
  EXPECT_EQ(findings("tests/arch/golden.cpp"), 1U);
  EXPECT_EQ(findings("tests/arch/cuda_backend.cpp"), 0U);
  EXPECT_EQ(findings("tests/bench/gpu/emulated_device.cpp"), 0U);
  EXPECT_EQ(device_tests_name_no_emulator({"tests/arch/golden.cpp", include("harness/emulated_ops.h")}).size(), 1U);
}

TEST(Sample, UnusedGolden) {
  std::vector<SourceFile> sample = {{"tests/arch/golden/README.md", ""},
                                    {"tests/arch/golden/rope.json", ""},
                                    {"tests/arch/golden/old.json", ""},
                                    {"tests/arch/golden/qwen3/golden.json", ""},
                                    {"tests/arch/golden/empty/config.json", ""},
                                    {"tests/arch/rope_test.cpp", "read(\"tests/arch/golden/rope.json\")"}};
  EXPECT_EQ(goldens_are_used(sample).size(), 3U);
  sample.push_back({"tests/arch/arch_test.cpp", "INSTANTIATE_TEST_SUITE_P(A, B, ValuesIn(golden_cases()));"});
  const Findings findings = goldens_are_used(sample);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_NE(findings[0].find("golden/empty:"), std::string::npos);
  EXPECT_NE(findings[1].find("golden/old.json:"), std::string::npos);
}

TEST(Sample, UndocumentedVerb) {
  const SourceFile verbs = {"apps/verbs.h",
                            "void add_prompts(CLI::App& app, Job& chosen);\nvoid add_solve(CLI::App& app);\n"};
  const SourceFile readme = {"README.md", "kvcal prompts\nkvcal solve\n"};
  const SourceFile manual = {"apps/kvcal.1", ".TP\n.B prompts\n.TP\n.B solve\n"};
  EXPECT_TRUE(verbs_are_documented({readme, manual, verbs}).empty());
  EXPECT_EQ(verbs_are_documented({{"README.md", "kvcal prompts, kvcal solver\n"}, manual, verbs}).size(), 1U);
  EXPECT_EQ(verbs_are_documented({readme, {"apps/kvcal.1", "\n.B prompts\n"}, verbs}).size(), 1U);
  EXPECT_EQ(verbs_are_documented({manual, verbs}).size(), 1U);
}

TEST(Sample, FileInTheTopLevel) {
  EXPECT_TRUE(top_level_is_known({{"README.md", ""}, {"compile_commands.json", ""}, {"tests/gone.jsonl", ""}}).empty());
  EXPECT_EQ(top_level_is_known({{"README.md", ""}, {"gone.jsonl", ""}}).size(), 1U);
}

TEST(Sample, VerbThatDoesNotExist) {
  const SourceFile table = {"apps/command_line.cpp", "kVerbs[] = {\n  add_inspect, add_solve,\n};\nadd_later();\n"};
  const auto findings = [&](const char* path, const char* text) {
    return named_verbs_exist({table, {path, text}}).size();
  };
  EXPECT_EQ(findings("README.md", "`kvcal solve x`, what kvcal reads, kvcal --help, kvcal.1\n"), 0U);
  EXPECT_EQ(findings("README.md", "kvcal evaluate, kvcal later and kvcal solve\n"), 2U);
  EXPECT_EQ(findings("lib/doctor/a.cpp", "f(\"kvcal evaluate {model}\");\n"), 1U);
  EXPECT_EQ(findings("tests/cli/frame/a.cmd", "kvcal frobnicate\n"), 0U);
  EXPECT_EQ(named_verbs_exist({{"README.md", "kvcal solve\n"}}).size(), 1U);
}

}  // namespace
}  // namespace kvcal::rules
