"""Records of files for PyTorch: a Dataset whose batches are gathered by one kernel.

PyTorch is imported when a dataset is made.
"""
from __future__ import annotations

import os
from typing import Any, Iterator, Sequence

import gpufs
from gpufs import _tensors

__all__ = ["RecordBatches", "RecordDataset", "as_it_is"]


class RecordDataset:
    """A map-style dataset of fixed-size records of a file: torch.utils.data.Dataset by its methods.

    `shape` and `dtype` (of PyTorch) are those of a record; its size follows. `header`: bytes before
    the first record. A rest of the file that is no whole record is left out.

    dataset[i] is one record. dataset[[i, j, ...]] and dataset[tensor] are a batch, read by one
    kernel; DataLoader asks for such batches through __getitems__. Tensors are on the filesystem's
    device: a CUDA device, or host memory for the emulated one. A DataLoader must have
    num_workers=0: a filesystem does not work in a child of fork().
    """

    def __init__(self, fs: gpufs.Filesystem, path: str | os.PathLike[str], shape: Sequence[int],
                 dtype: Any = None, *, header: int = 0) -> None:
        import torch

        self._torch = torch
        self.dtype = torch.uint8 if dtype is None else dtype
        self.shape = tuple(_tensors.integer(n, "shape") for n in shape)
        self.record_bytes = self.dtype.itemsize
        for n in self.shape:
            if n < 1:
                raise ValueError(f"shape: must have numbers from 1 on, is {self.shape}")
            self.record_bytes *= n
        self.header = _tensors.byte_number(header, "header")
        self.device = torch.device("cuda", fs.device) if gpufs.device_kind == "cuda" else (
            torch.device("cpu"))
        self.file = fs.open(path)
        self._count = max(0, self.file.size - self.header) // self.record_bytes
        self.file.advise("random")

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if hasattr(index, "__index__") and getattr(index, "ndim", 0) == 0:
            return self.gather([index.__index__()])[0]
        return self.gather(index)

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """A batch, as one tensor. DataLoader's collate_fn must be `gpufs.torch.as_it_is`."""
        return self.gather(indices)

    def gather(self, indices: Any, out: Any = None) -> Any:
        """The records of `indices` as a tensor (len(indices), *shape). Negative ones count from
        the end. Raises IndexError, TypeError for other numbers than whole ones, and ValueError for
        an `out` with gaps."""
        torch = self._torch
        which = torch.as_tensor(indices)
        if which.numel() != 0 and (which.dtype == torch.bool or which.is_floating_point()):
            raise TypeError(f"indices: must be whole numbers, are {which.dtype}")
        which = which.to(torch.int64).reshape(-1)
        which = torch.where(which < 0, which + self._count, which)
        wrong = (which < 0) | (which >= self._count)
        if bool(wrong.any()):
            raise IndexError(f"record {int(which[wrong][0])}: the file has {self._count}")
        if out is None:
            out = torch.empty((len(which), *self.shape), dtype=self.dtype, device=self.device)
        elif not out.is_contiguous():
            raise ValueError("out: must be without gaps")  # flattened, it would be a copy
        if len(which) == 0:
            return out
        offsets = which * self.record_bytes + self.header
        self.file.gather(offsets, self.record_bytes, out.view(torch.uint8).reshape(-1))
        return out

    def close(self) -> None:
        self.file.close()


def as_it_is(batch: Any) -> Any:
    """A collate_fn for DataLoader: the dataset's batches are whole already."""
    return batch


class RecordBatches:
    """Batches of a RecordDataset in random order, or in order. Each is gathered while the one
    before is used. Iterate it: an epoch each time, with another order.

    `drop_last`: leaves out a last batch that is shorter.
    """

    def __init__(self, dataset: RecordDataset, batch_size: int, *, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size: must be at least 1, is {batch_size}")
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        self.seed, self.drop_last, self.epoch = seed, drop_last, 0

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest != 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        torch = self.dataset._torch
        order = torch.arange(len(self.dataset))
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            order = torch.randperm(len(self.dataset), generator=generator)
        self.epoch += 1
        ahead = None
        for number in range(len(self)):
            # Before the next one: memory is freed while no transfer runs.
            batch = None if ahead is None else self._finish(ahead)
            ahead = self._start(order[number * self.batch_size:(number + 1) * self.batch_size])
            if batch is not None:
                yield batch
        if ahead is not None:
            yield self._finish(ahead)

    def _start(self, which: Any) -> Any:
        d = self.dataset
        torch = d._torch
        out = torch.empty((len(which), *d.shape), dtype=d.dtype, device=d.device)
        offsets = which * d.record_bytes + d.header
        stream = torch.cuda.Stream(d.device) if out.is_cuda else None
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream(d.device))
            out.record_stream(stream)
        transfer = d.file.gather(offsets, d.record_bytes, out.view(torch.uint8).reshape(-1),
                                 stream=stream, wait=False)
        return transfer, out

    @staticmethod
    def _finish(started: Any) -> Any:
        transfer, out = started
        transfer.wait()
        return out
