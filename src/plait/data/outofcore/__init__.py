"""Relations in blocks on disk, for what is larger than memory: `pack` makes a folder, `packed` reads it."""
