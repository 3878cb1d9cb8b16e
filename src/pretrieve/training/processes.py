"""Several processes that train one model, one on each GPU: what they exchange.

Every process makes the whole global batch from (seed, step), which is cheap, and computes its share of the micro-batches.
Losses are sums divided by counts of the global batch, so gradients only have to be *added*: no averaging, and no
factor that depends on the number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed, nn

from pretrieve.base.errors import ConfigError
from pretrieve.base.program import die_with_parent


@dataclass(frozen=True)
class Processes:
    """This process's place among those of a run: ``rank`` of ``world``. Alone (0 of 1) every method is a no-op."""

    rank: int = 0
    world: int = 1

    @classmethod
    def join(cls) -> Processes:
        """Join the group that ``torchrun`` describes in the environment; alone when there is none.

        nccl where there are GPUs, else gloo. Each process takes the GPU of its local rank; call this before anything touches
        one. From then on it ends when torchrun is killed.

        Raises ConfigError when the environment is only half that of ``torchrun``, or has more processes than there are GPUs.
        """
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world == 1:
            return cls()
        if distributed.is_initialized():  # by the command that this process ran before
            return cls(distributed.get_rank(), distributed.get_world_size())
        missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
        if missing:
            raise ConfigError(f"WORLD_SIZE is {world}, but {', '.join(missing)} is not set; start it with torchrun.")
        if torch.cuda.is_available():
            local, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
            if local >= gpus:
                raise ConfigError(f"process {local} of this machine finds {gpus} GPUs; use --nproc-per-node {gpus}.")
            torch.cuda.set_device(local)
        die_with_parent()
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=timedelta(minutes=30))
        return cls(distributed.get_rank(), distributed.get_world_size())

    def leave(self) -> None:
        """Leave the group; the last call of a program."""
        if self.world > 1:
            distributed.destroy_process_group()

    @property
    def first(self) -> bool:
        """True in the one process that writes files."""
        return self.rank == 0

    def share(self, items: Sequence) -> list[tuple[int, object]]:
        """This process's items, with their numbers: every ``world``-th from ``rank`` on."""
        return [(i, items[i]) for i in range(self.rank, len(items), self.world)]

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.world > 1:
            distributed.barrier()

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum of a tensor over all processes, in place."""
        if self.world > 1:
            distributed.all_reduce(tensor)
        return tensor

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients over all processes, as one flat tensor.

        A parameter without a gradient in every process keeps none, so that the optimiser leaves it alone as it would in
        one process.
        """
        if self.world == 1:
            return
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        device = parameters[0].device
        used = self.add(torch.tensor([p.grad is not None for p in parameters], dtype=torch.float32, device=device))
        parameters = [p for p, count in zip(parameters, used.tolist(), strict=True) if count]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters])
        self.add(flat)
        for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter)

    def gather_parts(self, parts: dict[int, torch.Tensor], rows: Sequence[int]) -> list[torch.Tensor]:
        """Tensors that are spread over the processes, in all of them.

        parts: number of a part → its (rows[number], k) tensor, for the parts this process has; rows: of all parts.
        Returns all parts in order, detached.

        Raises ConfigError when there are fewer parts than processes; in all of them.
        """
        if self.world == 1:
            return [parts[i].detach() for i in range(len(rows))]
        if len(rows) < self.world:
            raise ConfigError(f"{len(rows)} micro-batches for {self.world} processes: one has nothing to do.")
        some = next(iter(parts.values()))
        whole = some.new_zeros(sum(rows), some.shape[1])
        pieces = list(whole.split(list(rows)))
        for number, part in parts.items():
            pieces[number].copy_(part.detach())
        self.add(whole)
        return pieces

    def every(self, number: float) -> list[float]:
        """One number of each process, in the order of their ranks; all have given theirs when it returns."""
        if self.world == 1:
            return [number]
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        numbers = torch.zeros(self.world, dtype=torch.float64, device=device)
        numbers[self.rank] = number
        return self.add(numbers).tolist()


#: No group: one process by itself.
ALONE = Processes()
