// What a cluster's queue is given for a calibration in parts.
#pragma once

#include <string>
#include <vector>

#include "launch_plan.h"

namespace kvcal {

struct LaunchNames {
  std::string model, statistics, scales = "kv-cache-scales.json";  // paths as the job sees them
  std::vector<std::string> prompt_words;                           // of the command line of 'kvcal calibrate'
  std::string image, claim = "kvcal";  // Kubernetes: of the containers, and of the volume with all files
};

/// bash: submits an array of parts, and a job that depends on it and merges them.
std::string slurm_script(const LaunchPlan& plan, const LaunchNames& names);

/// For sbatch: ranks of one job, and rank 0 writes the scales.
std::string mpi_script(const LaunchPlan& plan, const LaunchNames& names);

/// For kubectl apply: an Indexed Job, and a Job that waits for its files and merges them.
std::string kubernetes_manifest(const LaunchPlan& plan, const LaunchNames& names);

}  // namespace kvcal
