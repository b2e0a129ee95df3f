"""Training of a small network in PyTorch with all memory managed; the host writes the inputs in place."""

import ctypes
from pathlib import Path

import numpy as np
import torch

library = str(Path(__file__).with_name("managed.so").resolve())
ctypes.CDLL(library)  # reports what is missing, which PyTorch does not
torch.cuda.memory.change_current_allocator(
    torch.cuda.memory.CUDAPluggableAllocator(library, "managed_malloc", "managed_free")
)

WIDTH, BATCH, STEPS = 1024, 512, 6


def from_host(tensor):
    """Returns the host's view of a tensor in managed memory, as an array of float32 of the same shape."""
    memory = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())
    return np.ctypeslib.as_array(memory).reshape(tensor.shape)


torch.manual_seed(1)
numbers = np.random.default_rng(1)
network = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 10)).cuda()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-2, momentum=0.9)
inputs = torch.empty(BATCH, WIDTH, device="cuda")
labels = torch.randint(10, (BATCH,)).cuda()

for _ in range(STEPS):
    from_host(inputs)[:] = numbers.standard_normal((BATCH, WIDTH), dtype=np.float32)
    loss = torch.nn.functional.cross_entropy(network(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
print(f"loss after {STEPS} steps: {loss.item():.3f}")
