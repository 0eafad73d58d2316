/* Reads paths of descriptions from stdin; says of each how nvmlInit ends, and asks an accepted one
 * all kinds of questions. Built with the library's sources and sanitizers by the tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char *, unsigned);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char *, unsigned);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t, nvmlPciInfo_t *);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t *);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t, unsigned, unsigned long *);
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t, unsigned, unsigned long *, unsigned);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t, unsigned, nvmlPciInfo_t *);
nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t, unsigned, unsigned *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t, nvmlDevice_t, unsigned, unsigned *);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t, int, nvmlFieldValue_t *);
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *);
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t, unsigned long long, nvmlEventSet_t);
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t, nvmlEventData_t *, unsigned);
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t);

enum { FIELDS = 310 };

static void ask(unsigned count, nvmlDevice_t device, nvmlEventSet_t set)
{
    char text[96];
    nvmlPciInfo_t pci;
    nvmlMemory_t memory = {0};
    nvmlProcessInfo_t processes[2];
    unsigned room = 2, status;
    unsigned long cpus[3], nodes[1];
    nvmlUUID_t uuid = {.version = NVML_STRUCT_VERSION(nvmlUUID_t, 1), .type = 2};
    nvmlDevice_t found[64];
    static nvmlFieldValue_t values[FIELDS];
    nvmlDeviceGetName(device, text, sizeof(text));
    nvmlDeviceGetUUID(device, text, 4);
    nvmlDeviceGetPciInfo_v3(device, &pci);
    if (nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS &&
        memory.used + memory.free != memory.total)
        abort();
    nvmlDeviceGetComputeRunningProcesses_v3(device, &room, processes);
    nvmlDeviceGetCpuAffinity(device, 3, cpus);
    nvmlDeviceGetMemoryAffinity(device, 1, nodes, 0);
    nvmlDeviceGetHandleByUUIDV(&uuid, found);
    for (unsigned link = 0; link < 40; link++)
        nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &pci);
    for (unsigned level = 0; level <= 60; level += 10) {
        unsigned near = 64;
        nvmlDeviceGetTopologyNearestGpus(device, level, &near, found);
    }
    for (unsigned other = 0; other < count; other++)
        if (nvmlDeviceGetHandleByIndex_v2(other, &found[0]) == NVML_SUCCESS)
            nvmlDeviceGetP2PStatus(device, found[0], 2, &status);
    for (unsigned field = 0; field < FIELDS; field++)
        values[field] = (nvmlFieldValue_t){.fieldId = field, .scopeId = field % 40};
    nvmlDeviceGetFieldValues(device, FIELDS, values);
    nvmlDeviceRegisterEvents(device, NVML_EVENT_XID | NVML_EVENT_DBE, set);
}

int main(void)
{
    char path[4096];
    while (fgets(path, sizeof(path), stdin)) {
        path[strcspn(path, "\n")] = '\0';
        setenv("GPUFLEET_SIMGPU_CONF", path, 1);
        fprintf(stderr, "%s\n", path);
        nvmlReturn_t result = nvmlInit_v2();
        printf("%s %d\n", path, (int)result);
        if (result != NVML_SUCCESS)
            continue;
        unsigned count = 0;
        nvmlEventSet_t set;
        nvmlEventData_t data;
        nvmlDeviceGetCount_v2(&count);
        if (nvmlEventSetCreate(&set) != NVML_SUCCESS)
            abort();
        for (unsigned i = 0; i < count; i++) {
            nvmlDevice_t device;
            if (nvmlDeviceGetHandleByIndex_v2(i, &device) == NVML_SUCCESS)
                ask(count, device, set);
        }
        nvmlEventSetWait_v2(set, &data, 0);
        nvmlEventSetFree(set);
        nvmlShutdown();
    }
    return 0;
}
