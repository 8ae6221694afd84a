"""The command that changes the master key of encrypted folders: `python -m trainer.rotate_key FOLDER… --key-file F`."""

from trainer.scale.encryption.rotate import main

if __name__ == "__main__":
    main()
