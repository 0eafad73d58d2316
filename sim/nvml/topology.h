/* Where GPUs are to each other: PCIe paths and NVLinks. */
#ifndef GPUFLEET_TOPOLOGY_H
#define GPUFLEET_TOPOLOGY_H

#include "conf.h"
#include "nvml.h"

/* What the other end of an NVLink is. */
struct sim_link_end {
    bool is_switch;
    unsigned index; /* of the switch, or of the GPU */
    struct sim_bus_id pci_bus_id;
};

/* False when the link leads nowhere: taken down, or to no GPU and no switch. */
bool sim_link_end(const struct sim_system *system, unsigned gpu, unsigned link,
                  struct sim_link_end *end);

/* Active NVLinks between two GPUs: through the switches, or direct. */
unsigned sim_nvlinks_between(const struct sim_system *system, unsigned a, unsigned b);

unsigned sim_active_nvlinks(const struct sim_system *system, unsigned gpu);

/* The PCIe level of two GPUs: given by [link], else NODE on one NUMA node, else SYSTEM. */
nvmlGpuTopologyLevel_t sim_path(const struct sim_system *system, unsigned a, unsigned b);

#endif
