"""Memory that a device has left."""

import os

import torch


def free_bytes(device: torch.device) -> int:
    """Free memory of a device, or of the machine."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on this system
        return 4 << 30
