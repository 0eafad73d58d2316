"""The tests that run on nodes: a function a check, started by `gpufleet verify`."""
