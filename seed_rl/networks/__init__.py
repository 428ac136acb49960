"""Building blocks of networks: torsos, the LSTM, frame stacks, and the trunk that puts them together."""
