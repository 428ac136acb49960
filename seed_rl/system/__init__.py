"""Files, memory, devices, signals: what the machine offers."""
