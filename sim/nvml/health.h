/* Values that follow from several keys of a description. */
#ifndef GPUFLEET_HEALTH_H
#define GPUFLEET_HEALTH_H

#include "conf.h"

/* A throttled GPU runs at half its maximum or less. */
uint64_t sim_sm_clock_mhz(const struct sim_gpu *gpu);

/* The aggregate count is never below the volatile one. */
uint64_t sim_ecc_errors(const struct sim_gpu *gpu, bool uncorrectable, bool aggregate);

/* NVML's bits: why the clocks are below their maximum. */
uint64_t sim_clock_reasons(const struct sim_gpu *gpu);

#endif
