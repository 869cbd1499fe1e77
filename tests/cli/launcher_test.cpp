// Which part of a job a process is, from the variables of what started it.
#include "launcher.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "harness/message_of.h"

namespace kvcal {
namespace {

using Variables = std::map<std::string, std::string>;

JobPart job_part(const Variables& variables, int64_t n_parts = 0) {
  const auto environment = [&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  };
  return part_of_job(environment, n_parts);
}

std::string part(const Variables& variables, int64_t n_parts = 0) {
  const JobPart p = job_part(variables, n_parts);
  return std::to_string(p.rank) + " of " + std::to_string(p.size);
}

std::string refusal(const Variables& variables, int64_t n_parts = 0) {
  return message_of([&] { part(variables, n_parts); });
}

Variables array(const char* task, const char* first, const char* last, const char* count, const char* step = "1") {
  return {{"SLURM_ARRAY_TASK_ID", task},
          {"SLURM_ARRAY_TASK_MIN", first},
          {"SLURM_ARRAY_TASK_MAX", last},
          {"SLURM_ARRAY_TASK_COUNT", count},
          {"SLURM_ARRAY_TASK_STEP", step}};
}

Variables with(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Variables kBatchScript = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
const Variables kStep = {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "5"}};

TEST(Launcher, EachOneAlone) {
  EXPECT_EQ(part(kStep), "3 of 4");
  EXPECT_EQ(part(kOpenMpi), "2 of 5");
  EXPECT_EQ(part({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}), "1 of 3");
  EXPECT_EQ(part({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "0 of 2");
  EXPECT_EQ(part({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "0 of 1");
}

TEST(Launcher, NumberOnItsMachine) {
  const Variables step = with(kStep, {{"SLURM_LOCALID", "1"}});
  EXPECT_EQ(job_part(step).on_host, 1);
  EXPECT_EQ(job_part(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}})).on_host, 2);
  EXPECT_EQ(job_part({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "3"}}).on_host, 3);
  EXPECT_EQ(job_part({{"RANK", "9"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}}).on_host, 1);
  EXPECT_EQ(job_part(with(step, kOpenMpi)).on_host, 0);  // of the daemon that srun started it says nothing
  EXPECT_EQ(job_part({{"JOB_COMPLETION_INDEX", "7"}}, 8).on_host, 0);
}

TEST(Launcher, ArraysFromZeroOrOneWithSteps) {
  EXPECT_EQ(part(array("0", "0", "7", "8")), "0 of 8");
  EXPECT_EQ(part(array("8", "1", "8", "8")), "7 of 8");
  EXPECT_EQ(part(array("5", "1", "9", "5", "2")), "2 of 5");
  EXPECT_EQ(part(array("1", "1", "1", "1")), "0 of 1");
}

TEST(Launcher, APartOfAnArrayWouldBeAnotherPlan) {
  EXPECT_NE(refusal(array("3", "3", "3", "1")).find("auto/n"), std::string::npos);
  EXPECT_NE(refusal(array("1", "1", "7", "3")).find("expected all from 0 or 1 on"), std::string::npos);
  EXPECT_EQ(part(array("3", "3", "3", "1"), 8), "2 of 8");
  EXPECT_EQ(part(array("8", "1", "8", "2", "7"), 8), "7 of 8");
  EXPECT_NE(refusal(array("0", "0", "7", "8"), 8).find("--array=1-8"), std::string::npos);
  EXPECT_NE(refusal(array("9", "1", "9", "9"), 8).find("expected 1 to 8"), std::string::npos);
}

TEST(Launcher, RanksWithoutASizeNeedOne) {
  EXPECT_EQ(part({{"JOB_COMPLETION_INDEX", "7"}}, 8), "7 of 8");
  EXPECT_NE(refusal({{"JOB_COMPLETION_INDEX", "7"}}).find("give auto/n"), std::string::npos);
  EXPECT_NE(refusal({{"JOB_COMPLETION_INDEX", "8"}}, 8).find("expected less than the 8"), std::string::npos);
  EXPECT_NE(refusal({{"PMIX_RANK", "1"}}).find("give auto/n"), std::string::npos);
  EXPECT_EQ(part(with(kStep, {{"PMIX_RANK", "3"}})), "3 of 4");  // srun --mpi=pmix
}

TEST(Launcher, TheInnerOneOfTwoThatStartEachOther) {
  EXPECT_EQ(part(with(kStep, kOpenMpi)), "2 of 5");  // a daemon for each node
  EXPECT_EQ(part(with(kBatchScript, kOpenMpi)), "2 of 5");
  EXPECT_EQ(part(with(kStep, {{"RANK", "9"}, {"WORLD_SIZE", "32"}})), "9 of 32");
  const Variables one_task = {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  EXPECT_EQ(part(with(array("2", "1", "4", "4"), one_task)), "1 of 4");
  EXPECT_EQ(part(with(array("2", "1", "4", "4"), kBatchScript)), "1 of 4");
}

TEST(Launcher, ContradictionsAreRefused) {
  const std::string two = refusal(with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}));
  EXPECT_NE(two.find("OMPI_COMM_WORLD_RANK says 2 of 5, from 0, but RANK says 0 of 2"), std::string::npos) << two;
  EXPECT_NE(refusal(with(kStep, array("1", "1", "4", "4"))).find("but"), std::string::npos);
  EXPECT_NE(refusal(kOpenMpi, 8).find("there are to be 8 parts"), std::string::npos);
  EXPECT_NE(refusal(with(kStep, {{"PMIX_RANK", "1"}})).find("PMIX_RANK says 1"), std::string::npos);
  EXPECT_NE(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).find("expected less than the 2 parts"), std::string::npos);
}

TEST(Launcher, HalfAndNonsense) {
  EXPECT_NE(refusal({{"RANK", "1"}}).find("RANK is set and WORLD_SIZE is not"), std::string::npos);
  EXPECT_NE(refusal({{"PMI_SIZE", "1"}}).find("PMI_SIZE is set and PMI_RANK is not"), std::string::npos);
  EXPECT_NE(refusal({{"SLURM_ARRAY_TASK_ID", "1"}}).find("SLURM_ARRAY_TASK_MIN is not"), std::string::npos);
  for (const char* text : {"", "x", "-1", "1 ", "99999999999999999999"})
    EXPECT_NE(refusal({{"RANK", text}, {"WORLD_SIZE", "2"}}).find("expected a number"), std::string::npos) << text;
  EXPECT_NE(refusal({}).find("found no launcher"), std::string::npos);
  EXPECT_NE(refusal(kBatchScript).find("found no launcher"), std::string::npos);
}

}  // namespace
}  // namespace kvcal
