/* Processes that the description puts on a GPU. */
#ifndef GPUFLEET_PROCESSES_H
#define GPUFLEET_PROCESSES_H

#include "conf.h"

/* MiB in use: what the description says, and what its living processes hold; never above what the
 * GPU has beside its reserved memory. */
uint64_t sim_used_mib(const struct sim_gpu *gpu);

#endif
