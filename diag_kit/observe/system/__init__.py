"""CPU, memory, space, network, limits and processes: live over a short window, and as people paste them."""
