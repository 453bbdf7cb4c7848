from mindspore.mint.nn import functional
