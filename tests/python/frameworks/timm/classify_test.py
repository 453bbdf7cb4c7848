"""Models of timm."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Classify(harness.TrainingCase):
    framework = "timm"
    script = "classify.py"
    imports = ("torch", "torch_training", "torchvision_without_kernels", "timm")
    usual = ["dump:mix:tensor", "dump:L0:statistics monitor", "launch dump:mix:statistics", "launch monitor"]

    def test_vision_transformer(self):
        self.subject, self.arguments, self.fault = "ViT", ("vit_tiny_patch16_224",), "blocks.1.mlp.fc1"
        self.check_everything()

    def test_residual_network(self):
        self.subject, self.arguments, self.fault = "ResNet-18", ("resnet18",), "layer2.0.conv2"
        self.usual = ["dump:mix:statistics monitor"]
        self.check_everything()


if __name__ == "__main__":
    unittest.main(verbosity=2)
