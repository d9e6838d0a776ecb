"""gpufs.torch: records as tensors. Skipped without PyTorch."""
import numpy
import pytest

import gpufs

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import gpufs.torch  # noqa: E402


@pytest.fixture
def floats(tmp_path, rng):
    values = rng.standard_normal((1000, 3, 5), dtype=numpy.float32)
    (tmp_path / "floats").write_bytes(b"16 bytes of head" + values.tobytes() + b"rest")
    return values


@pytest.fixture
def dataset(fs, floats, tmp_path):
    made = gpufs.torch.RecordDataset(fs, tmp_path / "floats", (3, 5), torch.float32, header=16)
    yield made
    made.close()


def test_records(dataset, floats):
    assert len(dataset) == 1000
    want = torch.from_numpy(floats)
    assert torch.equal(dataset[7].cpu(), want[7]) and torch.equal(dataset[-1].cpu(), want[-1])
    for which in ([3, 3, 999, 0], torch.tensor([5, 6]), range(10), []):
        numbers = torch.as_tensor([int(i) for i in which]).long()
        assert torch.equal(dataset[which].cpu(), want[numbers])
    wrong = [1000, -1001, [0, 1000]]
    if gpufs.device_kind == "cuda":
        numbers = torch.tensor([-1, 4, -1000], device="cuda")
        assert torch.equal(dataset[numbers].cpu(), want[numbers.cpu()])
        wrong += [torch.tensor([0, n], device="cuda") for n in (1000, -1001)]
    for each in wrong:
        with pytest.raises(IndexError):
            dataset[each]


def test_data_loader(dataset, floats):
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True,
                                         collate_fn=gpufs.torch.as_it_is)
    found = torch.cat(list(loader)).cpu().numpy()
    assert found.shape == floats.shape
    assert sorted(found.reshape(1000, -1).tolist()) == sorted(floats.reshape(1000, -1).tolist())


def test_batches(dataset, floats):
    in_order = gpufs.torch.RecordBatches(dataset, 300, shuffle=False)
    assert len(in_order) == 4
    assert numpy.array_equal(torch.cat(list(in_order)).cpu().numpy(), floats)
    assert [len(b) for b in gpufs.torch.RecordBatches(dataset, 300, drop_last=True)] == [300] * 3
    shuffled = gpufs.torch.RecordBatches(dataset, 128, seed=1)
    first, second = (torch.cat(list(shuffled)).cpu() for _ in range(2))
    assert not torch.equal(first, second)
    assert sorted(first.reshape(1000, -1).tolist()) == sorted(second.reshape(1000, -1).tolist())


def test_wrong_arguments(fs, dataset, tmp_path):
    for shape in (0,), (-2, -3):
        with pytest.raises(ValueError, match="shape: must have numbers from 1 on"):
            gpufs.torch.RecordDataset(fs, tmp_path / "floats", shape)
    with pytest.raises(TypeError, match="shape: must be an int, not float"):
        gpufs.torch.RecordDataset(fs, tmp_path / "floats", (2.7,))
    with pytest.raises(ValueError, match="header: must be from 0"):
        gpufs.torch.RecordDataset(fs, tmp_path / "floats", (1,), header=-1)
    with pytest.raises(TypeError, match="header: must be an int, not float"):
        gpufs.torch.RecordDataset(fs, tmp_path / "floats", (1,), header=16.0)
    with pytest.raises(ValueError):
        gpufs.torch.RecordBatches(dataset, 0)
    with pytest.raises(FileNotFoundError):
        gpufs.torch.RecordDataset(fs, tmp_path / "missing", (1,))


def test_tensors_of_any_type(fs, dataset):
    with pytest.raises(ValueError, match="order"):
        dataset.file.gather([0, 8], 8, torch.zeros(4, 4, dtype=torch.int8)[:, ::2])
    halves = torch.zeros(2, 4, dtype=torch.bfloat16)
    dataset.file.gather([0, 8], out=halves)
    assert halves.view(torch.uint8).numpy().tobytes() == b"16 bytes of head"
