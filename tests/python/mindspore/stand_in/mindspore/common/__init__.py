from mindspore.common import api
