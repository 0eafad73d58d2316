#include "topology.h"

#include <string.h>

#include "getters.h"

nvmlGpuTopologyLevel_t sim_path(const struct sim_system *system, unsigned a, unsigned b)
{
    if (a == b)
        return NVML_TOPOLOGY_INTERNAL;
    if (system->path[a][b] == 1) /* 1 stands for INTERNAL, as 0 says that nothing was given */
        return NVML_TOPOLOGY_INTERNAL;
    if (system->path[a][b] != 0)
        return (nvmlGpuTopologyLevel_t)system->path[a][b];
    return system->gpus[a].numa_node == system->gpus[b].numa_node ? NVML_TOPOLOGY_NODE
                                                                  : NVML_TOPOLOGY_SYSTEM;
}

/* Opens both devices; both must be usable. */
static nvmlReturn_t open_peer(nvmlDevice_t second, unsigned *index)
{
    SIM_DEVICE(peer, second);
    *index = peer.index;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t first, nvmlDevice_t second,
                                                          unsigned int *level)
{
    unsigned peer;
    nvmlReturn_t result = open_peer(second, &peer);
    if (result != NVML_SUCCESS)
        return result;
    SIM_DEVICE(view, first);
    if (!level)
        return NVML_ERROR_INVALID_ARGUMENT;
    *level = sim_path(view.system, view.index, peer);
    return NVML_SUCCESS;
}

/* Writes the handles of the GPUs marked in `chosen`. A count of 0 asks how many there are. */
static nvmlReturn_t answer_gpus(const struct sim_system *system, const bool *chosen,
                                unsigned *count, nvmlDevice_t *devices)
{
    unsigned total = 0, room = *count;
    if (room > 0 && !devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < system->gpu_count; i++) {
        if (!chosen[i])
            continue;
        if (total < room)
            devices[total] = sim_handle(i);
        total++;
    }
    *count = room > 0 && room < total ? room : total;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned int level,
                                                       unsigned int *count, nvmlDevice_t *devices)
{
    SIM_DEVICE(view, device);
    bool chosen[SIM_MAX_GPUS] = {false};
    if (!count || level > NVML_TOPOLOGY_SYSTEM || level % 10 != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < view.system->gpu_count; i++)
        chosen[i] = i != view.index && sim_path(view.system, view.index, i) <= level;
    return answer_gpus(view.system, chosen, count, devices);
}

NVML_API nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int *count,
                                                  nvmlDevice_t *devices)
{
    SIM_VIEW(view);
    bool chosen[SIM_MAX_GPUS] = {false};
    if (!count || cpu >= SIM_MAX_CPUS)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < view.system->gpu_count; i++)
        chosen[i] = view.system->gpus[i].cpu_affinity[cpu / 64] >> (cpu % 64) & 1;
    return answer_gpus(view.system, chosen, count, devices);
}

NVML_API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second,
                                             unsigned int capability, unsigned int *status)
{
    unsigned peer;
    nvmlReturn_t result = open_peer(second, &peer);
    if (result != NVML_SUCCESS)
        return result;
    SIM_DEVICE(view, first);
    if (!status || capability >= NVML_P2P_CAPS_INDEX_UNKNOWN || peer == view.index)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sim_nvlinks_between(view.system, view.index, peer) > 0)
        *status = NVML_P2P_STATUS_OK;
    else if (capability == NVML_P2P_CAPS_INDEX_NVLINK)
        *status = NVML_P2P_STATUS_NOT_SUPPORTED;
    else
        *status = sim_path(view.system, view.index, peer) <= NVML_TOPOLOGY_NODE
                      ? NVML_P2P_STATUS_OK
                      : NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t first, nvmlDevice_t second, int *same)
{
    unsigned peer;
    nvmlReturn_t result = open_peer(second, &peer);
    if (result != NVML_SUCCESS)
        return result;
    SIM_DEVICE(view, first);
    if (!same)
        return NVML_ERROR_INVALID_ARGUMENT;
    *same = 0;
    return NVML_SUCCESS;
}

SIM_GETTER(nvmlDeviceGetNumaNodeId, unsigned int, gpu->numa_node)

/* Copies at most `words` unsigned longs of the bit mask, the rest of the target is zero. */
static void copy_mask(unsigned long *target, unsigned words, const uint64_t *mask, unsigned bits)
{
    const unsigned width = 8 * sizeof(unsigned long);
    memset(target, 0, words * sizeof(*target));
    for (unsigned bit = 0; bit < bits && bit / width < words; bit++)
        if (mask[bit / 64] >> (bit % 64) & 1)
            target[bit / width] |= 1UL << (bit % width);
}

NVML_API nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words,
                                               unsigned long *cpus)
{
    SIM_DEVICE(view, device);
    if (!cpus || words == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    copy_mask(cpus, words, view.gpu->cpu_affinity, SIM_MAX_CPUS);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words,
                                                          unsigned long *cpus, unsigned int scope)
{
    if (scope > NVML_AFFINITY_SCOPE_SOCKET)
        return NVML_ERROR_INVALID_ARGUMENT;
    return nvmlDeviceGetCpuAffinity(device, words, cpus);
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words,
                                                  unsigned long *nodes, unsigned int scope)
{
    SIM_DEVICE(view, device);
    if (!nodes || words == 0 || scope > NVML_AFFINITY_SCOPE_SOCKET)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t mask = UINT64_C(1) << view.gpu->numa_node;
    copy_mask(nodes, words, &mask, 64);
    return NVML_SUCCESS;
}
