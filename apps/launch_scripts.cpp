#include "launch_scripts.h"

#include <cassert>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/number_text.h"
#include "base/size_text.h"
#include "export/serve.h"
#include "progress.h"

namespace kvcal {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

constexpr char kHeader[] =
    R"(# Calibrates @MODEL@ in @PARTS@ part(s): @PROMPTS@ prompts, @SEQUENCES@ sequences, @TOKENS@ tokens.
# A part holds @HOLDS@ and takes an estimated @READING@ to read @WEIGHTS@ and @PRODUCTS@
# of products on @THREADS@ thread(s). The time limit is three times that.
)";

constexpr char kSlurm[] = R"(#!/bin/bash
@HEADER@# Submit it: bash THIS-FILE; again for some parts only: bash THIS-FILE 3,5-7
# What sbatch needs here can be in the environment: SBATCH_PARTITION, SBATCH_ACCOUNT.
set -euo pipefail
array=$(sbatch --parsable --job-name=kvcal --array="${1:-1-@PARTS@}" --requeue --output=kvcal-%A_%a.log \
  --ntasks=1 --cpus-per-task=@THREADS@ --mem=@GIB@G --time=@LIMIT@ <<'END'
#!/bin/bash
exec @CALIBRATE@ --shard auto/@PARTS@ --force
END
)
merge=$(sbatch --parsable --job-name=kvcal-merge --output=kvcal-%j-merge.log \
  --dependency="afterok:${array%%;*}" --kill-on-invalid-dep=yes \
  --ntasks=1 --mem=@GIB@G --time=@LIMIT@ <<'END'
#!/bin/bash
set -euo pipefail
@MERGE@
@SOLVE@
END
)
echo "array ${array%%;*}, merge ${merge%%;*}"
)";

constexpr char kMpi[] = R"(#!/bin/bash
@HEADER@# Submit it: sbatch THIS-FILE; with --ntasks=N for another number of ranks, which may go on with an ended job.
#SBATCH --job-name=kvcal --output=kvcal-%j.log
#SBATCH --ntasks=@PARTS@ --cpus-per-task=@THREADS@ --mem-per-cpu=@MIB_PER_THREAD@M --time=@LIMIT@
set -euo pipefail
mpirun --bind-to none @CALIBRATE@ --mpi -o @SCALES@
)";

constexpr char kKubernetes[] = R"(@HEADER@# Paths are those below /data, where the claim is mounted.
apiVersion: batch/v1
kind: Job
metadata:
  name: kvcal
spec:
  completionMode: Indexed
  completions: @PARTS@
  parallelism: @PARTS@
  template:
    spec:
      restartPolicy: OnFailure
      containers:
      - name: kvcal
        image: @IMAGE@
        workingDir: /data
        command: ["sh", "-c", @PART_COMMAND@]
        resources:
          requests: {cpu: "@THREADS@", memory: @GIB@Gi}
          limits: {memory: @GIB@Gi}
        volumeMounts:
        - {name: data, mountPath: /data}
      volumes:
      - name: data
        persistentVolumeClaim: {claimName: @CLAIM@}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: kvcal-merge
spec:
  activeDeadlineSeconds: @MERGE_DEADLINE@
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: kvcal
        image: @IMAGE@
        workingDir: /data
        command: ["sh", "-euc", @MERGE_COMMAND@]
        resources:
          requests: {cpu: "1", memory: @GIB@Gi}
          limits: {memory: @GIB@Gi}
        volumeMounts:
        - {name: data, mountPath: /data}
      volumes:
      - name: data
        persistentVolumeClaim: {claimName: @CLAIM@}
)";

using Values = std::map<std::string, std::string, std::less<>>;

/// `text` with the value of each @NAME@. Values are not looked into.
std::string filled(std::string_view text, const Values& values) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t first = std::min(text.find('@', at), text.size());
    out += text.substr(at, first - at);
    if (first == text.size()) break;
    const size_t last = text.find('@', first + 1);
    const auto value = values.find(text.substr(first + 1, last - first - 1));
    assert(value != values.end());
    out += value->second;
    at = last + 1;
  }
  return out;
}

std::string clock_text(int64_t seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%02lld:%02lld:00", static_cast<long long>(seconds / 3600),
                static_cast<long long>(seconds / 60 % 60));
  return text;
}

std::string words_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

/// "run.*-of-8.kvstats": 'kvcal merge' names the parts that are missing.
std::string pattern_of_parts(const std::filesystem::path& statistics, int64_t parts) {
  return shell_word((statistics.parent_path() / statistics.stem()).string()) + ".*-of-" + std::to_string(parts) +
         (statistics.has_extension() ? shell_word(statistics.extension().string()) : "");
}

std::string json_text(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string calibrate_command(const LaunchPlan& plan, const LaunchNames& names, uint64_t gib) {
  std::vector<std::string> words = {"kvcal", "calibrate", names.model};
  words.insert(words.end(), names.prompt_words.begin(), names.prompt_words.end());
  words.insert(words.end(), {"--threads", std::to_string(plan.threads), "--memory", std::to_string(gib) + "GiB",
                             "--stats", names.statistics, "--resume"});
  return words_text(words);
}

Values numbers_of(const LaunchPlan& plan, uint64_t job_gib) {
  const auto threads = static_cast<uint64_t>(plan.threads);
  constexpr int64_t kPatience = 24 * 3600;  // until the parts have their turn
  return {{"PARTS", std::to_string(plan.parts)},
          {"PROMPTS", grouped(plan.n_prompts)},
          {"SEQUENCES", grouped(plan.n_sequences)},
          {"TOKENS", grouped(plan.n_tokens)},
          {"HOLDS", bytes_text(plan.memory)},
          {"WEIGHTS", bytes_text(plan.weights)},
          {"READING", duration_text(plan.read_seconds)},
          {"PRODUCTS", duration_text(plan.product_seconds)},
          {"THREADS", std::to_string(plan.threads)},
          {"LIMIT", clock_text(plan.limit_seconds())},
          {"MERGE_DEADLINE", std::to_string(plan.limit_seconds() + kPatience)},
          {"GIB", std::to_string(job_gib)},
          {"MIB_PER_THREAD", std::to_string((job_gib * 1024 + threads - 1) / threads)}};
}

Values values_of(const LaunchPlan& plan, const LaunchNames& names) {
  const uint64_t gib = (plan.memory + kGiB - 1) / kGiB;
  Values values = numbers_of(plan, gib + 1);  // pages of files count too, which the system can drop
  const std::string pattern = pattern_of_parts(names.statistics, plan.parts), parts = std::to_string(plan.parts),
                    statistics = shell_word(names.statistics);
  const std::string calibrate = calibrate_command(plan, names, gib),
                    merge = "kvcal merge " + pattern + " -o " + statistics + " --force",
                    solve = "kvcal solve " + statistics + " -o " + shell_word(names.scales);
  // A file has its name once it is complete.
  const std::string wait = "until set -- " + pattern + "; [ $# -eq " + parts + " ] && [ -e \"$1\" ]; do sleep 10; done";
  values["MODEL"] = printable(names.model, 200);
  values["CALIBRATE"] = calibrate;
  values["MERGE"] = merge;
  values["SOLVE"] = solve;
  values["SCALES"] = shell_word(names.scales);
  values["IMAGE"] = json_text(names.image);
  values["CLAIM"] = json_text(names.claim);
  // A part that runs again may replace its file: the same plan gives the same bytes.
  values["PART_COMMAND"] = json_text("exec " + calibrate + " --shard auto/" + parts + " --force");
  values["MERGE_COMMAND"] = json_text(wait + "\n" + merge + "\n" + solve);
  values["HEADER"] = filled(kHeader, values);
  return values;
}

}  // namespace

std::string slurm_script(const LaunchPlan& plan, const LaunchNames& names) {
  return filled(kSlurm, values_of(plan, names));
}

std::string mpi_script(const LaunchPlan& plan, const LaunchNames& names) {
  return filled(kMpi, values_of(plan, names));
}

std::string kubernetes_manifest(const LaunchPlan& plan, const LaunchNames& names) {
  return filled(kKubernetes, values_of(plan, names));
}

}  // namespace kvcal
