"""Stores of experience on the learner's device. They know tensors and slots, not agents or transports."""
