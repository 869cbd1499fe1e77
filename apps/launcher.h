// Which part of a job this process is: what Slurm, MPI's launchers, torchrun and Kubernetes tell the processes they
// start.
#pragma once

#include <cstdint>
#include <functional>

namespace kvcal {

struct JobPart {
  int64_t rank = 0, size = 1;  // ranks from 0
  int64_t on_host = 0;         // its number among those of its machine, from 0; 0 also where nobody says it
};

/// The value of a variable; null where it is not set.
using Environment = std::function<const char*(const char*)>;

/// n_parts: how many there are where the user says so; 0: as many as the launcher says. Tasks of a Slurm array are
/// then numbered 1 to n_parts, so that some of them can be submitted again; else from 0 or 1. Launchers that start each
/// other do not count twice: "1 of 1" says nothing beside another's number, nor a Slurm step beside mpirun or torchrun,
/// whose daemons it may have started. Throws Error where no launcher is found, where two contradict each other, and for
/// variables that are no numbers or come without their partner.
JobPart part_of_job(const Environment& environment, int64_t n_parts = 0);

/// Of this process.
JobPart part_of_job(int64_t n_parts = 0);

}  // namespace kvcal
