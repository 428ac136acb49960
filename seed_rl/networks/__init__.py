"""What networks are made of: torsos, the LSTM, frame stacks, and the trunk that puts them together."""
