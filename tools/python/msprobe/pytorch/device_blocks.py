"""Tensors of an accelerator in blocks: a wide copy of a whole one could take the memory that the training needs next."""
import torch

MOST_ELEMENTS = 2 ** 24   # of a block: its copy in float64 takes 128 MiB


def blocks_of(values, most=MOST_ELEMENTS):
    """Views of at most `most` elements that make up the tensor, whatever its layout."""
    if values.numel() <= most:
        yield values
        return
    rows = max(1, most // (values.numel() // values.shape[0]))
    for part in values.split(rows):
        yield from blocks_of(part[0] if len(part) == 1 else part, most)


def mean_of_blocks(means, counts):
    """The mean of everything, of the means of blocks and their numbers of elements."""
    total = sum(counts)
    mean = means[0] * (counts[0] / total)
    for part, count in zip(means[1:], counts[1:]):
        mean = mean + part * (count / total)
    return mean


def norm_of_blocks(norms):
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))


def largest(numbers):
    """NaN if one of them is."""
    return numbers[0] if len(numbers) == 1 else torch.stack(numbers).max()


def smallest(numbers):
    return numbers[0] if len(numbers) == 1 else torch.stack(numbers).min()
