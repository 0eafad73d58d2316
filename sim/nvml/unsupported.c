/* What the real library offers and a simulated GPU does not: refused as a GPU that lacks it would.
 *
 * A caller may pass more arguments than these functions name; they are not looked at. Functions
 * that are not even named here are absent: the bindings then report "Function Not Found".
 */
#include "state.h"

#define OF_A_DEVICE(function)                                                                 \
    NVML_API nvmlReturn_t function(nvmlDevice_t device)                                       \
    {                                                                                         \
        SIM_DEVICE(view, device);                                                             \
        return NVML_ERROR_NOT_SUPPORTED;                                                      \
    }

#define OF_THE_SYSTEM(function)                                                               \
    NVML_API nvmlReturn_t function(void)                                                      \
    {                                                                                         \
        SIM_VIEW(view);                                                                       \
        return NVML_ERROR_NOT_SUPPORTED;                                                      \
    }

/* No fan; rows are remapped, not pages retired; energy and samples would need a model of time. */
OF_A_DEVICE(nvmlDeviceGetFanSpeed)
OF_A_DEVICE(nvmlDeviceGetFanSpeed_v2)
OF_A_DEVICE(nvmlDeviceGetNumFans)
OF_A_DEVICE(nvmlDeviceGetTargetFanSpeed)
OF_A_DEVICE(nvmlDeviceGetRetiredPages)
OF_A_DEVICE(nvmlDeviceGetRetiredPages_v2)
OF_A_DEVICE(nvmlDeviceGetRetiredPagesPendingStatus)
OF_A_DEVICE(nvmlDeviceGetRowRemapperHistogram)
OF_A_DEVICE(nvmlDeviceGetTotalEnergyConsumption)
OF_A_DEVICE(nvmlDeviceGetSamples)
OF_A_DEVICE(nvmlDeviceGetViolationStatus)
OF_A_DEVICE(nvmlDeviceGetTemperatureThreshold)
OF_A_DEVICE(nvmlDeviceGetMarginTemperature)
OF_A_DEVICE(nvmlDeviceGetThermalSettings)
OF_A_DEVICE(nvmlDeviceGetProcessUtilization)
OF_A_DEVICE(nvmlDeviceGetAttributes_v2)
OF_A_DEVICE(nvmlDeviceGetBoardPartNumber)
OF_A_DEVICE(nvmlDeviceGetInforomVersion)
OF_A_DEVICE(nvmlDeviceGetInforomImageVersion)
OF_A_DEVICE(nvmlDeviceGetSupportedMemoryClocks)
OF_A_DEVICE(nvmlDeviceGetSupportedGraphicsClocks)
OF_A_DEVICE(nvmlDeviceGetNumGpuCores)
OF_A_DEVICE(nvmlDeviceGetPcieSpeed)
OF_A_DEVICE(nvmlDeviceGetPcieLinkMaxSpeed)
OF_A_DEVICE(nvmlDeviceGetDriverModel)
OF_A_DEVICE(nvmlDeviceGetGpuOperationMode)
OF_A_DEVICE(nvmlDeviceGetBridgeChipInfo)
OF_A_DEVICE(nvmlDeviceGetDetailedEccErrors)
OF_A_DEVICE(nvmlDeviceGetNvLinkUtilizationCounter)
OF_A_DEVICE(nvmlDeviceGetNvLinkUtilizationControl)

/* Encoders, accounting, performance metrics of the GPU (GPM). */
OF_A_DEVICE(nvmlDeviceGetEncoderUtilization)
OF_A_DEVICE(nvmlDeviceGetDecoderUtilization)
OF_A_DEVICE(nvmlDeviceGetEncoderCapacity)
OF_A_DEVICE(nvmlDeviceGetEncoderStats)
OF_A_DEVICE(nvmlDeviceGetEncoderSessions)
OF_A_DEVICE(nvmlDeviceGetAccountingMode)
OF_A_DEVICE(nvmlDeviceGetAccountingStats)
OF_A_DEVICE(nvmlDeviceGetAccountingPids)
OF_A_DEVICE(nvmlDeviceGetAccountingBufferSize)
OF_A_DEVICE(nvmlGpmQueryDeviceSupport)
OF_A_DEVICE(nvmlGpmSampleGet)
OF_THE_SYSTEM(nvmlGpmMetricsGet)
OF_THE_SYSTEM(nvmlGpmSampleAlloc)
OF_THE_SYSTEM(nvmlGpmSampleFree)

/* Virtual GPUs and MIG instances. */
OF_A_DEVICE(nvmlDeviceGetSupportedVgpus)
OF_A_DEVICE(nvmlDeviceGetCreatableVgpus)
OF_A_DEVICE(nvmlDeviceGetActiveVgpus)
OF_A_DEVICE(nvmlDeviceGetHostVgpuMode)
OF_A_DEVICE(nvmlDeviceGetVgpuMetadata)
OF_A_DEVICE(nvmlDeviceGetVgpuUtilization)
OF_A_DEVICE(nvmlDeviceGetVgpuProcessUtilization)
OF_A_DEVICE(nvmlDeviceGetVgpuCapabilities)
OF_A_DEVICE(nvmlDeviceGetVgpuHeterogeneousMode)
OF_A_DEVICE(nvmlDeviceGetGridLicensableFeatures_v4)
OF_A_DEVICE(nvmlDeviceGetGpuInstanceProfileInfo)
OF_A_DEVICE(nvmlDeviceGetGpuInstances)
OF_A_DEVICE(nvmlDeviceGetGpuInstanceId)
OF_A_DEVICE(nvmlDeviceGetComputeInstanceId)
OF_A_DEVICE(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)
OF_A_DEVICE(nvmlDeviceCreateGpuInstance)
OF_THE_SYSTEM(nvmlGetVgpuDriverCapabilities)
OF_THE_SYSTEM(nvmlGetVgpuVersion)
OF_THE_SYSTEM(nvmlVgpuInstanceGetUUID)
OF_THE_SYSTEM(nvmlVgpuTypeGetName)

/* Settings: a simulated GPU is changed by editing its description. */
OF_A_DEVICE(nvmlDeviceSetPersistenceMode)
OF_A_DEVICE(nvmlDeviceSetComputeMode)
OF_A_DEVICE(nvmlDeviceSetEccMode)
OF_A_DEVICE(nvmlDeviceClearEccErrorCounts)
OF_A_DEVICE(nvmlDeviceSetMigMode)
OF_A_DEVICE(nvmlDeviceSetPowerManagementLimit)
OF_A_DEVICE(nvmlDeviceSetApplicationsClocks)
OF_A_DEVICE(nvmlDeviceResetApplicationsClocks)
OF_A_DEVICE(nvmlDeviceSetGpuLockedClocks)
OF_A_DEVICE(nvmlDeviceResetGpuLockedClocks)
OF_A_DEVICE(nvmlDeviceSetCpuAffinity)
OF_A_DEVICE(nvmlDeviceClearCpuAffinity)
OF_A_DEVICE(nvmlDeviceResetNvLinkErrorCounters)

/* Units (S-class enclosures) and confidential computing. */
OF_THE_SYSTEM(nvmlUnitGetCount)
OF_THE_SYSTEM(nvmlSystemGetHicVersion)
OF_THE_SYSTEM(nvmlSystemGetConfComputeCapabilities)
OF_THE_SYSTEM(nvmlSystemGetConfComputeState)
