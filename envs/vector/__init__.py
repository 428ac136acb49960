"""What suites are built from: vector environments and wrappers of them."""
