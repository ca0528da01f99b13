"""Datasets for PyTorch, JAX, Keras and TensorFlow."""
