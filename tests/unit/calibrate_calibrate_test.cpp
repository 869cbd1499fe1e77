// lib/calibrate as a library: no command line, no terminal, a listener that keeps what it hears.
#include "calibrate/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "base/atomic_file.h"
#include "base/input_files.h"
#include "base/read_file.h"
#include "harness/message_of.h"
#include "ops/cpu/cpu_ops.h"
#include "stats/statistics_file.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

struct Cancelled {};

class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "kvcal-calibrate-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no scratch folder");
    path_ = name;
  }
  ~Scratch() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  fs::path path_;
};

/// Keeps events by name; cancels at the one named, or in the first batch of a layer ("layer 3").
class Recorder final : public CalibrationListener {
 public:
  explicit Recorder(std::string cancel_at = "") : cancel_at_(std::move(cancel_at)) {}

  void hear(Notice notice, const std::string& text) override {
    notices.emplace_back(notice, text);
    happens("notice");
  }
  void planned(const CalibrationPlan& plan, const ModelSpec& spec) override {
    n_planned = plan.sequences.n_tokens();
    EXPECT_EQ(spec.layers.size(), 8u);
    happens("planned");
  }
  void sweep_begins(const SweepOutline& outline) override {
    outlines.push_back(outline);
    work_done_ = outline.work_done;
    happens("sweep begins");
  }
  void step(const RunStep& step, int64_t work_done) override {
    EXPECT_GT(work_done, work_done_);
    work_done_ = work_done;
    happens("layer " + std::to_string(step.layer));
  }
  void sweep_ends() override { happens("sweep ends"); }
  void measured(const Statistics& statistics) override {
    n_caches = statistics.caches.size();
    happens("measured");
  }

  bool heard(Notice notice, const std::string& part) const {
    return std::any_of(notices.begin(), notices.end(),
                       [&](const auto& n) { return n.first == notice && n.second.find(part) != std::string::npos; });
  }

  std::vector<std::string> events;  // without notices and repeats
  std::vector<std::pair<Notice, std::string>> notices;
  std::vector<SweepOutline> outlines;
  int64_t n_planned = 0;
  size_t n_caches = 0;

 private:
  void happens(const std::string& event) {
    if (event == cancel_at_) throw Cancelled();
    if (event != "notice" && (events.empty() || events.back() != event)) events.push_back(event);
  }

  const std::string cancel_at_;
  int64_t work_done_ = 0;
};

constexpr const char* kPrompts =
    R"({"id": "a", "messages": [{"role": "user", "content": "What is 7 * 8 + 3?"}]}
{"id": "b", "messages": [{"role": "user", "content": "What is 2 + 3?"}]}
{"id": "c", "text": "red blue green red blue green"}
)";

CalibrationInputs inputs(const std::string& prompts = kPrompts) {
  return {.model = fs::path(KVCAL_SOURCE_DIR) / "datasets/demo/natural",
          .prompts =
              [prompts](bool has_template) {
                EXPECT_TRUE(has_template);
                return parse_prompts(prompts, "test");
              },
          .open_devices = [] { return make_cpu_ops({.precision = Precision::BF16, .threads = 2}); }};
}

std::string bytes_of(const Statistics& statistics) {
  const Scratch scratch;
  write_statistics(scratch.path() / "s", statistics, Existing::Refuse);
  return read_file(scratch.path() / "s", size_t{64} << 20);
}

TEST(Calibrate, TellsItsStagesInOrder) {
  Recorder listener;
  const CalibrationResult result = calibrate(inputs(), {}, listener);
  std::vector<std::string> expected = {"planned", "sweep begins"};
  for (int layer = 0; layer < 8; ++layer) expected.push_back("layer " + std::to_string(layer));
  expected.insert(expected.end(), {"sweep ends", "measured"});
  // The head, which only the sanity sequences reach, is a step behind the last layer.
  std::erase(listener.events, "layer 8");
  EXPECT_EQ(listener.events, expected);
  EXPECT_EQ(listener.n_planned, result.n_tokens);
  EXPECT_EQ(listener.n_caches, result.statistics.caches.size());
  ASSERT_EQ(listener.outlines.size(), 1u);
  std::vector<std::string> groups;
  for (const SweepGroup& g : listener.outlines[0].groups) groups.push_back(g.name);
  EXPECT_EQ(groups, (std::vector<std::string>{"warm-up", "pass 1", "pass 2", "sanity"}));
  EXPECT_EQ(listener.outlines[0].groups[1].n_sequences, 3);
  EXPECT_EQ(result.statistics.run.prompt_ids, (std::vector<std::string>{"a", "b", "c"}));
}

/// Does something in the first batch of a layer.
class Meddler final : public CalibrationListener {
 public:
  Meddler(int layer, std::function<void()> act) : layer_(layer), act_(std::move(act)) {}
  void hear(Notice, const std::string&) override {}
  void step(const RunStep& step, int64_t) override {
    if (step.layer == layer_) std::exchange(act_, [] {})();
  }
  void measured(const Statistics&) override { is_measured = true; }
  bool is_measured = false;

 private:
  int layer_;
  std::function<void()> act_;
};

TEST(Calibrate, OfAModelThatChangesThereIsNoResult) {
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json"}) {
    const Scratch scratch;
    CalibrationInputs from = inputs();
    fs::copy(from.model, scratch.path() / "m");
    from.model = scratch.path() / "m";
    const fs::path file = from.model / name;
    const InputFiles record;
    Meddler overwrites(3, [&] { std::fstream(file, std::ios::in | std::ios::out).put('{').flush(); });
    EXPECT_THROW(calibrate(from, {}, overwrites), Error) << name;
    EXPECT_FALSE(overwrites.is_measured);
  }
}

TEST(Calibrate, OfAModelThatIsReplacedThereIsNoResult) {
  const Scratch scratch;
  CalibrationInputs from = inputs();
  fs::copy(from.model, scratch.path() / "m");
  from.model = scratch.path() / "m";
  const InputFiles record;
  Meddler replaces(3, [&] {
    fs::copy(from.model / "model.safetensors", scratch.path() / "new");
    fs::rename(scratch.path() / "new", from.model / "model.safetensors");
  });
  try {
    calibrate(from, {}, replaces);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("model.safetensors' was replaced by another file"), std::string::npos)
        << e.what();
  }
}

TEST(Calibrate, OfAPlanRunsNothing) {
  Recorder listener;
  CalibrationOptions options;
  options.extent = Extent::Plan;
  const CalibrationResult result = calibrate(inputs(), options, listener);
  EXPECT_EQ(listener.events, (std::vector<std::string>{"planned"}));
  EXPECT_EQ(result.sequences.n_tokens(), listener.n_planned);
  EXPECT_GT(result.memory.total(), 0u);
  EXPECT_TRUE(result.statistics.caches.empty());
  EXPECT_FALSE(result.artifact);
}

TEST(Calibrate, SolvesUnlessOnlyStatisticsAreWanted) {
  Recorder listener, other;
  CalibrationOptions options;
  const CalibrationResult solved = calibrate(inputs(), options, listener);
  ASSERT_TRUE(solved.artifact);
  EXPECT_EQ(solved.artifact->layers.size(), solved.statistics.caches.size());
  options.extent = Extent::Statistics;
  const CalibrationResult measured = calibrate(inputs(), options, other);
  EXPECT_FALSE(measured.artifact);
  EXPECT_TRUE(bytes_of(measured.statistics) == bytes_of(solved.statistics));
}

TEST(Calibrate, WarnsInsteadOfPrinting) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  Recorder listener;
  CalibrationOptions options;
  options.prompts.max_length = 4;
  options.until_stable = 10;
  calibrate(inputs(R"({"id": "a", "text": "red blue green red blue green"})"), options, listener);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_TRUE(listener.heard(Notice::Warning, "the prompts are raw text"));
  EXPECT_TRUE(listener.heard(Notice::Warning, "1 prompt truncated to 4 tokens"));
  EXPECT_TRUE(listener.heard(Notice::Warning, "not stable: all 1 prompts are used"));
}

TEST(Calibrate, AListenerThatThrowsCancelsAndLeavesNothing) {
  const Scratch scratch;
  for (const char* event : {"planned", "sweep begins", "layer 0", "layer 5", "sweep ends", "measured"}) {
    const fs::path before = fs::current_path();
    fs::current_path(scratch.path());
    Recorder listener(event);
    EXPECT_THROW(calibrate(inputs(), {}, listener), Cancelled) << event;
    fs::current_path(before);
    EXPECT_EQ(scratch.files(), std::vector<std::string>()) << event;
  }
  Recorder listener("notice");
  EXPECT_THROW(calibrate(inputs(R"({"id": "a", "text": "red"})"), {}, listener), Cancelled);
}

TEST(Calibrate, ACancelledRunThatKeptItsStateGivesTheSameStatistics) {
  const Scratch scratch;
  Recorder whole;
  const std::string expected = bytes_of(calibrate(inputs(), {}, whole).statistics);
  CalibrationOptions options;
  options.resume = scratch.path() / "state";
  Recorder cancelling("layer 5");
  EXPECT_THROW(calibrate(inputs(), options, cancelling), Cancelled);
  EXPECT_EQ(scratch.files(), (std::vector<std::string>{"a.kvresume", "b.kvresume", "state"})) << "no temporary file";
  Recorder resuming;
  const CalibrationResult result = calibrate(inputs(), options, resuming);
  EXPECT_TRUE(resuming.heard(Notice::Note, "resuming after layer 5 of 8"));
  EXPECT_EQ(resuming.events[2], "layer 5");
  EXPECT_TRUE(bytes_of(result.statistics) == expected);
  result.resume->remove();
  EXPECT_EQ(scratch.files(), std::vector<std::string>());
}

// It says how the same tensors are read.
TEST(Calibrate, ACancelledRunDoesNotGoOnWithAnotherQuantizationFile) {
  const Scratch scratch;
  CalibrationInputs copy = inputs();
  fs::copy(copy.model, scratch.path() / "model");
  copy.model = scratch.path() / "model";
  CalibrationOptions options;
  options.resume = scratch.path() / "state";
  Recorder cancelling("layer 5"), resuming;
  EXPECT_THROW(calibrate(copy, options, cancelling), Cancelled);
  std::ofstream(copy.model / "quantize_config.json") << R"({"bits": 4, "group_size": 16, "quant_method": "gptq"})";
  EXPECT_NE(message_of([&] { calibrate(copy, options, resuming); }).find("belongs to another run: quantization is"),
            std::string::npos);
}

}  // namespace
}  // namespace kvcal
