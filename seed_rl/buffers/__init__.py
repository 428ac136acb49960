"""Experience storage on the learner's device. It deals in tensors and slots and knows no agents or transports."""
