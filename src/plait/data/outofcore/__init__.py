"""Out-of-core relations: `pack_tables` sorts tables into blocks on disk, `packed` reads them."""
