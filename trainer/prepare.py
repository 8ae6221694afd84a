"""The command that converts Criteo TSVs to binary shards: `python -m trainer.prepare day_0.gz … --out DIR`."""

from trainer.scale.prepare import main

if __name__ == "__main__":
    main()
