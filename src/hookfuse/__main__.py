"""`python -m hookfuse` is `hookfuse`."""

from hookfuse.cli import main

if __name__ == "__main__":
    main()
