/* Which GPUs there are and what they are: handles, identity, memory sizes, modes. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "getters.h"
#include "processes.h"

#define MIB (1024ULL * 1024ULL)

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    SIM_VIEW(view);
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = (unsigned)view.system->gpu_count; /* a lost GPU still counts */
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

/* Hands the GPU out, unless it is lost; as every call on it, this waits as long as it hangs. */
static nvmlReturn_t hand_out(unsigned index, nvmlDevice_t *device)
{
    if (!device)
        return NVML_ERROR_INVALID_ARGUMENT;
    SIM_DEVICE(view, sim_handle(index));
    *device = sim_handle(index);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    SIM_VIEW(view);
    if (index >= view.system->gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    return hand_out(index, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    SIM_VIEW(view);
    if (!uuid)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < view.system->gpu_count; i++)
        if (strcasecmp(view.system->gpus[i].uuid, uuid) == 0)
            return hand_out(i, device);
    return NVML_ERROR_NOT_FOUND;
}

static bool uuid_bytes(const char *uuid, unsigned char bytes[16])
{
    unsigned digits = 0;
    for (const char *at = uuid + strlen("GPU-"); *at && digits < 32; at++) {
        if (*at == '-')
            continue;
        unsigned nibble = isdigit((unsigned char)*at) ? (unsigned)(*at - '0')
                                                      : (unsigned)(tolower(*at) - 'a' + 10);
        bytes[digits / 2] = (unsigned char)(bytes[digits / 2] << 4 | nibble);
        digits++;
    }
    return digits == 32;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    enum { ASCII = 1, BINARY = 2 };
    SIM_VIEW(view);
    if (!uuid)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (uuid->version != NVML_STRUCT_VERSION(nvmlUUID_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    for (unsigned i = 0; i < view.system->gpu_count; i++) {
        unsigned char bytes[16] = {0};
        const char *text = view.system->gpus[i].uuid;
        if (uuid->type == ASCII && strncasecmp(text, uuid->value.text, 41) == 0)
            return hand_out(i, device);
        if (uuid->type == BINARY && uuid_bytes(text, bytes) &&
            memcmp(bytes, uuid->value.bytes, sizeof(bytes)) == 0)
            return hand_out(i, device);
    }
    return uuid->type == ASCII || uuid->type == BINARY ? NVML_ERROR_NOT_FOUND
                                                       : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    SIM_VIEW(view);
    if (!serial)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < view.system->gpu_count; i++)
        if (*serial && strcmp(view.system->gpus[i].serial, serial) == 0)
            return hand_out(i, device);
    return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    SIM_VIEW(view);
    struct sim_bus_id wanted;
    if (!bus_id || !sim_parse_bus_id(bus_id, &wanted))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < view.system->gpu_count; i++) {
        const struct sim_bus_id *id = &view.system->gpus[i].pci_bus_id;
        if (id->domain == wanted.domain && id->bus == wanted.bus && id->device == wanted.device)
            return hand_out(i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

SIM_TEXT_GETTER(nvmlDeviceGetName, gpu->name)
SIM_TEXT_GETTER(nvmlDeviceGetUUID, gpu->uuid)
SIM_TEXT_GETTER(nvmlDeviceGetVbiosVersion, gpu->vbios)

NVML_API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    SIM_DEVICE(view, device);
    if (view.gpu->serial[0] == '\0')
        return NVML_ERROR_NOT_SUPPORTED;
    return sim_copy_text(serial, length, view.gpu->serial);
}

SIM_GETTER(nvmlDeviceGetIndex, unsigned int, view.index)
SIM_GETTER(nvmlDeviceGetMinorNumber, unsigned int, gpu->minor)
SIM_GETTER(nvmlDeviceGetModuleId, unsigned int, gpu->minor)
SIM_GETTER(nvmlDeviceGetBoardId, unsigned int, gpu->pci_bus_id.bus << 8 | gpu->pci_bus_id.device)
SIM_GETTER(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
SIM_GETTER(nvmlDeviceGetBrand, unsigned int, NVML_BRAND_NVIDIA)
SIM_GETTER(nvmlDeviceGetBusType, unsigned int, NVML_BUS_TYPE_PCIE)
SIM_OPTIONAL_GETTER(nvmlDeviceGetArchitecture, unsigned int, gpu->architecture)
SIM_OPTIONAL_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned int, gpu->memory_bus_bits)
SIM_GETTER(nvmlDeviceGetPersistenceMode, unsigned int, gpu->persistence)
SIM_GETTER(nvmlDeviceGetComputeMode, unsigned int, gpu->compute_mode)
SIM_GETTER(nvmlDeviceGetDisplayMode, unsigned int, NVML_FEATURE_DISABLED)
SIM_GETTER(nvmlDeviceGetDisplayActive, unsigned int, NVML_FEATURE_DISABLED)
SIM_GETTER(nvmlDeviceGetVirtualizationMode, unsigned int, 0)
SIM_GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, 0)
SIM_GETTER(nvmlDeviceIsMigDeviceHandle, unsigned int, 0)

NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
                                                         int *minor)
{
    SIM_DEVICE(view, device);
    if (!major || !minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (view.gpu->compute_capability == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *major = (int)(view.gpu->compute_capability / 1000);
    *minor = (int)(view.gpu->compute_capability % 1000 / 10);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now,
                                           unsigned int *pending)
{
    SIM_DEVICE(view, device);
    if (!now || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *now = *pending = NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                          nvmlDevice_t *mig)
{
    (void)index, (void)mig;
    SIM_DEVICE(view, device);
    return NVML_ERROR_NOT_FOUND;
}

/* A GPU beyond domain ffff has no legacy id: such an id is cut as the real library cuts it. */
static void bus_texts(const struct sim_bus_id *id, char legacy[16], char full[32])
{
    snprintf(legacy, 16, "%04X:%02X:%02X.0", (unsigned)id->domain & 0xffff, (unsigned)id->bus & 0xff,
             (unsigned)id->device & 0x1f);
    if (full)
        snprintf(full, 32, "%08X:%02X:%02X.0", (unsigned)id->domain, (unsigned)id->bus & 0xff,
                 (unsigned)id->device & 0x1f);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    SIM_DEVICE(view, device);
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    *pci = (nvmlPciInfo_t){
        .domain = (unsigned)view.gpu->pci_bus_id.domain,
        .bus = (unsigned)view.gpu->pci_bus_id.bus,
        .device = (unsigned)view.gpu->pci_bus_id.device,
        .pciDeviceId = (unsigned)view.gpu->pci_device_id,
        .pciSubSystemId = (unsigned)view.gpu->pci_subsystem_id,
    };
    bus_texts(&view.gpu->pci_bus_id, pci->busIdLegacy, pci->busId);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    nvmlPciInfo_t full;
    nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &full);
    if (result != NVML_SUCCESS)
        return result;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    memcpy(pci->busId, full.busIdLegacy, sizeof(pci->busId));
    pci->domain = full.domain;
    pci->bus = full.bus;
    pci->device = full.device;
    pci->pciDeviceId = full.pciDeviceId;
    pci->pciSubSystemId = full.pciSubSystemId;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    return nvmlDeviceGetPciInfo_v2(device, pci);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci)
{
    enum { DISPLAY_CONTROLLER = 3, CONTROLLER_3D = 2 };
    nvmlPciInfo_t full;
    nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &full);
    if (result != NVML_SUCCESS)
        return result;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (pci->version != NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    pci->domain = full.domain;
    pci->bus = full.bus;
    pci->device = full.device;
    pci->pciDeviceId = full.pciDeviceId;
    pci->pciSubSystemId = full.pciSubSystemId;
    pci->baseClass = DISPLAY_CONTROLLER;
    pci->subClass = CONTROLLER_3D;
    memcpy(pci->busId, full.busId, sizeof(pci->busId));
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    SIM_DEVICE(view, device);
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    uint64_t room = view.gpu->memory_mib - view.gpu->memory_reserved_mib;
    uint64_t used = sim_used_mib(view.gpu);
    memory->total = view.gpu->memory_mib * MIB;
    memory->reserved = view.gpu->memory_reserved_mib * MIB;
    memory->used = used * MIB;
    memory->free = (room - used) * MIB;
    return NVML_SUCCESS;
}

/* The first form knows no reserved memory: what is reserved counts as used. */
NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_v2_t full = {.version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2)};
    nvmlReturn_t result = nvmlDeviceGetMemoryInfo_v2(device, &full);
    if (result != NVML_SUCCESS)
        return result;
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    *memory = (nvmlMemory_t){full.total, full.free, full.used + full.reserved};
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    SIM_DEVICE(view, device);
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (view.gpu->bar1_mib == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *memory = (nvmlMemory_t){view.gpu->bar1_mib * MIB, (view.gpu->bar1_mib - 1) * MIB, MIB};
    return NVML_SUCCESS;
}
