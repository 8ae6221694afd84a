"""The dry run of a job of any size: `python -m trainer.plan --preset zionex-a --ranks 128 --ranks-per-host 8`."""

from trainer.scale.plan_command import main

if __name__ == "__main__":
    main()
