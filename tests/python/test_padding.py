"""Sequence lengths, shapes and what padding costs."""

import pytest
from frameworks import framework

torch = framework("torch")
tidemark_torch = framework("tidemark.torch")
pytestmark = [pytest.mark.unsanitized, pytest.mark.xdist_group("torch")]


def batch_of(*lengths):
    width = max(lengths)
    mask = torch.tensor([[1] * n + [0] * (width - n) for n in lengths])
    return {"input_ids": mask * 7, "attention_mask": mask, "labels": mask * 7}


def test_padding_is_counted_in_bytes_of_the_batch():
    meter = tidemark_torch.PaddingMeter()
    meter.feed(batch_of(10, 30, 20))
    meter.feed(batch_of(5, 5))
    assert (meter.tokens, meter.padding) == (70, 30)
    assert meter.padding_bytes == 30 * 3 * 8, "three tensors of 8 bytes each"
    assert meter.share == 0.3
    assert meter.shapes == {(3, 30): 1, (2, 5): 1}
    assert meter.lengths == {10: 1, 30: 1, 20: 1, 5: 2}
    assert "2 batches of 2 shapes, 5 sequences: 30.0 % padding, 720 B in all" in str(meter)


def test_a_pad_id_stands_in_for_a_mask():
    meter = tidemark_torch.PaddingMeter(pad_id=0, bytes_per_token=1000)
    meter.feed(torch.tensor([[5, 6, 0, 0], [5, 6, 7, 8]]))
    meter.feed([torch.tensor([[5, 6, 0]]), torch.tensor([1])])
    assert (meter.tokens, meter.padding, meter.padding_bytes) == (8, 3, 3 * 1008)


def test_the_histogram_covers_all_lengths():
    meter = tidemark_torch.PaddingMeter()
    for length in range(1, 101):
        meter.feed(batch_of(length))
    table = meter.histogram(10)
    assert [row[:2] for row in table] == [(1 + 10 * i, 10 + 10 * i) for i in range(10)]
    assert [row[2] for row in table] == [10] * 10
    assert len(str(meter).splitlines()) == 11


@pytest.mark.parametrize("batch", [None, 5, "text", [], {}, {"attention_mask": 3}, {"input_ids": None}])
def test_what_is_no_batch_of_sequences_is_passed_over(batch, said):
    meter = tidemark_torch.PaddingMeter(pad_id=0)
    meter.feed(batch)
    assert meter.batches == 0
    assert str(meter) == "no batch with sequences was seen"
