#include "launcher.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvcal {
namespace {

/// What one launcher says.
struct Told {
  std::string who;     // the variable that has the rank
  int64_t rank, size;  // size 0: not said
  int64_t on_host = 0;
  std::string text() const {
    return who + " says " + std::to_string(rank) + (size > 0 ? " of " + std::to_string(size) : "") + ", from 0";
  }
};

std::optional<int64_t> number(const Environment& environment, const char* name) {
  const char* const text = environment(name);
  if (!text) return std::nullopt;
  const std::string value = text;
  int64_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size() || n < 0)
    fail(std::string(name) + " is " + quoted(value) + ", expected a number, 0 or more");
  return n;
}

/// Of a variable that its launcher always sets beside `partner`.
int64_t number_beside(const Environment& environment, const char* partner, const char* name) {
  const std::optional<int64_t> n = number(environment, name);
  if (!n) fail(std::string(partner) + " is set and " + name + " is not: was the environment passed on in part?");
  return *n;
}

/// The variables of one launcher.
struct Names {
  const char *rank, *size, *on_host;
};

std::optional<Told> told(const Environment& environment, const Names& names) {
  const std::optional<int64_t> n = number(environment, names.rank);
  if (!n && number(environment, names.size)) number_beside(environment, names.size, names.rank);
  if (!n) return std::nullopt;
  return Told{names.rank, *n, number_beside(environment, names.rank, names.size),
              number(environment, names.on_host).value_or(0)};
}

/// Those whose variables belong to a process, whatever started the launcher itself. srun's --mpi=pmi2 sets Hydra's too.
std::vector<Told> told_by_inner(const Environment& environment) {
  std::vector<Told> all;
  for (const Names& names : {Names{"RANK", "WORLD_SIZE", "LOCAL_RANK"},  // torchrun
                             {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                             {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}})
    if (const std::optional<Told> t = told(environment, names)) all.push_back(*t);
  return all;
}

/// A batch script has SLURM_PROCID too, but no step: only srun makes one.
std::optional<Told> told_by_step(const Environment& environment) {
  const std::optional<int64_t> size = number(environment, "SLURM_STEP_NUM_TASKS");
  if (!size) return std::nullopt;
  return Told{"SLURM_PROCID", number_beside(environment, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"), *size,
              number(environment, "SLURM_LOCALID").value_or(0)};
}

std::optional<Told> told_by_array(const Environment& environment, int64_t n_parts) {
  constexpr const char* kTask = "SLURM_ARRAY_TASK_ID";
  const std::optional<int64_t> task = number(environment, kTask);
  if (!task) return std::nullopt;
  if (n_parts > 0) {
    if (*task < 1 || *task > n_parts)
      fail(std::string(kTask) + " is " + std::to_string(*task) + ", expected 1 to " + std::to_string(n_parts) +
           ": submit it with --array=1-" + std::to_string(n_parts));
    return Told{kTask, *task - 1, 0};
  }
  const auto beside = [&](const char* name) { return number_beside(environment, kTask, name); };
  const int64_t first = beside("SLURM_ARRAY_TASK_MIN"), last = beside("SLURM_ARRAY_TASK_MAX"),
                count = beside("SLURM_ARRAY_TASK_COUNT"),
                step = std::max<int64_t>(number(environment, "SLURM_ARRAY_TASK_STEP").value_or(1), 1);
  if (first > 1 || last < first || (last - first) / step + 1 != count || *task < first || (*task - first) % step != 0)
    fail("the Slurm array has " + std::to_string(count) + " task(s) from " + std::to_string(first) + " to " +
         std::to_string(last) + ", expected all from 0 or 1 on; to run some of n parts again give auto/n");
  return Told{kTask, (*task - first) / step, count};
}

std::vector<Told> told_by_all(const Environment& environment, int64_t n_parts) {
  std::vector<Told> all = told_by_inner(environment);
  if (const std::optional<Told> step = told_by_step(environment); step && all.empty()) all.push_back(*step);
  if (const std::optional<Told> array = told_by_array(environment, n_parts)) all.push_back(*array);
  for (const char* rank : {"PMIX_RANK", "JOB_COMPLETION_INDEX"})  // nobody tells their processes how many there are
    if (const std::optional<int64_t> n = number(environment, rank)) all.push_back({rank, *n, 0});
  const auto alone = [](const Told& t) { return t.size == 1; };
  if (!std::ranges::all_of(all, alone)) std::erase_if(all, alone);
  return all;
}

}  // namespace

JobPart part_of_job(const Environment& environment, int64_t n_parts) {
  const std::vector<Told> all = told_by_all(environment, n_parts);
  if (all.empty())
    fail(
        "found no launcher's variables: expected those of Slurm (srun, or sbatch --array), mpirun, torchrun or an "
        "Indexed Job of Kubernetes; without one give i/n");
  JobPart part{all.front().rank, n_parts, all.front().on_host};
  for (const Told& t : all) {
    if (t.rank != part.rank || (part.size > 0 && t.size > 0 && t.size != part.size))
      fail(t.text() + ", but " +
           (&t == &all.front() ? "there are to be " + std::to_string(n_parts) + " parts" : all.front().text()) +
           "; give i/n, or unset the variables of one");
    if (t.size > 0) part.size = t.size;
  }
  if (part.size == 0)
    fail(all.front().who + " is set, but it comes without the number of processes: give auto/n, such as auto/8");
  if (part.rank >= part.size)
    fail(all.front().who + " is " + std::to_string(part.rank) + ", expected less than the " +
         std::to_string(part.size) + " parts there are");
  return part;
}

JobPart part_of_job(int64_t n_parts) {
  return part_of_job([](const char* name) { return std::getenv(name); }, n_parts);
}

}  // namespace kvcal
