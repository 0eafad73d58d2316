/* NVLinks of a GPU and the fabric they form. */
#include <stdio.h>
#include <string.h>

#include "getters.h"
#include "topology.h"

bool sim_link_end(const struct sim_system *system, unsigned gpu, unsigned link,
                  struct sim_link_end *end)
{
    const struct sim_gpu *self = &system->gpus[gpu];
    if (link >= self->nvlinks || self->nvlinks_down >> link & 1)
        return false;
    if (system->switch_count > 0) {
        /* The links of a GPU are spread over all switches in runs: 18 over 4 are 5, 4, 5, 4. */
        unsigned index = (unsigned)(link * system->switch_count / self->nvlinks);
        *end = (struct sim_link_end){true, index, system->switches[index]};
        return true;
    }
    unsigned next = 0;
    for (unsigned peer = 0; peer < system->gpu_count; peer++) {
        next += system->direct_nvlinks[gpu][peer];
        if (link < next) {
            *end = (struct sim_link_end){false, peer, system->gpus[peer].pci_bus_id};
            return true;
        }
    }
    return false;
}

unsigned sim_active_nvlinks(const struct sim_system *system, unsigned gpu)
{
    struct sim_link_end end;
    unsigned active = 0;
    for (unsigned link = 0; link < system->gpus[gpu].nvlinks; link++)
        active += sim_link_end(system, gpu, link, &end);
    return active;
}

/* Links of `gpu` that lead to `peer`, and are up at this end. */
static unsigned links_towards(const struct sim_system *system, unsigned gpu, unsigned peer)
{
    struct sim_link_end end;
    unsigned count = 0;
    for (unsigned link = 0; link < system->gpus[gpu].nvlinks; link++)
        count += sim_link_end(system, gpu, link, &end) && (end.is_switch || end.index == peer);
    return count;
}

unsigned sim_nvlinks_between(const struct sim_system *system, unsigned a, unsigned b)
{
    unsigned there = links_towards(system, a, b), back = links_towards(system, b, a);
    return there < back ? there : back;
}

/* Opens the GPU and its link; `end` is filled when the link is up. */
#define SIM_LINK(view, device, link, end, up)                                                 \
    SIM_DEVICE(view, device);                                                                 \
    struct sim_link_end end;                                                                  \
    if (view.gpu->nvlinks == 0)                                                               \
        return NVML_ERROR_NOT_SUPPORTED;                                                      \
    if (link >= view.gpu->nvlinks)                                                            \
        return NVML_ERROR_INVALID_ARGUMENT;                                                   \
    bool up = sim_link_end(view.system, view.index, link, &end)

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                               unsigned int *active)
{
    SIM_LINK(view, device, link, end, up);
    if (!active)
        return NVML_ERROR_INVALID_ARGUMENT;
    *active = up;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                                 unsigned int *version)
{
    SIM_LINK(view, device, link, end, up);
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!up || view.gpu->nvlink_version == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *version = (unsigned)view.gpu->nvlink_version;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                                    unsigned int capability, unsigned int *given)
{
    SIM_LINK(view, device, link, end, up);
    if (!given || capability >= NVML_NVLINK_CAP_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *given = up && (capability == NVML_NVLINK_CAP_P2P_SUPPORTED ||
                    capability == NVML_NVLINK_CAP_P2P_ATOMICS ||
                    capability == NVML_NVLINK_CAP_VALID);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                          unsigned int *type)
{
    SIM_LINK(view, device, link, end, up);
    if (!type)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!up)
        return NVML_ERROR_NOT_SUPPORTED;
    *type = end.is_switch ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                          nvmlPciInfo_t *pci)
{
    SIM_LINK(view, device, link, end, up);
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!up)
        return NVML_ERROR_NOT_SUPPORTED;
    *pci = (nvmlPciInfo_t){
        .domain = (unsigned)end.pci_bus_id.domain,
        .bus = (unsigned)end.pci_bus_id.bus,
        .device = (unsigned)end.pci_bus_id.device,
    };
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", pci->domain & 0xffff,
             pci->bus & 0xff, pci->device & 0x1f);
    snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff,
             pci->device & 0x1f);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                                      unsigned int counter,
                                                      unsigned long long *count)
{
    SIM_LINK(view, device, link, end, up);
    if (!count || counter >= NVML_NVLINK_ERROR_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!up)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = counter == NVML_NVLINK_ERROR_DL_REPLAY     ? view.gpu->nvlink_replays
             : counter == NVML_NVLINK_ERROR_DL_CRC_FLIT ? view.gpu->nvlink_crc_errors
                                                        : 0;
    return NVML_SUCCESS;
}

/* The cluster of a single node has the UUID of zeros, as on a real node without a NVLink network. */
NVML_API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info)
{
    enum { HEALTHY = 1 };
    SIM_DEVICE(view, device);
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    bool third = info->v2.version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3);
    if (!third && info->v2.version != NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(info->v2.clusterUuid, 0, sizeof(info->v2.clusterUuid));
    info->v2.status = NVML_SUCCESS;
    info->v2.cliqueId = (unsigned)view.system->fabric_clique;
    info->v2.state = (unsigned)view.system->fabric;
    info->v2.healthMask = 0;
    if (third)
        info->healthSummary = view.system->fabric ? HEALTHY : 0;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    SIM_DEVICE(view, device);
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = (nvmlGpuFabricInfo_t){
        .status = NVML_SUCCESS,
        .cliqueId = (unsigned)view.system->fabric_clique,
        .state = (unsigned)view.system->fabric,
    };
    return NVML_SUCCESS;
}
