// A checkpoint folder under test, and the groups of checks of its KV scales, for validate and doctor.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "artifact/artifact.h"
#include "check/finding.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/fold_mark.h"
#include "servers/served_scales.h"
#include "servers/stored_scales.h"
#include "stats/run_record.h"

namespace kvcal {

/// ModelSlim's file about the tensors of a folder, as far as it is a list of words; empty where there is none.
struct ModelSlimDescription {
  std::unordered_map<std::string, std::string> words;
  std::string fault;  // why it cannot be read

  std::string said_of(const std::string& key) const;  // "none" where it says nothing
};
ModelSlimDescription read_modelslim(const std::filesystem::path& folder);

/// Its facts, read once.
struct FolderUnderTest {
  const Checkpoint& checkpoint;
  const ModelSpec& spec;
  StoredScales stored;
  std::vector<ServedScales> served;  // by server that was named
  std::optional<FoldMark> fold{};    // where its weights are folded
  std::string bare_mtp{};            // StoredSpec::bare_mtp
  ModelSlimDescription modelslim{};

  std::string path_of(const std::string& file) const { return (checkpoint.folder() / file).string(); }
};

/// What was measured, for a comparison: of the artifact, and the statistics where those were given.
struct Reference {
  Artifact artifact;
  std::optional<Statistics> statistics;
};

/// kvcal-fold.json, if there is one, against the tensors that it names. None where it cannot be read, too.
std::optional<FoldMark> check_fold(const Checkpoint& checkpoint, Report& report);

/// Each scale by itself and among the others: finite, positive, of a shape and dtype that servers read; plausible, and
/// not 1.0 throughout, unless it is known that they were measured.
void check_stored_numbers(const FolderUnderTest& f, bool measured, Report& report);

/// The set of layers: each cache has one key and one value, nothing else has any. `needs_none`: it is known that 1.0,
/// as a server has it without scales, is what was measured, or check_against() says of each layer what it does.
void check_stored_layers(const FolderUnderTest& f, bool needs_none, Report& report);

/// What a config.json says about the KV cache; `folder` is where it is.
void check_scheme(const KvDeclaration& declaration, const std::filesystem::path& folder, Report& report);

/// config.json and the index.
void check_declaration(const FolderUnderTest& f, Report& report);

/// The largest element of a key bias, by cache; none where a norm behind it takes its size away.
struct KeyBias {
  std::string tensor;
  double largest = 0;
};
std::vector<KeyBias> key_biases(const FolderUnderTest& f);

/// ModelSlim's file about the folder's tensors, as vLLM-Ascend goes by it: rule C23.
void check_modelslim(const FolderUnderTest& f, Report& report);

/// Whether there are tensors of scales here that vLLM-Ascend alone reads.
bool has_modelslim_scales(const FolderUnderTest& f);

/// Such scales against those of a scale file per channel.
void check_modelslim_against(const FolderUnderTest& f, const Artifact& artifact, Report& report);

/// Keys whose bias alone is too large for FP8; reads those tensors.
void check_key_bias(const FolderUnderTest& f, Report& report);

/// Whether servers can share the heads out to ranks, or copy each to several.
bool can_deal(int64_t n_heads, int64_t n_ranks);

/// Rule C10: whether heads differ in width or number; the first such cache, or null.
const KvLayout* first_other_layout(const ModelSpec& spec);

/// Scales per head against the ranks that will share the heads.
void check_ranks(const FolderUnderTest& f, int64_t n_ranks, Report& report);

/// What a server holds of it, also where the tensors are for vLLM-Ascend.
ServedScales served_by(const FolderUnderTest& f, const Server& server);

/// What each server makes of it.
void check_servers(const FolderUnderTest& f, Report& report);

/// Whether check_against() says what 1.0 does to a folder without scales: it declares FP8 caches, and there are
/// statistics.
bool is_judged_at_one(const FolderUnderTest& f, const Reference& reference);

/// Against what was measured.
void check_against(const FolderUnderTest& f, const Reference& reference, Report& report);

}  // namespace kvcal
