"""Small real environments and strict fakes, for tests and quick runs."""
