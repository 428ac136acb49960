"""Network building blocks: torsos, the LSTM, frame stacking, and the trunk that combines them."""
