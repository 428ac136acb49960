"""Files, object stores, memory, devices, signals: what the machine offers."""
