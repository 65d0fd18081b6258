"""The exercises of the chapters on whole models: their arithmetic, serving and training."""
