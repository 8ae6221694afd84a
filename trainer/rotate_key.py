"""Change the key of encrypted folders: `python -m trainer.rotate_key FOLDER… --key-file OLD --new-key-file NEW`."""

from trainer.scale.encryption.rotate import main

if __name__ == "__main__":
    main()
