#include "processes.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/types.h>

#include "getters.h"

/* A process listed in the description is shown as long as it lives in this PID namespace. */
static bool alive(const struct sim_process *process)
{
    return kill((pid_t)process->pid, 0) == 0 || errno == EPERM;
}

uint64_t sim_used_mib(const struct sim_gpu *gpu)
{
    uint64_t used = gpu->memory_used_mib;
    uint64_t room = gpu->memory_mib - gpu->memory_reserved_mib;
    for (uint64_t i = 0; i < gpu->process_count; i++)
        if (alive(&gpu->processes[i]))
            used += gpu->processes[i].memory_mib;
    return used < room ? used : room;
}

/* Fills `found` with the living ones. */
static unsigned living(const struct sim_gpu *gpu, nvmlProcessInfo_t found[SIM_MAX_PROCESSES])
{
    const unsigned none = UINT32_MAX; /* no MIG instance */
    unsigned count = 0;
    for (uint64_t i = 0; i < gpu->process_count; i++)
        if (alive(&gpu->processes[i]))
            found[count++] = (nvmlProcessInfo_t){(unsigned)gpu->processes[i].pid,
                                                 gpu->processes[i].memory_mib << 20, none, none};
    return count;
}

/* As the real one: a call without room answers the count and INSUFFICIENT_SIZE. */
static nvmlReturn_t check_room(unsigned *room, unsigned count, const void *target)
{
    unsigned offered = *room;
    *room = count;
    if (count == 0)
        return NVML_SUCCESS;
    if (offered < count)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    return target ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_t *processes)
{
    SIM_DEVICE(view, device);
    nvmlProcessInfo_t found[SIM_MAX_PROCESSES];
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned total = living(view.gpu, found);
    nvmlReturn_t result = check_room(count, total, processes);
    if (result == NVML_SUCCESS && total > 0)
        memcpy(processes, found, total * sizeof(*processes));
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_t *processes)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device,
                                                           unsigned int *count,
                                                           nvmlProcessInfo_v1_t *processes)
{
    SIM_DEVICE(view, device);
    nvmlProcessInfo_t found[SIM_MAX_PROCESSES];
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned total = living(view.gpu, found);
    nvmlReturn_t result = check_room(count, total, processes);
    for (unsigned i = 0; result == NVML_SUCCESS && i < total; i++)
        processes[i] = (nvmlProcessInfo_v1_t){found[i].pid, found[i].usedGpuMemory};
    return result;
}

/* Described processes are all compute processes: of the other kinds there are none. */
#define NO_PROCESSES(function)                                                                \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, void *processes) \
    {                                                                                         \
        (void)processes;                                                                      \
        SIM_DEVICE(view, device);                                                             \
        if (!count)                                                                           \
            return NVML_ERROR_INVALID_ARGUMENT;                                               \
        *count = 0;                                                                           \
        return NVML_SUCCESS;                                                                  \
    }

NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)
