/* Most queries answer one value of one GPU: these macros write such functions. */
#ifndef GPUFLEET_GETTERS_H
#define GPUFLEET_GETTERS_H

#include "state.h"

/* Answers `expression`, in which `gpu` is the GPU asked about. */
#define SIM_GETTER(function, type, expression)                                                \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, type *value)                          \
    {                                                                                         \
        SIM_DEVICE(view, device);                                                             \
        const struct sim_gpu *gpu = view.gpu;                                                 \
        (void)gpu;                                                                            \
        if (!value)                                                                           \
            return NVML_ERROR_INVALID_ARGUMENT;                                               \
        *value = (type)(expression);                                                          \
        return NVML_SUCCESS;                                                                  \
    }

/* Same, NOT_SUPPORTED where the description does not give the value. */
#define SIM_OPTIONAL_GETTER(function, type, expression)                                       \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, type *value)                          \
    {                                                                                         \
        SIM_DEVICE(view, device);                                                             \
        const struct sim_gpu *gpu = view.gpu;                                                 \
        if (!value)                                                                           \
            return NVML_ERROR_INVALID_ARGUMENT;                                               \
        if ((expression) == 0)                                                                \
            return NVML_ERROR_NOT_SUPPORTED;                                                  \
        *value = (type)(expression);                                                          \
        return NVML_SUCCESS;                                                                  \
    }

/* Copies the text `expression` into a buffer of the caller. */
#define SIM_TEXT_GETTER(function, expression)                                                 \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, char *text, unsigned int length)      \
    {                                                                                         \
        SIM_DEVICE(view, device);                                                             \
        const struct sim_gpu *gpu = view.gpu;                                                 \
        return sim_copy_text(text, length, expression);                                       \
    }

#endif
