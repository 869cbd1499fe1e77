#include "ranks.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "base/available_memory.h"
#include "base/error.h"
#include "build_info.h"
#include "shard_flag.h"
#include "signals.h"
#include "stats/further_members.h"
#include "stats/merge.h"
#include "stats/packed_tables.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr char kMpiLibrary[] = "libkvcal_mpi.so";

/// Beside the program, or where an installation has it; empty where neither is.
fs::path find_mpi_library() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& file : {folder / kMpiLibrary, folder / build_info().libraries_from_bin / kMpiLibrary})
    if (fs::exists(file, error)) return file.lexically_normal();
  return {};
}

const RankLibrary& open_mpi_library() {
  const fs::path file = find_mpi_library();
  if (file.empty())
    fail("--mpi: this program was built without MPI: found no " + std::string(kMpiLibrary) +
         " beside it; configure it with -DKVCAL_MPI=ON where an MPI is installed, or use --shard auto and merge");
  return while_doing("opening " + quoted(file.string()), [&]() -> const RankLibrary& {
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);  // MPI's own plug-ins look for its symbols
    if (!library) fail(dlerror());
    void* const symbol = dlsym(library, "kvcal_mpi_ranks");
    if (!symbol) fail(dlerror());
    const RankLibrary& ranks = *reinterpret_cast<decltype(&kvcal_mpi_ranks)>(symbol)();
    if (std::string_view(ranks.interface) != kRankInterface)
      fail("it is from another build: its interface is " + quoted(std::string(ranks.interface)) +
           ", that of this program is " + quoted(std::string(kRankInterface)));
    return ranks;
  });
}

/// A prompt for the other ranks, which may not see its file.
Json record_json(const PromptRecord& record) {
  Json json = {{"id", record.id}, {"weight", record.weight}};
  if (!record.tags.empty()) json["tags"] = record.tags;
  if (record.kind == PromptKind::Text) json["text"] = record.text;
  if (record.kind == PromptKind::Ids) json["input_ids"] = record.input_ids;
  if (record.kind == PromptKind::Chat) json["messages"] = record.messages;
  if (!record.tools.is_null()) json["tools"] = record.tools;
  if (!record.embeddings.empty()) json["embeddings"] = fs::absolute(record.embeddings).string();
  return json;
}

// ---------------------------------------------------------------- parts

fs::path folder_of_part(const fs::path& resume, int64_t part, int64_t n_parts) {
  if (resume.empty()) return {};
  return shard_file(resume, std::to_string(part + 1) + "/" + std::to_string(n_parts));
}

/// "run.3-of-8.kvcal-resume" beside run.kvcal-resume: 8; 0 for another name.
int64_t parts_in(const std::string& name, const fs::path& resume) {
  const std::string before = resume.stem().string() + ".", after = resume.extension().string();
  if (!name.starts_with(before) || !name.ends_with(after)) return 0;
  const size_t of = name.rfind("-of-", name.size() - after.size());
  if (of == std::string::npos) return 0;
  int64_t n = 0;
  std::from_chars(name.data() + of + 4, name.data() + name.size() - after.size(), n);
  return n;
}

/// Of the job whose folders are there, or 0.
int64_t earlier_parts(const fs::path& resume) {
  std::set<int64_t> found;
  std::error_code ignored;
  const fs::path folder = resume.has_parent_path() ? resume.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (const int64_t n = parts_in(entry.path().filename().string(), resume); n > 0) found.insert(n);
  if (found.size() > 1)
    fail("there are states of two jobs in " + quoted(folder.string()) + ", of " + std::to_string(*found.begin()) +
         " and of " + std::to_string(*found.rbegin()) + " parts; remove those of one");
  return found.empty() ? 0 : *found.begin();
}

int64_t shared_parts(RankGroup& ranks, const fs::path& resume) {
  const int64_t earlier = ranks.rank() == 0 && !resume.empty() ? earlier_parts(resume) : 0;
  return std::stoll(ranks.broadcast(std::to_string(earlier > 0 ? earlier : ranks.size())));
}

// ---------------------------------------------------------------- statistics, to rank 0

void send_statistics(RankGroup& ranks, int to, const Statistics& statistics) {
  ranks.send(to, json_or_null(statistics.run.sanity).dump());
  ranks.send(to, packed_tables(statistics));
}

Statistics merged_with(RankGroup& ranks, int from, const Statistics& mine) {
  const std::string sanity = ranks.receive(from);
  const Statistics theirs = unpacked_tables(ranks.receive(from), mine);
  if (sanity != json_or_null(mine.run.sanity).dump())
    fail("rank " + std::to_string(from) + " found other losses than this rank for the same prompts and model: " +
         sanity + ", here " + json_or_null(mine.run.sanity).dump());
  return merge(mine, theirs);
}

/// A tree: each rank adds those of one at twice the distance every time. Ranks [0, n) have statistics.
void reduce(RankGroup& ranks, int n, Statistics& statistics) {
  for (int distance = 1; distance < n; distance *= 2) {
    const int rank = ranks.rank();
    if (rank % (2 * distance) != 0) return send_statistics(ranks, rank - distance, statistics);
    if (rank + distance < n) statistics = merged_with(ranks, rank + distance, statistics);
  }
}

}  // namespace

std::unique_ptr<RankGroup> join_ranks() {
  std::unique_ptr<RankGroup> ranks = open_mpi_library().join();
  handle_signals();  // MPI has put its own in their place
  return ranks;
}

std::string name_of(const RankGroup& ranks) {
  return "rank " + std::to_string(ranks.rank()) + " on " + quoted(ranks.host());
}

RankedCalibration::RankedCalibration(RankGroup& ranks, CalibrationInputs inputs, CalibrationOptions options,
                                     CalibrationListener& listener)
    : ranks_(ranks),
      inputs_(std::move(inputs)),
      options_(std::move(options)),
      resume_(std::exchange(options_.resume, {})),
      listener_(ranks.rank() == 0 ? &listener : nullptr, [this](const CalibrationPlan& p) { check_identity(p); }) {
  options_.extent = Extent::Statistics;
  if (options_.memory == 0) options_.memory = available_memory() / static_cast<uint64_t>(ranks.ranks_on_host());
}

void RankedCalibration::Listener::hear(Notice notice, const std::string& text) {
  if (to_) to_->hear(notice, text);
}

void RankedCalibration::Listener::planned(const CalibrationPlan& plan, const ModelSpec& spec) {
  look_(plan);
  if (to_) to_->planned(plan, spec);
}

void RankedCalibration::Listener::sweep_begins(const SweepOutline& outline) {
  if (to_) to_->sweep_begins(outline);
}

void RankedCalibration::Listener::step(const RunStep& step, int64_t work_done) {
  if (to_) to_->step(step, work_done);
}

void RankedCalibration::Listener::sweep_ends() {
  if (to_) to_->sweep_ends();
}

Json RankedCalibration::identity(const CalibrationPlan& plan) const {
  const ModelInfo model = describe(OpenedModel(inputs_.model, options_.solve.max_model_len, options_.mtp));
  return {{"program", options_.tool_version + " (" + options_.commit + ")"},
          {"config_sha256", model.config_sha256},
          {"weights_fingerprint", model.weights_fingerprint},
          {"tokenizer_sha256", plan.sources.tokenizer_sha256},
          {"prompts_sha256", plan.sources.prompts_sha256},
          {"activation_quant", plan.sources.activation_quant},
          {"plan_sha256", plan.sequences.sha256},
          {"class of processor", plan.devices.isa()}};
}

void RankedCalibration::check_identity(const CalibrationPlan& plan) const {
  const Json mine = identity(plan);
  for (const auto& [name, theirs] : identity_.items())
    if (mine.at(name) != theirs)
      fail("its " + name + " is " + quoted(mine.at(name).get<std::string>()) + ", that of rank 0 is " +
           quoted(theirs.get<std::string>()));
}

void RankedCalibration::share_prompts() {
  std::string lines;
  if (ranks_.rank() == 0) {
    prompts_ = inputs_.prompts(ChatTemplate::load(inputs_.model).has_value());
    for (const PromptRecord& record : prompts_.records) lines += record_json(record).dump() + "\n";
  }
  lines = ranks_.broadcast(std::move(lines));
  if (ranks_.rank() > 0) prompts_ = parse_prompts(lines, "rank 0's prompts");
  inputs_.prompts = [this](bool) { return prompts_; };
}

/// Rank 0 plans before the others: what is wrong for all of them is said once.
void RankedCalibration::share_identity() {
  std::string text;
  if (ranks_.rank() == 0) {
    CalibrationOptions options = options_;
    options.extent = Extent::Plan;
    Listener listener(nullptr, [&](const CalibrationPlan& plan) { text = identity(plan).dump(); });
    calibrate(inputs_, options, listener);
  }
  identity_ = parse_json(ranks_.broadcast(std::move(text)));
}

CalibrationResult RankedCalibration::run_part(int64_t part) {
  options_.sequences.shard = part;
  options_.resume = folder_of_part(resume_, part, options_.sequences.n_shards);
  CalibrationResult result = calibrate(inputs_, options_, listener_);
  if (result.resume) states_.push_back(std::move(result.resume));
  return result;
}

CalibrationResult RankedCalibration::run() {
  share_prompts();
  const int64_t n_parts = options_.sequences.n_shards = shared_parts(ranks_, resume_);
  share_identity();
  if (ranks_.rank() >= n_parts) return {};  // an earlier job had fewer ranks
  CalibrationResult mine = run_part(ranks_.rank());
  for (int64_t part = ranks_.rank() + ranks_.size(); part < n_parts; part += ranks_.size())
    mine.statistics = merge(mine.statistics, run_part(part).statistics);
  reduce(ranks_, static_cast<int>(std::min<int64_t>(ranks_.size(), n_parts)), mine.statistics);
  mine.statistics.run.shard.reset();
  mine.n_tokens = mine.n_tokens_run = mine.statistics.run.calibration->n_tokens;
  return mine;
}

void RankedCalibration::remove_states() {
  for (const auto& folder : states_) folder->remove();
}

}  // namespace kvcal
