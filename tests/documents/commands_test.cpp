// Every command that README.md and docs/ show runs, and prints what they show.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "documents/options.h"
#include "documents/output_pattern.h"
#include "documents/steps.h"

namespace kvcal::documents {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = KVCAL_SOURCE_DIR;

// Options of other programs, and of Python scripts.
const std::set<std::string> kForeign = {
    "--additional-config",
    "--array",
    "--bind-to",
    "--build",
    "--calculate-kv-scales",
    "--chunked-prefill-size",
    "--classes",
    "--coverage",
    "--depth",
    "--detach-sign",
    "--disable-radix-cache",
    "--enable-int8-mamba-checkpoint",
    "--enable-mamba-cache-stochastic-rounding",
    "--enable-mixed-chunk",
    "--enable-prefix-caching",
    "--fmad",
    "--forget",
    "--from",
    "--image",
    "--install",
    "--kv-cache-dtype",
    "--kv-cache-dtype-skip-layers",
    "--latent",
    "--load-format",
    "--logprobs-mode",
    "--looks",
    "--mamba-backend",
    "--mamba-cache-dtype",
    "--mamba-cache-mode",
    "--mamba-full-memory-ratio",
    "--mamba-radix-cache-strategy",
    "--mamba-ssm-cache-dtype",
    "--mamba-ssm-dtype",
    "--max-num-batched-tokens",
    "--mem",
    "--model-path",
    "--no-enable-prefix-caching",
    "--nproc-per-node",
    "--ntasks",
    "--preset",
    "--quantization",
    "--quantization-param-path",
    "--replayssm-buffer-len",
    "--rm",
    "--text",
    "--time",
    "--update",
    "--use-replayssm",
    "--user",
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> documents() {
  std::vector<std::string> names = {"README.md"};
  for (const auto& entry : fs::directory_iterator(kSource / "docs"))
    if (entry.path().extension() == ".md") names.push_back("docs/" + entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

struct Outcome {
  int exit = 0;
  std::string out, err;
};

// A folder as the documents take it for granted: ./model, ./datasets and chats.jsonl, and kvcal in PATH.
class Reader {
 public:
  Reader() {
    std::string name = (fs::temp_directory_path() / "kvcal_documents_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder " + name);
    top_ = name;
    fs::create_directory(top_ / "here");
    fs::create_directory_symlink(kSource / "datasets", top_ / "here/datasets");
    fs::create_directory_symlink(kSource / "datasets/demo/stressed", top_ / "here/model");
    fs::copy_file(kSource / "datasets/demo/prompts.jsonl", top_ / "here/chats.jsonl");
  }
  ~Reader() {
    std::error_code ignored;
    fs::remove_all(top_, ignored);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Outcome type(const std::string& command) const {
    const fs::path program = KVCAL_PROGRAM;
    std::ofstream(top_ / "step.sh") << "PATH='" << program.parent_path().string() << "':$PATH SOURCE='"
                                    << kSource.string() << "' BUILD='" << KVCAL_BUILD_DIR
                                    << "' MODEL=./model PROMPTS=chats.jsonl\n"
                                    << "export PATH MODEL PROMPTS\n"
                                    << command << "\n";
    const int status =
        std::system(("cd '" + (top_ / "here").string() +
                     "' && LC_ALL=C.UTF-8 TERM=dumb timeout 240 sh ../step.sh >../out 2>../err </dev/null")
                        .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(top_ / "out"), read(top_ / "err")};
  }

 private:
  fs::path top_;
};

class Document : public testing::TestWithParam<std::string> {};

TEST_P(Document, ItsCommandsDoWhatItShows) {
  const Reader reader;
  for (const Step& step : steps_of(read(kSource / GetParam()))) {
    const std::string place = GetParam() + ":" + std::to_string(step.line) + ": " + step.command;
    const Outcome outcome = reader.type(step.command);
    EXPECT_EQ(outcome.exit, step.exit) << place << "\nwrote:\n" << outcome.out << outcome.err;
    EXPECT_TRUE(!step.output || shows(*step.output, outcome.out)) << place << "\nwrote:\n" << outcome.out;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Document, testing::ValuesIn(documents()), [](const auto& document) {
  std::string name = fs::path(document.param).stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(Documents, OptionsThatTheyNameExist) {
  const Reader reader;
  const std::string help = reader.type("kvcal --help").out;
  std::set<std::string> known = options_in(help);
  known.insert(kForeign.begin(), kForeign.end());
  const std::set<std::string> verbs = verbs_in(help);
  EXPECT_GT(verbs.size(), 10U);
  for (const std::string& verb : verbs) known.merge(options_in(reader.type("kvcal " + verb + " --help-all").out));
  for (const std::string& document : documents())
    for (const std::string& option : options_in_code(read(kSource / document)))
      EXPECT_TRUE(known.contains(option)) << document << " names " << option << ", which no verb has";
}

TEST(Documents, HaveCommands) {
  for (const char* document :
       {"README.md", "docs/calibrating.md", "docs/ci.md", "docs/doctor.md", "docs/folding.md", "docs/servers.md"})
    EXPECT_GE(steps_of(read(kSource / document)).size(), 1U) << document;
}

// ------------------------------------------------------------------ samples

TEST(Sample, Steps) {
  const std::vector<Step> steps = steps_of(
      "Text\n<!-- run: mkdir x -->\n```sh\nkvcal a \\\n  --b\nvllm serve \\\n  kvcal c\n```\n<!-- exits 1 -->\n"
      "```console\n$ kvcal d\nout\n$ make x\nbuilt\n$ kvcal e\n```\n```yaml\n      - run: kvcal f\n```\n");
  ASSERT_EQ(steps.size(), 5U);
  EXPECT_EQ(steps[0].command, "mkdir x");
  EXPECT_EQ(steps[1].command, "kvcal a \\\n  --b");
  EXPECT_EQ(steps[1].line, 4);
  EXPECT_FALSE(steps[1].output);
  EXPECT_EQ(steps[2].output, "out\n");
  EXPECT_EQ(steps[2].exit, 1);
  EXPECT_EQ(steps[3].output, "");
  EXPECT_EQ(steps[4].command, "kvcal f");
  EXPECT_EQ(steps[4].exit, 0);
}

TEST(Sample, CommandsThatWouldNeverRun) {
  EXPECT_THROW(steps_of("```sh\nkvcal a\n"), std::runtime_error);
  EXPECT_THROW(steps_of("    kvcal a\n"), std::runtime_error);
  EXPECT_THROW(steps_of("    $ kvcal a\n"), std::runtime_error);
}

TEST(Sample, Output) {
  EXPECT_TRUE(shows("a  1.00\n", "a 1.05\n"));
  EXPECT_FALSE(shows("a  1.00\n", "a 1.3\n"));
  EXPECT_TRUE(shows("4e-05 (98.4 to\n  99.0)\n", "2.1e-05 (98.3\n  to 99.1)\n"));
  EXPECT_FALSE(shows("4e-05\n", "1e-05\n"));
  EXPECT_FALSE(shows("a\n b\n", "a b\n"));
  EXPECT_TRUE(shows("1,000 tokens, 3\n", "1,001 tokens, 3\n"));
  EXPECT_FALSE(shows("needed\n", "any\n"));
  EXPECT_FALSE(shows("0\n", "5\n"));
  EXPECT_TRUE(shows("plan ...\n", "plan c8d8\n"));
  EXPECT_FALSE(shows("plan ...\n", "plan\n"));
  EXPECT_TRUE(shows("...\nz\n", "a\nb\nz\n"));
  EXPECT_FALSE(shows("...\nz\n", "a\nz\nb\n"));
  EXPECT_FALSE(shows("a b\n", "a b c\n"));
}

TEST(Sample, Options) {
  EXPECT_EQ(options_in_code("`kvcal --a` --b and `--c-d`\n```sh\nx --e\n```\n"),
            (std::set<std::string>{"--a", "--c-d", "--e"}));
  EXPECT_EQ(verbs_in("Verbs:\n  solve   x\n  plan  y\n\nExamples:\n  kvcal z\n"),
            (std::set<std::string>{"plan", "solve"}));
}

}  // namespace
}  // namespace kvcal::documents
