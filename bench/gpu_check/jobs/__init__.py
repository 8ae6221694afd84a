"""The jobs of the GPU kit. torchrun starts each as `-m bench.gpu_check.jobs.NAME FOLDER SETTING …` on all ranks."""
