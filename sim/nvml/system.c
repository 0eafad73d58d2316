/* The library as a whole: initialise, versions, texts of errors. */
#include <stdio.h>
#include <string.h>

#include "state.h"

NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags; /* they say how to attach to real devices */
    return sim_init();
}

NVML_API nvmlReturn_t nvmlInit_v2(void)
{
    return sim_init();
}

NVML_API nvmlReturn_t nvmlInit(void)
{
    return sim_init();
}

NVML_API nvmlReturn_t nvmlShutdown(void)
{
    return sim_shutdown();
}

NVML_API const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    }
    return "Unknown Error";
}

NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    SIM_VIEW(view);
    return sim_copy_text(version, length, view.system->driver);
}

NVML_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    SIM_VIEW(view);
    const char *text = view.system->nvml;
    return sim_copy_text(version, length, *text ? text : view.system->driver);
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    SIM_VIEW(view);
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (view.system->cuda == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *version = (int)view.system->cuda;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

/* The first word of the command line, as the real library gives it. */
NVML_API nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    SIM_VIEW(view);
    char path[40], command[1024];
    if (!name || length == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return NVML_ERROR_NOT_FOUND;
    size_t got = fread(command, 1, sizeof(command) - 1, file);
    fclose(file);
    command[got] = '\0';
    if (got == 0)
        return NVML_ERROR_NOT_FOUND;
    size_t size = strlen(command);
    if (size >= length)
        size = length - 1;
    memcpy(name, command, size);
    name[size] = '\0';
    return NVML_SUCCESS;
}
