"""The jobs of the GPU kit, one module for each. `__main__` runs the function `main` of a module on all ranks."""
