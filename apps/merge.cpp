// kvcal merge STATS...: statistics of shards or machines, as if run in one piece.
#include <CLI/CLI.hpp>
#include <limits>

#include "base/atomic_file.h"
#include "base/counted.h"
#include "base/number_text.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "progress.h"
#include "stats/head_union.h"
#include "stats/run_union.h"
#include "stats/statistics_file.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct MergeFlags {
  std::vector<std::string> files;
  std::string out;
  bool force = false, json = false, quiet = false;
};

void print(const MergeFlags& flags, const Statistics& merged, size_t n_sets) {
  const std::string sha256 = sha256_hex(read_file(flags.out, std::numeric_limits<size_t>::max()));
  const int64_t n_tokens = merged.run.calibration->n_tokens;
  const bool packed_apart = n_sets > 1 && merged.run.n_passes > 1;
  if (flags.json)
    write_json(Json{{"statistics", flags.out},
                    {"statistics_sha256", sha256},
                    {"n_files", flags.files.size()},
                    {"n_sets", n_sets},
                    {"n_prompts", merged.run.prompt_ids.size()},
                    {"n_tokens", n_tokens},
                    {"exact_passes", packed_apart ? 1 : merged.run.n_passes},
                    {"n_passes", merged.run.n_passes}});
  if (flags.quiet) return;
  if (packed_apart)
    say("kvcal: ", n_sets, " sets of prompts: pass 1 equals that of one run over all prompts; later ",
        "passes packed each set separately");
  say("kvcal: ", counted(static_cast<int64_t>(flags.files.size()), "file"), ", ",
      counted(static_cast<int64_t>(merged.run.prompt_ids.size()), "prompt"), ", ", counted(n_tokens, "token"), "; ",
      flags.out, " sha256 ", sha256.substr(0, 16));
}

/// Ranks of one recording: every file has some of the heads.
Exit join(const MergeFlags& flags, Statistics first, Existing existing) {
  std::vector<Statistics> ranks;
  ranks.push_back(std::move(first));
  for (size_t i = 1; i < flags.files.size(); ++i) ranks.push_back(read_statistics(flags.files[i]));
  const Statistics whole = while_doing("merging", [&] { return united_heads(ranks, flags.files); });
  write_statistics(flags.out, whole, existing);
  print(flags, whole, 1);
  return Exit::Done;
}

/// What one file did not count the sum cannot have.
void tell_lost_states(const Statistics& merged, const std::vector<std::string>& without, size_t n_files) {
  if (!merged.states.empty() || without.empty() || without.size() == n_files) return;
  say("kvcal: note: the sum has no recurrent states: ", quoted(without.front()), " did not count them");
}

Exit run(const MergeFlags& flags) {
  const Existing existing = flags.force ? Existing::Replace : Existing::Refuse;
  check_writable(flags.out, existing);
  Statistics first = read_statistics(flags.files.front());
  if (first.run.heads) return join(flags, std::move(first), existing);
  RunUnion all;
  std::vector<std::string> without_states;
  for (size_t i = 0; i < flags.files.size(); ++i) {
    Statistics file = i == 0 ? std::move(first) : read_statistics(flags.files[i]);
    if (file.states.empty()) without_states.push_back(flags.files[i]);
    all.add(flags.files[i], std::move(file));
  }
  const Statistics merged = while_doing("merging", [&] { return all.finish(); });
  write_statistics(flags.out, merged, existing);
  tell_lost_states(merged, without_states, flags.files.size());
  print(flags, merged, all.n_sets());
  return Exit::Done;
}

}  // namespace

void add_merge(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<MergeFlags>();
  CLI::App* verb = app.add_subcommand("merge", "Merge statistics files of several shards or runs");
  verb->add_option("STATS", flags->files, "Statistics files (calibrate --stats): all shards of a run, or several runs")
      ->required();
  verb->add_option("-o,--out", flags->out, "Statistics file to write")->required()->type_name("FILE");
  verb->add_flag("--force", flags->force, "Overwrite an existing file");
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->add_flag("-q,--quiet", flags->quiet, "Print no closing line");
  verb->footer(
      "Merging all shards of a run gives the same bytes as that run. Merging runs over different prompts gives the\n"
      "pass-1 statistics of one run over all of them; later passes pack the prompts of each run separately, and the\n"
      "file says so. Runs with different models, tokenizers, precisions, processors or versions are refused.\n"
      "Files of tensor-parallel ranks, which server plug-ins record, become one with the heads of all.\n"
      "\n"
      "Examples:\n"
      "  kvcal calibrate ./model -p chats.jsonl --shard 1/2 --stats 1.kvstats\n"
      "  kvcal calibrate ./model -p chats.jsonl --shard 2/2 --stats 2.kvstats\n"
      "  kvcal merge 1.kvstats 2.kvstats -o run.kvstats && kvcal solve run.kvstats");
  verb->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace kvcal
